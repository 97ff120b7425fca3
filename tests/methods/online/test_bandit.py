"""The bandit with a fake clock: the five worlds, its bounds by hand, and what it must never do."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from specviz.methods.online.bandit import (
    SMALLEST,
    Action,
    Anchor,
    Arm,
    Bandit,
    BanditKnobs,
    QuerySurprise,
    ServingAverages,
)

ROUND_S, TOKENS, QUERIES = 0.03, 64, 600


@dataclass(frozen=True)
class World:
    """A drafter that drifts off its target. `mends[a]`: share of the distance an update takes away (negative: adds)."""

    mends: dict[Action, float]
    costs: dict[Action, float]
    drift: float = 0.06

    def run(
        self, fixed: Action | None = None, setting: BanditKnobs | None = None, seed: int = 0
    ) -> tuple[float, Bandit]:
        """Milliseconds a token over 600 queries, always by one action or by the bandit's choice."""
        rng = np.random.default_rng(seed)
        bandit = Bandit({action: Arm(cost) for action, cost in self.costs.items()})
        distance, seconds, tokens = 1.0, 0.0, 0
        for _ in range(QUERIES):
            distance = min(distance + self.drift, 3.0)
            tau = max(1.2, (5.0 - 1.2 * distance)) * (1 + 0.03 * rng.normal())
            took = TOKENS / tau * ROUND_S
            seconds, tokens = seconds + took, tokens + TOKENS
            bandit.served.add(tau, ROUND_S, TOKENS, took)
            s = 0.8 * distance * (1 + 0.1 * rng.normal())
            done = bandit.decide(s, rejections=9, events=64, setting=setting or BanditKnobs())
            action = done.action if fixed is None else fixed
            if action == "skip":
                continue
            cost = self.costs[action] * (1 + 0.05 * rng.normal())
            seconds += cost
            gain = 1.2 * distance * self.mends[action]
            measured = gain + 0.05 * rng.normal()
            if measured < -0.01:
                measured = 0.0  # held-out coverage fell: the guard takes the update back, its cost is spent
            else:
                distance *= 1 - self.mends[action]
            if fixed is None:
                bandit.learn(done, measured, cost)
        return 1000 * seconds / tokens, bandit


WORLDS = {
    "a cheap head helps": World({"head": 0.5, "full": 0.6}, {"head": 0.02, "full": 0.4}),
    "only full helps": World({"head": 0.0, "full": 0.7}, {"head": 0.02, "full": 0.2}),
    "nothing pays": World({"head": 0.02, "full": 0.03}, {"head": 1.5, "full": 6.0}),
    "updates are useless": World({"head": 0.0, "full": 0.0}, {"head": 0.05, "full": 0.4}),
    "updates do harm": World({"head": -0.3, "full": -0.3}, {"head": 0.05, "full": 0.4}),
}


BEST = dict(zip(WORLDS, ("head", "full", "skip", "skip", "skip"), strict=True))


@pytest.mark.parametrize("name", WORLDS)
def test_five_worlds(name: str) -> None:
    """Near the best fixed action everywhere; far better than doing nothing where something helps.

    Which action that is differs by world, as worked out by hand.
    """
    world = WORLDS[name]
    fixed = {action: world.run(action)[0] for action in ("skip", "head", "full")}  # type: ignore[arg-type]
    assert min(fixed, key=lambda action: fixed[action]) == BEST[name]
    ours, bandit = world.run()
    best = min(fixed.values())
    assert ours <= 1.04 * best, (ours, fixed)
    if name in ("a cheap head helps", "only full helps"):
        assert ours < 0.85 * fixed["skip"]
    else:
        assert bandit.explored_s <= 0.02 * bandit.served.seconds


def test_the_control_that_always_updates_loses_where_nothing_pays() -> None:
    """The worlds can tell: always updating is far off in three of them."""
    for name in ("nothing pays", "updates are useless", "updates do harm"):
        world = WORLDS[name]
        assert world.run("full")[0] > 1.1 * world.run("skip")[0]


def test_a_dear_update_is_skipped() -> None:
    """`cost_scale` weighs costs in decisions alone: a person can watch the choice change."""
    world = WORLDS["a cheap head helps"]
    plain, dear = world.run()[1], world.run(setting=BanditKnobs(cost_scale=1e4))[1]
    assert plain.arms["head"].n > 20
    assert dear.arms["head"].n == dear.arms["full"].n == 0
    assert plain.arms["head"].cost == pytest.approx(0.02, rel=0.2)


def test_savings_by_hand() -> None:
    """Rounds a query fall from G/tau to G/(tau+d): Hq G T d / (tau (tau + d)) seconds."""
    served = ServingAverages()
    assert served.saves(1.0, 20) == 0.0
    served.add(tau=3.0, round_s=0.1, tokens=60, seconds=2.0)
    assert served.saves(1.0, 20) == pytest.approx(20 * (60 / 3 - 60 / 4) * 0.1)
    assert served.saves(-1.0, 20) == pytest.approx(20 * (60 / 3 - 60 / 2) * 0.1)
    served.add(tau=5.0, round_s=0.1, tokens=60, seconds=1.0)
    assert (served.tau, served.seconds) == (pytest.approx(3.2), 3.0)


