"""The modelled clock of rounds: what a pipeline would take with these costs, whatever machine wrote the trace.

Deterministic, so that pipelines can be compared and taught where nothing overlaps for real; never to be mixed with a
measured time in one number. Costs: a draft forward over b rows takes `t (1 + kappa_q (b-1))`, a
target forward over w tokens `c t (1 + kappa_p (w-1))`. A round is, in this order: the classifier's calls; the draft
forwards that must come before the target's pass (target idle); the target's pass with the drafter's further forwards
beside it; the barrier. Plain drafting has nothing beside, PEARL nothing before, SpecBranch both.

Bubbles are *all* idle time of a lane, so busy + bubbles = elapsed in both lanes; `why` says what a lane waited for.

Its facts come from the records of a trace: which forwards a round made, where and for what. What is not written is
derived: a chain or tree takes one draft forward a level, over the parents of that level; a draft stage one forward a
look (`draft_step`), the look that stopped it included; branches one forward a position over their live rows, and one
more when the branch point's law was unknown. A round whose drafter says that it made fewer calls than that filled
several places in each, as block drafters do (`_in_calls`). Records of level `none` name no nodes: only rounds of plain
decoding can be told from them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from specviz.events import Calibration, DraftStep, Event, ExitRound, Fork, LayerTrace, Node, Posterior, Settle, Signal
from specviz.runlog.fold import finished
from specviz.runlog.run import RoundRecord

Lane = Literal["target", "draft", "sync", "hrad"]
Kind = Literal["draft_fwd", "verify_fwd", "hrad", "sync", "bubble_draft", "bubble_target"]
Why = Literal["drafting", "verifying", "overhang", "hrad", "sync"]
LANES: tuple[Literal["target", "draft"], ...] = ("target", "draft")
ACCEPTED = "accepted"
# A round in forwards and rows: before (forwards, rows), beside (forwards, rows), the target's rows, classifier calls,
# and whether anything was drafted. What a draft forward takes is linear in its rows, so sums of both are enough.
Work = tuple[int, int, int, int, int, int, bool]


@dataclass(frozen=True, slots=True)
class Rates:
    """Seconds (any unit will do): one draft forward, and everything else measured in it.

    The defaults are those of a slider before anything was measured: a token beside another is nearly free.
    """

    t: float = 1.0
    c: float = 8.0
    kappa_q: float = 0.02
    kappa_p: float = 0.0
    sync: float = 0.0
    hrad: float = 0.0

    @classmethod
    def of(cls, costs: Calibration, hrad: float = 0.0) -> "Rates":
        """Those of a measured machine, in seconds; a slope that was not measured or is negative is 0.

        Without a draft model the target's pass is the unit: such rounds have no draft forward.
        """
        q, p = costs.kappa_q or 0.0, costs.kappa_p or 0.0
        if costs.t_ns and costs.c:
            return cls(costs.t_ns / 1e9, costs.c, max(0.0, q), max(0.0, p), hrad=hrad)
        unit = costs.target_ns[0] / 1e9 if costs.target_ns else 1.0
        return cls(unit, 1.0, 0.0, max(0.0, p), hrad=hrad)

    def draft(self, batch: int) -> float:
        """One draft forward over `batch` rows."""
        return self.t * (1 + self.kappa_q * (batch - 1))

    def drafts(self, n: int, rows: int) -> float:
        """`n` draft forwards over so many rows together."""
        return self.t * (n + self.kappa_q * (rows - n))

    def round(self, work: "Work") -> float:
        before, beside, target = self.drafts(*work[:2]), self.drafts(*work[2:4]), self.target(work[4])
        return work[5] * self.hrad + (self.sync if work[6] else 0.0) + before + max(beside, target)

    def target(self, rows: int) -> float:
        """One target forward over `rows` tokens."""
        return self.c * self.t * (1 + self.kappa_p * (rows - 1))


@dataclass(frozen=True, slots=True)
class DraftForward:
    """One draft forward: its rows, and the tokens that were drawn from what came out (none: a look, then a stop)."""

    batch: int = 1
    nodes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RoundFacts:
    """What a round did, in forwards. `fates`: of the tokens settled in it, born in it or earlier."""

    number: int
    n_new: int
    rows: int = 1  # fed to the target, the root included
    before: tuple[DraftForward, ...] = ()
    beside: tuple[DraftForward, ...] = ()
    hrad: int = 0
    fates: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of one lane. `size`: rows of a forward; `nodes`: tokens drawn from it; `why`: of a bubble."""

    lane: Lane
    kind: Kind
    round: int
    t0: float
    t1: float
    size: int = 0
    nodes: tuple[int, ...] = ()
    why: Why | None = None


