"""`OnlineTrainer`: what lasts from query to query while a drafter learns, and what is done after one (SpecBlock).

Signal, then the tau guard, then the bandit, then perhaps an update on a copy, measured on held-out places before and
after; kept whole or not at all. All of it happens between queries, its time is measured and told, and none of it can
change a text: the verifier never reads what a drafter thinks.
"""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import torch

from specviz.engine.decode.drafter import Drafter, QueryEnd
from specviz.events import Adapt, AdaptArm, AdaptReplay, six
from specviz.knobs import Knobs
from specviz.methods.online.bandit import (
    FEWEST_EVENTS,
    Action,
    Anchor,
    Arm,
    Bandit,
    BanditDecision,
    BanditKnobs,
    QuerySurprise,
    View,
)
from specviz.methods.online.batches import QueryCollector, ReplayBuffer, Slot
from specviz.methods.online.update import KINDS, Embed, Kind, Learner, Weights, anew, coverage, shared_storage
from specviz.methods.specblock.growth import Sizes
from specviz.methods.specblock.network import BlockNetwork
from specviz.methods.trained.vocabulary import Vocabulary

Clock = Callable[[], int]
FALL = 0.01  # of held-out coverage: more than a point takes an update back


@dataclass(slots=True)
class MeasuredUpdate:
    """An update that was made and measured, not applied. `network` None: it is not fit to be kept."""

    weights: Weights
    network: BlockNetwork | None
    seconds: float
    before: float | None
    after: float | None

    @property
    def change(self) -> float:
        """Of held-out coverage; 0 where nothing could be measured."""
        return 0.0 if self.before is None or self.after is None else self.after - self.before


