"""Which update, if any, pays after a query: a bandit over skip, head and full that counts in seconds.

An update is bought with seconds now and pays in seconds saved over the next queries. What an action gains is taken to
be proportional to the signal s (how far off the drafter was at rejections), one slope an action, by discounted least
squares; what it costs is measured. Exploring has a budget of its own, a share of the serving time. Pure arithmetic: no
clock, no model; every number comes in from outside. `QuerySurprise` is that s.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Action = Literal["skip", "head", "full"]
Reason = Literal["exploit", "explore", "skip", "guard"]
DISCOUNT, RESIDUAL0, OPTIMISM = 0.97, 0.05**2, 2.0
FEWEST_REJECTIONS, FEWEST_EVENTS = 2, 32
SERVING_RATE, COST_RATE, RESIDUAL_RATE = 0.1, 0.2, 0.1


@dataclass(frozen=True, slots=True)
class BanditKnobs:
    """A query's knobs. `caution` c: standard errors a sure gain must clear; `horizon` Hq: queries it may pay off in.

    `budget` phi: share of the serving time that exploring may take; `cost_scale` weighs costs in decisions only, so
    that a person can watch the choice change; `tries` n0: times an action is tried before its bound means anything.
    """

    caution: float = 1.0
    horizon: float = 20.0
    budget: float = 0.02
    cost_scale: float = 1.0
    tries: int = 2
    actions: tuple[Action, ...] = ("head", "full")


@dataclass(slots=True)
class ServingAverages:
    """Running averages of queries: mean acceptance length, seconds a round, tokens a query; all serving seconds."""

    tau: float = 0.0
    round_s: float = 0.0
    tokens: float = 0.0
    seconds: float = 0.0
    n: int = 0

    def add(self, tau: float, round_s: float, tokens: float, seconds: float) -> None:
        rate = 1.0 if self.n == 0 else SERVING_RATE
        self.tau += rate * (tau - self.tau)
        self.round_s += rate * (round_s - self.round_s)
        self.tokens += rate * (tokens - self.tokens)
        self.seconds += seconds
        self.n += 1

    def saves(self, gain: float, horizon: float) -> float:
        """Seconds saved over the next queries if tau rises by `gain`: rounds that need not be run."""
        if not self.n or self.tau <= 0:
            return 0.0
        gain = max(gain, -0.9 * self.tau)  # a drafter cannot lose more than all it has
        return horizon * self.tokens * self.round_s * gain / (self.tau * (self.tau + gain))


@dataclass(slots=True)
class Arm:
    """One action: what it gains per unit of signal, and what it costs. `cost` begins at a timed dry run."""

    cost: float
    n: int = 0
    sxx: float = 0.0
    sxy: float = 0.0
    residual: float = RESIDUAL0

    @property
    def slope(self) -> float:
        return self.sxy / (self.sxx + 1)

    def gain(self, s: float) -> float:
        """Expected rise of tau at signal s."""
        return self.slope * s

    def error(self, s: float) -> float:
        return s * math.sqrt(self.residual / (self.sxx + 1))

    def learn(self, s: float, gain: float, seconds: float) -> None:
        self.residual += RESIDUAL_RATE * ((gain - self.gain(s)) ** 2 - self.residual)
        self.sxx, self.sxy = DISCOUNT * self.sxx + s * s, DISCOUNT * self.sxy + s * gain
        self.cost += COST_RATE * (seconds - self.cost)
        self.n += 1


@dataclass(frozen=True, slots=True)
class View:
    """What the bandit thought of one action at one query, in seconds (`gain`, `error` in tokens a round).

    `cost` as measured; bounds hold `charge`, the cost as the knob weighs it.
    """

    action: Action
    n: int  # times it was taken
    gain: float
    error: float
    save: float
    cost: float
    charge: float
    lcb: float
    ucb: float  # inf: too seldom tried

    @property
    def mean(self) -> float:
        return self.save - self.cost


@dataclass(frozen=True, slots=True)
class BanditDecision:
    """What to do after a query, and why. `views` of all actions that were allowed."""

    action: Action
    reason: Reason
    s: float
    views: Mapping[Action, View]
    spent: float
    budget: float

    @property
    def view(self) -> View | None:
        """Of the action taken; None for skip."""
        return self.views.get(self.action)

    @property
    def regret(self) -> float:
        """What was given up against the best expected profit; skipping has none."""
        best = max([0.0, *(view.mean for view in self.views.values())])
        return best - (self.view.mean if self.view else 0.0)


@dataclass(slots=True)
class Bandit:
    """The state that lasts from query to query."""

    arms: dict[Action, Arm]
    served: ServingAverages = field(default_factory=ServingAverages)
    explored_s: float = 0.0

    def decide(
        self, s: float, rejections: int, events: int, setting: BanditKnobs, frozen: bool = False
    ) -> BanditDecision:
        """Exploit what surely pays, else explore within the budget, else skip. Ties go to the cheaper action.

        `frozen`: look, and skip.
        """
        budget = self.budget(setting)
        views = {action: self._view(action, s, setting) for action in setting.actions if action in self.arms}

        def decision(action: Action, reason: Reason) -> BanditDecision:
            return BanditDecision(action, reason, s, views, self.explored_s, budget)

        if rejections < FEWEST_REJECTIONS or events < FEWEST_EVENTS or not views or frozen:
            return decision("skip", "skip")
        sure = max(views.values(), key=lambda view: (view.lcb, -view.cost))
        if sure.lcb > 0:
            return decision(sure.action, "exploit")
        hopeful = max(views.values(), key=lambda view: (view.ucb, -view.cost))
        if hopeful.ucb > 0 and self.explored_s + hopeful.charge <= budget:
            self.explored_s += hopeful.cost
            return decision(hopeful.action, "explore")
        return decision("skip", "skip")

    def budget(self, setting: BanditKnobs) -> float:
        """Seconds that exploring may have taken by now."""
        return setting.budget * self.served.seconds

    def _view(self, action: Action, s: float, setting: BanditKnobs) -> View:
        arm = self.arms[action]
        gain, error, charge = arm.gain(s), arm.error(s), arm.cost * setting.cost_scale

        def saves(gain: float) -> float:
            return self.served.saves(gain, setting.horizon)

        ucb = saves(gain + OPTIMISM * error) - charge if arm.n >= setting.tries else math.inf
        lcb = saves(gain - setting.caution * error) - charge
        return View(action, arm.n, gain, error, saves(gain), arm.cost, charge, lcb, ucb)

    def learn(self, done: BanditDecision, gain: float, seconds: float) -> None:
        """The measured gain of the action taken (0 for one that was taken back) and the seconds it took."""
        if done.action != "skip":
            self.arms[done.action].learn(done.s, gain, seconds)


SMALLEST = 1e-4


@dataclass(slots=True)
class QuerySurprise:
    """Surprise at the tokens written in place of rejected ones, summed over a query."""

    total: float = 0.0
    rejections: int = 0
    rounds: int = 0

    def round(self, probs: "list[float] | tuple[float, ...]" = ()) -> None:
        """A round is over. `probs`: draft probability of the emitted token where drafted ones were rejected.

        0 for a token outside the draft vocabulary.
        """
        self.rounds += 1
        for prob in probs:
            self.rejections += 1
            self.total -= math.log(max(prob, SMALLEST))

    @property
    def per_round(self) -> float:
        return self.total / self.rounds if self.rounds else 0.0


@dataclass(slots=True)
class Anchor:
    """When to give up what was learnt: tau under 95 % of what the anchor had, for five queries on end.

    Whether it was the weights' fault is asked next, in `query`'s caller: texts may simply have become harder.
    """

    tau: float | None = None
    low: int = 0

    def query(self, smoothed_tau: float) -> bool:
        """A query is over; whether the anchor's weights should be looked at now."""
        if self.tau is None:
            self.tau = smoothed_tau
        self.low = self.low + 1 if smoothed_tau < 0.95 * self.tau else 0
        return self.low >= 5

    def accepted(self, smoothed_tau: float) -> None:
        """An update was kept: the anchor follows slowly, in tau as in weights."""
        self.tau = smoothed_tau if self.tau is None else self.tau + 0.01 * (smoothed_tau - self.tau)

    def again(self, smoothed_tau: float) -> None:
        """Count from here: the anchor's weights are in use, or did no better on the same texts."""
        self.tau, self.low = smoothed_tau, 0