@dataclass(frozen=True, slots=True)
class ModelledRound:
    """One round on the model clock; segments in order of lane and time."""

    facts: RoundFacts
    start: float
    end: float
    segments: tuple[Segment, ...]
    wasted: float  # draft seconds of the tokens that were settled in this round and not accepted


@dataclass(slots=True)
class ModelClock:
    """Plays one round after the other. A forward's time is shared evenly by the tokens drawn from it."""

    rates: Rates
    now: float = 0.0
    cell_s: dict[int, float] = field(default_factory=dict)  # node -> its share, until it is settled

    def play(self, facts: RoundFacts) -> ModelledRound:
        for forward in (*facts.before, *facts.beside):
            took = self.rates.draft(forward.batch)
            self.cell_s.update(dict.fromkeys(forward.nodes, took / max(1, len(forward.nodes))))
        start, segments = self.now, tuple(self._round(facts))
        settled = [(self.cell_s.pop(node, 0.0), fate) for node, fate in facts.fates]
        wasted = sum(share for share, fate in settled if fate != ACCEPTED)
        return ModelledRound(facts, start, self.now, segments, wasted)

    def _round(self, facts: RoundFacts) -> Iterator[Segment]:
        rates, number = self.rates, facts.number
        yield from self._alone(number, "hrad", facts.hrad * rates.hrad)
        start = self.now
        for segment in self._drafting(facts.before, number, start):
            yield segment
            self.now = segment.t1
        yield from _idle("target", number, start, self.now, "drafting")
        start, end = self.now, self.now + rates.target(facts.rows)
        yield Segment("target", "verify_fwd", number, start, end, facts.rows)
        drafted = start
        for segment in self._drafting(facts.beside, number, start):
            yield segment
            drafted = segment.t1
        self.now = max(end, drafted)
        yield from _idle("target", number, end, self.now, "overhang")
        yield from _idle("draft", number, drafted, self.now, "verifying")
        yield from self._alone(number, "sync", rates.sync if facts.before or facts.beside else 0.0)

    def _drafting(self, forwards: Iterable[DraftForward], number: int, start: float) -> Iterator[Segment]:
        for forward in forwards:
            end = start + self.rates.draft(forward.batch)
            yield Segment("draft", "draft_fwd", number, start, end, forward.batch, forward.nodes)
            start = end

    def _alone(self, number: int, kind: Literal["hrad", "sync"], took: float) -> Iterator[Segment]:
        """A stretch during which both models wait."""
        start, self.now = self.now, self.now + took
        if took:
            yield Segment(kind, kind, number, start, self.now)
        for lane in LANES:
            yield from _idle(lane, number, start, self.now, kind)


def _idle(lane: Literal["target", "draft"], number: int, t0: float, t1: float, why: Why) -> Iterator[Segment]:
    if t1 > t0:
        kind: Kind = "bubble_target" if lane == "target" else "bubble_draft"
        yield Segment(lane, kind, number, t0, t1, why=why)


@dataclass(frozen=True, slots=True)
class ModelTiming:
    """A run on the model clock, added up."""

    elapsed: float
    n_new: int
    busy_target: float
    busy_draft: float
    wasted: float
    plain: float  # of plain decoding of the same tokens

    @property
    def speedup(self) -> float | None:
        """Over plain decoding: `c t tokens / elapsed`."""
        return self.plain / self.elapsed if self.elapsed else None

    @property
    def bubble_target(self) -> float | None:
        return 1 - self.busy_target / self.elapsed if self.elapsed else None

    @property
    def bubble_draft(self) -> float | None:
        """Idle share of the draft model's lane; None when it never worked."""
        return 1 - self.busy_draft / self.elapsed if self.elapsed and self.busy_draft else None

    @property
    def overlap_efficiency(self) -> float | None:
        """(T_draft + T_target - T) / min(T_draft, T_target): 0 one after the other, 1 the shorter hidden entirely."""
        least = min(self.busy_draft, self.busy_target)
        return (self.busy_draft + self.busy_target - self.elapsed) / least if least else None