def test_an_arm_by_hand() -> None:
    arm = Arm(cost=1.0)
    assert (arm.gain(2.0), arm.error(2.0)) == (0.0, pytest.approx(2.0 * 0.05))
    arm.learn(s=2.0, gain=1.0, seconds=2.0)
    assert arm.slope == pytest.approx(2 / 5)
    assert arm.cost == pytest.approx(1.2)
    assert arm.residual == pytest.approx(0.9 * 0.0025 + 0.1 * 1.0)
    assert arm.error(2.0) == pytest.approx(2 * math.sqrt(arm.residual / 5))
    arm.learn(s=1.0, gain=0.4, seconds=1.2)
    assert arm.slope == pytest.approx((0.97 * 2 + 0.4) / (0.97 * 4 + 1 + 1))


def ready(**costs: float) -> Bandit:
    bandit = Bandit({action: Arm(cost) for action, cost in costs.items()})  # type: ignore[misc]
    bandit.served.add(3.0, 0.1, 60, 100.0)
    return bandit


def test_explores_within_its_budget_cheapest_first() -> None:
    """Untried actions have no upper bound: the cheaper first, none beyond phi of the serving time."""
    bandit = ready(head=0.5, full=1.4)
    first = bandit.decide(1.0, 5, 64, BanditKnobs())
    assert (first.action, first.reason, first.budget) == ("head", "explore", pytest.approx(2.0))
    assert math.isinf(first.views["full"].ucb)
    bandit.learn(first, 0.0, 0.5)
    bandit.learn(bandit.decide(1.0, 5, 64, BanditKnobs()), 0.0, 0.5)
    third = bandit.decide(1.0, 5, 64, BanditKnobs())
    assert (third.action, third.reason, third.spent) == ("skip", "skip", pytest.approx(1.0))  # 1.0 + 1.4 > 2.0
    assert bandit.explored_s == pytest.approx(1.0)


@pytest.mark.parametrize(("rejections", "events"), [(1, 64), (5, 31)])
def test_too_little_to_learn_from_is_skipped(rejections: int, events: int) -> None:
    done = ready(head=0.1).decide(1.0, rejections, events, BanditKnobs())
    assert (done.action, done.reason) == ("skip", "skip")


def test_exploits_what_surely_pays_and_counts_its_regret() -> None:
    bandit = ready(head=0.5, full=0.5)
    for _ in range(30):
        bandit.arms["head"].learn(1.0, 0.5, 0.5)
        bandit.arms["full"].learn(1.0, 0.2, 0.5)
    done = bandit.decide(1.0, 5, 64, BanditKnobs())
    assert (done.action, done.reason) == ("head", "exploit")
    assert done.regret == 0.0
    assert bandit.explored_s == 0.0
    dear = bandit.decide(1.0, 5, 64, BanditKnobs(actions=("full",)))
    assert dear.action == "full"
    kept = bandit.decide(1.0, 1, 64, BanditKnobs())
    assert kept.regret == pytest.approx(kept.views["head"].mean)  # skipping gave that up


def test_signal_by_hand() -> None:
    """-log of the draft probability at rejected places, floored; by round for decisions."""
    signal = QuerySurprise()
    signal.round([0.5])
    signal.round()
    signal.round([0.0])
    assert signal.total == pytest.approx(math.log(2) - math.log(SMALLEST))
    assert (signal.rejections, signal.per_round) == (2, pytest.approx(signal.total / 3))
    assert QuerySurprise().per_round == 0.0


def test_the_anchor_is_called_after_five_bad_queries_on_end() -> None:
    anchor = Anchor()
    assert [anchor.query(tau) for tau in (4.0, 3.7, 3.7, 3.7, 3.7, 3.9)] == [False] * 6
    assert [anchor.query(3.7) for _ in range(5)] == [False] * 4 + [True]
    anchor.accepted(5.0)
    assert anchor.tau == pytest.approx(4.01)
    anchor.again(3.0)
    assert [anchor.query(2.9) for _ in range(6)] == [False] * 6  # counted from where it stands now


def test_frozen_looks_and_skips() -> None:
    """The same bounds as without, nothing taken and nothing charged."""
    bandit = ready(head=0.5, full=1.4)
    frozen = bandit.decide(1.0, 5, 64, BanditKnobs(), frozen=True)
    assert (frozen.action, frozen.reason, bandit.explored_s) == ("skip", "skip", 0.0)
    assert frozen.views == bandit.decide(1.0, 5, 64, BanditKnobs()).views


def test_the_scale_weighs_decisions_and_nothing_else() -> None:
    """Costs on view, regret and what exploring is charged are the true ones."""
    bandit = ready(head=0.5)
    for _ in range(30):
        bandit.arms["head"].learn(1.0, 0.5, 0.5)
    plain, cheap, dear = (bandit.decide(1.0, 5, 64, BanditKnobs(cost_scale=scale)).views["head"] for scale in (1, 0, 9))
    assert plain.cost == cheap.cost == dear.cost == pytest.approx(0.5)
    assert (plain.mean, plain.save) == (dear.mean, dear.save)
    assert cheap.lcb - plain.lcb == pytest.approx(0.5)
    assert plain.lcb - dear.lcb == pytest.approx(4.0)
    assert cheap.ucb - dear.ucb == pytest.approx(4.5)
    free = ready(head=5.0)
    assert free.decide(1.0, 5, 64, BanditKnobs()).action == "skip"  # beyond the budget
    assert free.decide(1.0, 5, 64, BanditKnobs(cost_scale=0)).reason == "explore"
    assert free.explored_s == pytest.approx(5.0)