class OnlineTrainer:
    """Of one drafter. `target`: tensors that no update may touch. `clock`: nanoseconds, the only one there is here."""

    def __init__(
        self,
        network: BlockNetwork,
        embed: Embed,
        target: Iterable[torch.Tensor] = (),
        clock: Clock = time.perf_counter_ns,
    ) -> None:
        self._target, self.clock = list(target), clock
        self.learner = Learner(network, embed)
        self.bandit = Bandit({})
        self.memory, self.anchor = ReplayBuffer(), Anchor()
        self.n_tokens = 0  # of all queries
        self._refuse_aliases()

    @property
    def network(self) -> BlockNetwork:
        return self.learner.network

    @property
    def version(self) -> int:
        """Counted up whenever `network` becomes another."""
        return self.learner.version

    def watch(self, vocabulary: Vocabulary, taps: tuple[int, ...]) -> QueryCollector:
        """Notes of the query that begins; the places it holds out follow on those of the queries before."""
        return QueryCollector(vocabulary, taps, self.n_tokens)

    def over(
        self,
        notes: QueryCollector,
        ended: QueryEnd,
        sizes: Sizes,
        drafter: "Callable[[BlockNetwork], Drafter] | None" = None,
    ) -> Adapt:
        """A query is over: learn from it, or not. `drafter` makes one of a network, for replays."""
        began, version = self.clock(), self.version
        signal, served = notes.signal(), self.bandit.served
        before = served.tau if served.n else None
        tale = ended.served
        served.add(tale.mean_acceptance_length, tale.round_s / max(1, tale.n_rounds), tale.n_tokens, tale.seconds)
        with torch.inference_mode(False):  # tensors that training may save
            self.memory.add(notes.lesson(ended.first_token))
        self.n_tokens += notes.n_tokens
        record = Adapt(
            S=six(signal.total),
            s=six(signal.per_round),
            n_rejections=signal.rejections,
            action="skip",
            reason="skip",
            version_before=version,
            domain=ended.domain,
            mean_acceptance_length=six(tale.mean_acceptance_length),
            length_before=None if before is None else six(before),
            length_after=six(served.tau),
            accepted_histogram=list(tale.histogram),
            n_rounds=tale.n_rounds,
            n_tokens=tale.n_tokens,
            n_events=len(self.memory.slots),
            n_held=len(self.memory.held),
            seconds=six(tale.seconds),
        )
        with torch.inference_mode(False):
            self._boundary(record, signal, ended, sizes, drafter)
        record.version_after = self.version
        record.dur_ns = notes.ns + self.clock() - began
        return record

    def _boundary(
        self,
        record: Adapt,
        signal: QuerySurprise,
        ended: QueryEnd,
        sizes: Sizes,
        drafter: "Callable[[BlockNetwork], Drafter] | None",
    ) -> None:
        """Put weights back, or decide and perhaps update; completes the record."""
        knobs, setting = ended.knobs, setting_of(ended.knobs)
        asked = {"reset_to_anchor": "anchor", "reset_to_base": "base"}.get(knobs["adapt_do"])
        record.frozen = knobs["adapt_do"] == "freeze"
        guarded = not (asked or record.frozen) and self._fallen(sizes)
        if asked or guarded:
            record.reset = "base" if asked == "base" else "anchor"
            record.reason = "guard" if guarded else "skip"
            self._reset(record.reset)
            record.spent, record.budget = six(self.bandit.explored_s), six(self.bandit.budget(setting))
            return
        self._price(setting, knobs, sizes)
        done = self.bandit.decide(signal.per_round, signal.rejections, len(self.memory.slots), setting, record.frozen)
        tell_decision(record, done)
        rate = signal.rejections / max(1, signal.rounds)
        if knobs["adapt_regret"] == "replay":
            Replays(self, done, rate, sizes, setting, knobs, ended, drafter).tell(record)
        if done.action == "skip":
            return
        kind: Kind = done.action
        tried = self.attempt(kind, knobs, sizes)
        self._settle(kind, tried)
        kept = tried.network is not None
        self.bandit.learn(done, tried.change * rate if kept else 0.0, tried.seconds)
        record.measured_gain, record.update_s = six(tried.change * rate), six(tried.seconds)
        record.coverage_before, record.coverage_after = tried.before, tried.after
        record.reverted = not kept

    def attempt(self, kind: Kind, knobs: Knobs, sizes: Sizes) -> MeasuredUpdate:
        """Make an update on a copy and measure it."""
        began = self.clock()
        steps, rate = knobs["adapt_steps"], knobs[f"adapt_lr_{kind}"]
        try:
            if kind == "head":
                weights = self.learner.head(self.memory.batch, steps, rate)
            else:
                weights = self.learner.full(self.memory.slots[-1].lesson, steps, rate)
        except torch.OutOfMemoryError:  # serving goes on without it, and learns what trying costs
            return MeasuredUpdate({}, None, self._since(began), None, None)
        if not all(bool(weight.isfinite().all()) for weight in weights.values()):
            self.learner.forget(kind)
            return MeasuredUpdate(weights, None, self._since(began), None, None)
        network = self.learner.built(weights)
        before, after = self._coverages(network, self.memory.held, kind == "full", sizes)
        fit = before is None or after is None or after - before >= -FALL
        return MeasuredUpdate(weights, network if fit else None, self._since(began), before, after)

    def _coverages(
        self, network: BlockNetwork, held: list[Slot], whole: bool, sizes: Sizes
    ) -> tuple[float | None, float | None]:
        """Of the network in hand and of another, at the same places."""
        if not whole:
            return coverage(self.network, held, sizes), coverage(network, held, sizes)
        first = [slot for slot in held if slot.block == 1]
        return coverage(self.network, first, sizes), coverage(network, anew(network, self.learner.embed, first), sizes)

    def _settle(self, kind: Kind, tried: MeasuredUpdate) -> None:
        """Put an update that is fit in place; states that the older weights made are worked out anew."""
        if tried.network is None:
            return
        began = self.clock()
        self.learner.keep(tried.weights, tried.network)
        self.anchor.accepted(self.bandit.served.tau)
        if kind == "full":
            self._refresh()
        self._refuse_aliases()
        tried.seconds += self._since(began)

    def _refresh(self) -> None:
        self.memory.replace(anew(self.network, self.learner.embed, self.memory.slots))

    def _reset(self, to: Literal["anchor", "base"]) -> None:
        self.learner.reset(to)
        self._refresh()
        self.anchor.again(self.bandit.served.tau)
        self._refuse_aliases()

    def _fallen(self, sizes: Sizes) -> bool:
        """Whether texts go worse than with the anchor, and its weights would have covered more of the same places.

        If they would not, the texts are at fault: a new domain must not throw away what was learnt of it.
        """
        if not self.anchor.query(self.bandit.served.tau):
            return False
        other = self.learner.built(self.learner.anchor)
        ours, anchors = self._coverages(other, self.memory.held, True, sizes)
        if ours is not None and anchors is not None and anchors > ours:
            return True
        self.anchor.again(self.bandit.served.tau)
        return False

    def _price(self, setting: BanditKnobs, knobs: Knobs, sizes: Sizes) -> None:
        """What actions cost before any was taken: one timed dry run each, after one untimed step."""
        for kind in KINDS:
            ready = len(self.memory.slots) >= FEWEST_EVENTS and self.memory.batch
            if kind in self.bandit.arms or kind not in setting.actions or not ready:
                continue
            with self.learner.trial(kind):
                self.attempt(kind, knobs.with_(adapt_steps=1), sizes)
                self.bandit.arms[kind] = Arm(self.attempt(kind, knobs, sizes).seconds)

    def _since(self, began: int) -> float:
        return (self.clock() - began) / 1e9

    def _refuse_aliases(self) -> None:
        assert not shared_storage(self.learner.tensors(), self._target), "a trained tensor lies in the target's memory"