def work_of(facts: RoundFacts) -> Work:
    """The work of a round in passes and rows, to be priced by any cost table."""
    before, beside = ((len(part), sum(f.batch for f in part)) for part in (facts.before, facts.beside))
    return (*before, *beside, facts.rows, facts.hrad, bool(facts.before or facts.beside))


class TimingTally:
    """Rounds counted by what they did, so that a run of any length can be timed at any costs."""

    def __init__(self) -> None:
        self.n = self.n_new = 0
        self._works: Counter[Work] = Counter()
        self._lost: Counter[tuple[int, int]] = Counter()  # tokens not accepted, by rows and tokens of their forward
        self._open: dict[int, tuple[int, int]] = {}  # node: rows and tokens of its forward, until it is settled

    def add(self, facts: RoundFacts) -> None:
        self.n, self.n_new = self.n + 1, self.n_new + facts.n_new
        self._works[work_of(facts)] += 1
        for forward in (*facts.before, *facts.beside):
            self._open.update(dict.fromkeys(forward.nodes, (forward.batch, len(forward.nodes))))
        for node, fate in facts.fates:
            share = self._open.pop(node, None)
            if share is not None and fate != ACCEPTED:
                self._lost[share] += 1

    def forget(self) -> None:
        """Another query begins: its nodes are others."""
        self._open.clear()

    def timing(self, rates: Rates) -> "ModelTiming":
        """The sums over rounds at these costs."""
        elapsed = busy_target = busy_draft = 0.0
        for work, n in self._works.items():
            elapsed += n * rates.round(work)
            busy_target += n * rates.target(work[4])
            busy_draft += n * (rates.drafts(*work[:2]) + rates.drafts(*work[2:4]))
        wasted = sum((n * rates.draft(b) / k for (b, k), n in self._lost.items()), 0.0)
        return ModelTiming(elapsed, self.n_new, busy_target, busy_draft, wasted, rates.target(1) * self.n_new)


def timing(rounds: Iterable[RoundFacts], rates: Rates) -> ModelTiming:
    """The sums over rounds, without a segment played: for sliders, and for runs of thousands of rounds."""
    tally = TimingTally()
    for facts in rounds:
        tally.add(facts)
    return tally.timing(rates)


_FATES = {"accepted": "accepted", "rejected": "rejected", "untested": "orphaned"}


def run_facts(events: Iterable[Event]) -> Iterator[RoundFacts]:
    """The facts of every finished round that has any."""
    for record in finished(events):
        facts = facts_of(record)
        if facts is not None:
            yield facts


def facts_of(record: RoundRecord) -> RoundFacts | None:
    """The facts of one finished round.

    None for a round of early exit, which climbs the target's own layers and has a clock of its own (cost.ledger).
    """
    end = record.end
    assert end is not None
    if record.by_kind.keys() & {LayerTrace, ExitRound}:
        return None
    nodes = [node for node in record.nodes.values() if node.kept]
    new = [node for node in nodes if node.node >= record.born]
    trunk = [node for node in new if node.branch is None]
    branches = [node for node in new if node.branch is not None]
    fork = record.first(Fork)
    steps = [] if record.every(Posterior) else [step for step in record.every(DraftStep) if step.branch is None]
    first = tuple(node.node for node in branches if fork and node.pos == fork.pos)
    return RoundFacts(
        number=end.r,
        n_new=end.n_emitted,
        rows=1 + _fed(record, nodes),
        before=_in_calls(record, trunk, _looks(steps, trunk, first) if steps else tuple(_levels(trunk))),
        beside=tuple(_branches(fork, branches, first)) if fork else (),
        hrad=sum(signal.source == "hrad" for signal in record.every(Signal)),
        fates=tuple(_fates(record)),
    )


def _fed(record: RoundRecord, nodes: Sequence[Node]) -> int:
    """Rows behind the root in the target's pass.

    Branches are judged by the row before them. A pending token is written as a node in the round it was drafted only,
    so it is counted by its verdict.
    """
    known = {node.node for node in nodes}
    judged = {verdict.node for verdict in record.verdicts.values() if verdict.status != "pruned"}
    return len({node.node for node in nodes if node.fed and node.branch is None} | (judged - known))


def _looks(steps: Sequence[DraftStep], trunk: Sequence[Node], first: tuple[int, ...]) -> tuple[DraftForward, ...]:
    """A draft stage: a forward a look. From the one that stopped it the branches' `first` tokens come."""
    born = {node.node for node in trunk}
    return tuple(
        DraftForward(1, (step.node,) if step.node is not None else first)
        for step in steps
        if step.node in born or step.stopped
    )


def _levels(nodes: Sequence[Node]) -> Iterator[DraftForward]:
    """A chain or a tree, level by level: a forward over the level's parents."""
    for depth in sorted({node.depth for node in nodes}):
        level = [node for node in nodes if node.depth == depth]
        yield DraftForward(len({node.parent for node in level}), tuple(node.node for node in level))


def _in_calls(
    record: RoundRecord, nodes: Sequence[Node], forwards: tuple[DraftForward, ...]
) -> tuple[DraftForward, ...]:
    """The forwards of a draft in as many calls as its drafter counted; none where it asked no model.

    Blocks say themselves what their call filled. Without them, where there were fewer calls than forwards, each filled
    several places, which are shared out in order. Calls of a round with branches are those of both stages, and tell of
    neither.
    """
    assert record.end is not None
    calls = record.end.n_draft_calls
    if not calls:
        return ()
    if Fork in record.by_kind or Settle in record.by_kind:
        return forwards
    if (blocks := _by_block(record, nodes)) or calls >= len(forwards):
        return blocks or forwards
    shares = [k * len(forwards) // calls for k in range(calls + 1)]
    return tuple(_joined(forwards[first:last]) for first, last in pairwise(shares))


def _joined(forwards: Sequence[DraftForward]) -> DraftForward:
    """One forward for what several were taken for; its rows are those of the first."""
    return DraftForward(forwards[0].batch, tuple(node for forward in forwards for node in forward.nodes))


def _by_block(record: RoundRecord, nodes: Sequence[Node]) -> tuple[DraftForward, ...]:
    """A forward a call, over the blocks that ran in it; empty where not every node names the call it came from."""
    rows = {block.block: block.batch for block in record.blocks}
    filled: dict[int, list[int]] = {call: [] for call in rows}
    for node in nodes:
        call = node.src.get("block")
        if not isinstance(call, int) or call not in filled:
            return ()
        filled[call].append(node.node)
    return tuple(DraftForward(rows[call], tuple(filled[call])) for call in sorted(filled))


def _branches(fork: Fork, nodes: Sequence[Node], first: tuple[int, ...]) -> Iterator[DraftForward]:
    """Beside the target: the branch point's law if it was unknown, then a forward a position over the live branches."""
    if not fork.known and fork.k:
        yield DraftForward(1, first)
    for pos in sorted({node.pos for node in nodes if node.pos > fork.pos}):
        here = tuple(node.node for node in nodes if node.pos == pos)
        yield DraftForward(len(here), here)


def _fates(record: RoundRecord) -> Iterator[tuple[int, str]]:
    """Fates of drafted tokens: as a pipelined drafter recorded them, else by the verdicts of their own round."""
    settled = record.every(Settle)
    if settled or Fork in record.by_kind:
        for settle in settled:
            yield from settle.fates
        return
    fillers = {node.node for node in record.nodes.values() if node.filler}
    for verdict in record.verdicts.values():
        if verdict.status in _FATES and verdict.node not in fillers:
            yield verdict.node, _FATES[verdict.status]