class Replays:
    """What every action would have brought at one boundary, each tried on a copy: regret as it is."""

    def __init__(
        self,
        tutor: OnlineTrainer,
        done: BanditDecision,
        rate: float,
        sizes: Sizes,
        setting: BanditKnobs,
        knobs: Knobs,
        ended: QueryEnd,
        drafter: "Callable[[BlockNetwork], Drafter] | None",
    ) -> None:
        self.tutor, self.done, self.rate, self.sizes = tutor, done, rate, sizes
        self.setting, self.knobs, self.ended, self.drafter = setting, knobs, ended, drafter

    def tell(self, record: Adapt) -> None:
        """Fill in the record's replays and both regrets."""
        replays = [self._skip(), *(self._of(kind) for kind in KINDS if kind in self.tutor.bandit.arms)]
        stood = replays[0].next_length
        saves = self.tutor.bandit.served.saves
        for replay in replays:
            if replay.measured_gain is not None:
                replay.profit = six(saves(replay.measured_gain, self.setting.horizon) - replay.seconds)
            if replay.next_length is not None and stood is not None:
                replay.next_profit = six(saves(replay.next_length - stood, self.setting.horizon) - replay.seconds)
        record.replays = replays
        record.replay_regret = regret(self.done.action, {replay.action: replay.profit for replay in replays})
        record.next_regret = regret(self.done.action, {replay.action: replay.next_profit for replay in replays})

    def _skip(self) -> AdaptReplay:
        tutor = self.tutor
        return AdaptReplay(
            action="skip",
            seconds=0.0,
            coverage=self._covered(tutor.network),
            measured_gain=0.0,
            next_length=self._next(tutor.network),
        )

    def _of(self, kind: Kind) -> AdaptReplay:
        tutor = self.tutor
        with tutor.learner.trial(kind):
            tried = tutor.attempt(kind, self.knobs, self.sizes)
            same = kind == "full" or tried.after is None
            after = tried.after if same else self._covered(tutor.learner.built(tried.weights))
        kept = tried.network is not None
        return AdaptReplay(
            action=kind,
            seconds=six(tried.seconds),
            coverage=after,
            measured_gain=six(tried.change * self.rate) if kept else 0.0,
            next_length=self._next(tried.network or tutor.network),
        )

    def _covered(self, network: BlockNetwork) -> float | None:
        """Of root blocks alone, the places that a full update can be measured at too."""
        return coverage(network, [slot for slot in self.tutor.memory.held if slot.block == 1], self.sizes)

    def _next(self, network: BlockNetwork) -> float | None:
        if self.ended.next_length is None or self.drafter is None:
            return None
        length = self.ended.next_length(self.drafter(network))
        return None if length is None else six(length)


def regret(taken: Action, profits: "dict[Action, float | None]") -> float | None:
    """What was given up against the best profit; None where the taken one's is not known."""
    own = profits.get(taken)
    known = [profit for profit in profits.values() if profit is not None]
    return None if own is None else six(max(known) - own)


def setting_of(knobs: Knobs) -> BanditKnobs:
    actions: tuple[Action, ...] = KINDS if knobs["adapt_actions"] == "all" else (knobs["adapt_actions"],)
    return BanditKnobs(
        caution=knobs["adapt_caution"],
        horizon=knobs["adapt_horizon"],
        budget=knobs["adapt_budget"],
        cost_scale=knobs["adapt_cost_scale"],
        actions=actions,
    )


def tell_decision(record: Adapt, done: BanditDecision) -> None:
    """What was decided, and what was thought of every allowed action."""
    record.action, record.reason = done.action, done.reason
    record.spent, record.budget, record.regret = six(done.spent), six(done.budget), six(done.regret)
    record.arms = [_arm(view) for view in done.views.values()]
    taken = next((arm for arm in record.arms if arm.action == done.action), None)
    if taken is not None:
        record.gain, record.se, record.save = taken.gain, taken.se, taken.save
        record.cost, record.lcb, record.ucb = taken.cost, taken.lcb, taken.ucb


def _arm(view: View) -> AdaptArm:
    assert view.action != "skip"
    ucb = None if math.isinf(view.ucb) else six(view.ucb)
    return AdaptArm(
        action=view.action,
        n=view.n,
        gain=six(view.gain),
        se=six(view.error),
        save=six(view.save),
        cost=six(view.cost),
        lcb=six(view.lcb),
        ucb=ucb,
    )
