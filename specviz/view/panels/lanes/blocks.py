"""Blocks of the lanes on either clock: forwards and passes as recorded, or as the modelled clock plays them.

Facts grow with the run; a round that is not complete has none, and fates are known from the round that settled them on.
Only stretches of rounds are held: the newest one, and one around an older place that is looked at. Draft forwards are
paired with the tokens drawn from them in order; where their numbers differ no token is named.
"""

from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import msgspec

from specviz.cost.model_clock import DraftForward, ModelClock, ModelledRound, Rates, RoundFacts, Work, facts_of, work_of
from specviz.events import Signal, Span
from specviz.numerals import UNKNOWN
from specviz.runlog.fold import Run
from specviz.runlog.run import RoundRecord
from specviz.view.panels.lanes.model import Fate, LaneBlock
from specviz.view.words.palette import BlockKind

ASSUMED_T = 0.001  # seconds of a draft forward where none was measured
STRETCH = 192  # rounds of the newest stretch
_BEFORE, _AFTER = 24, 40  # rounds around an older place: more before it than are shown and than tokens stay pending
_PROBED = 64  # rounds whose classifier calls are timed


@dataclass(frozen=True, slots=True)
class ClockedRound:
    """One complete round. `played` is None where the modelled clock knows no such round (self-drafting)."""

    key: Any
    facts: RoundFacts | None
    played: ModelledRound | None


@dataclass
class RoundWindow:
    """Rounds one after another, from `first` on."""

    first: int
    clock: ModelClock
    rounds: deque[ClockedRound] = field(default_factory=deque)
    settled: dict[tuple[int, int], tuple[Fate, int]] = field(default_factory=dict)  # (query, node): fate, round index

    @property
    def stop(self) -> int:
        return self.first + len(self.rounds)

    def take(self, record: RoundRecord) -> Work | None:
        """The next round; None where the modelled clock knows none such."""
        facts = facts_of(record)
        played = self.clock.play(facts) if facts is not None else None
        work = work_of(facts) if facts is not None else None
        facts = facts or _self_drafted(record)
        self.rounds.append(ClockedRound(_key(record), facts, played))
        for node, fate in facts.fates:
            self.settled[record.q, node] = (fate, record.index)  # type: ignore[assignment]
        return work

    def trim(self) -> None:
        """Drop the oldest rounds and the fates that they decided."""
        while len(self.rounds) > STRETCH:
            self.rounds.popleft()
            self.first += 1
        if len(self.settled) > 64 * STRETCH or self.first % STRETCH == 0:
            self.settled = {key: settled for key, settled in self.settled.items() if settled[1] >= self.first}


class _KeptFacts(msgspec.Struct, array_like=True):
    works: tuple[bytes, ...]
    starts: bytes
    rates: Rates
    hrad: list[float]
    n_probed: int


class RunFacts:
    """Of one run, in order of rounds."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._rates: Rates | None = None
        self._newest = RoundWindow(0, ModelClock(Rates()))
        self._here = self._newest
        self._works = tuple(array("i") for _ in range(7))  # `Work` of every round taken in; -1: not on this clock
        self._starts = array("d")  # when the modelled clock began it
        self._hrad: list[float] = []  # seconds of the classifier's calls in the first rounds
        self._n_probed = 0

    @property
    def n_behind(self) -> int:
        """Rounds not taken in yet."""
        return max(0, len(self.run.rounds) - self._newest.stop)

    def window(self, index: int) -> range:
        """Rounds that are read for the stretch around a place; none where there is one already."""
        wanted = self._wanted(index)
        return range(0) if self._holds(wanted, index) else range(*self._reach(wanted, index))

    def update(self, index: int) -> None:
        """Take in the rounds that came to their end; start again where one was replaced, or at other costs.

        `index`: the round that is looked at.
        """
        self.take_in(len(self.run.rounds))
        self._look(index)

    def take_in(self, n_rounds: int) -> None:
        """The same for so many rounds, and no look at any."""
        self._probe()
        replaced = self._replaced()
        if replaced is not None:  # take it back with those after it, and play the rest of the newest stretch once more
            for column in self._works:
                del column[replaced:]
            del self._starts[replaced:]
            self._newest = self._stretch(max(0, replaced - STRETCH), replaced)
        if self._rates != self.rates:
            self._rates = self.rates
            self._play_again()
        for k in range(self._newest.stop, min(len(self.run.rounds), self._newest.stop + n_rounds)):
            record = self.run.rounds[k]
            if record.end is None:
                break
            self._take(record)

    def on_evict(self, record: RoundRecord) -> None:
        """The next round, which is about to go out of memory. At other costs later, its start is worked out again."""
        if record.index != self._newest.stop or record.end is None:
            return
        if self._rates is None:
            self._probe()
            self._rates = self.rates
            self._play_again()
        self._take(record)

    def _take(self, record: RoundRecord) -> None:
        self._starts.append(self._newest.clock.now)
        work = self._newest.take(record)
        for column, value in zip(self._works, work or (-1,) * 7, strict=True):
            column.append(min(value, (1 << 31) - 1))
        self._newest.trim()

    def kept(self) -> bytes:
        """As MessagePack: the columns of all rounds, and the costs at which they were played."""
        kept = _KeptFacts(
            tuple(column.tobytes() for column in self._works),
            self._starts.tobytes(),
            self._rates or self.rates,
            self._hrad,
            self._n_probed,
        )
        return msgspec.msgpack.encode(kept)

    def from_cache(self, data: bytes) -> None:
        """What was kept, in place of taking rounds in; stretches are read where somebody looks. Raises ValueError for
        something else."""
        kept = msgspec.msgpack.decode(data, type=_KeptFacts)
        works = tuple(array("i", kept_column) for kept_column in kept.works)
        starts = array("d", kept.starts)
        if len(works) != len(self._works) or any(len(column) != len(starts) for column in works):
            raise ValueError("columns of different lengths")
        self._works, self._starts, self._rates = works, starts, kept.rates
        self._hrad, self._n_probed = kept.hrad, kept.n_probed
        self._newest = self._here = self._stretch(len(starts), len(starts))

    @property
    def settled(self) -> Mapping[tuple[int, int], tuple[Fate, int]]:
        """(query, node): fate, and the index of the round that settled it; around the place that is looked at."""
        return self._here.settled

    @property
    def rates(self) -> Rates:
        """Costs of the modelled clock: measured ones where the trace holds a calibration."""
        took = median(self._hrad) if self._hrad else 0.0
        costs = self.run.calibration
        return Rates.of(costs, took) if costs is not None and costs.has_rows else Rates(t=ASSUMED_T, hrad=took)

    @property
    def calibrated(self) -> bool:
        """Whether the costs were measured on the machine that wrote the trace."""
        return self.run.calibration is not None and self.run.calibration.has_rows

    def known(self, index: int) -> ClockedRound | None:
        """A complete round of the window around the cursor; None for an unfinished one."""
        here = self._here
        return here.rounds[index - here.first] if here.first <= index < here.stop else None

    def fate(self, record: RoundRecord, node: int, until: int) -> Fate | None:
        """What became of a token, if round `until` or an earlier one settled it."""
        settled = self.settled.get((record.q, node))
        return settled[0] if settled is not None and settled[1] <= until else None

    def voided(self, index: int) -> Mapping[int, Fate]:
        """Tokens a round settled that did not become text."""
        known = self.known(index)
        fates: Iterable[Any] = known.facts.fates if known is not None and known.facts is not None else ()
        return {node: fate for node, fate in fates if fate != "accepted"}

    def _probe(self) -> None:
        """Time the classifier in the first rounds; of the last of them more may come."""
        n = len(self.run.rounds)
        if self._n_probed >= _PROBED or (n < _PROBED and n == 0):
            return
        first = self.run.rounds[:_PROBED]
        self._hrad = [s.dur_ns / 1e9 for r in first for s in r.every(Signal) if s.source == "hrad"]
        self._n_probed = max(0, len(first) - 1) if n <= _PROBED else _PROBED

    def _replaced(self) -> int | None:
        """The first round that is another one now: an aborted one whose number came again."""
        rounds, newest = self.run.rounds, self._newest
        for index in range(max(newest.first, rounds.n_away), newest.stop):
            if index >= len(rounds) or newest.rounds[index - newest.first].key != _key(rounds[index]):
                return index
        return None

    def _play_again(self) -> None:
        """The starts of all rounds at the present costs, then the newest stretch."""
        assert self._rates is not None
        now, rates = 0.0, self._rates
        self._starts = array("d")
        for work in zip(*self._works, strict=True):
            self._starts.append(now)
            now += rates.round(work) if work[0] >= 0 else 0.0
        self._newest = self._here = self._stretch(self._newest.first, len(self._starts))
        if self._newest.first == 0:
            self._starts, now = array("d"), 0.0
            for known in self._newest.rounds:  # one that is not on this clock takes no time
                self._starts.append(now)
                now = known.played.end if known.played is not None else now

    def _look(self, index: int) -> None:
        """Choose the stretch around a place, and make one where there is none."""
        wanted = self._wanted(index)
        if wanted >= self._newest.first:
            self._here = self._newest
        elif not self._holds(wanted, index):
            self._here = self._stretch(*self._reach(wanted, index))

    def _wanted(self, index: int) -> int:
        """The first round that is wanted for a place."""
        first = self.run.rounds[index].query.first if self.run.rounds else 0
        return max(first, index - _BEFORE, 0)

    def _holds(self, wanted: int, index: int) -> bool:
        """Whether a stretch that is there goes from one to the other."""
        if wanted >= self._newest.first:
            return True
        return self._here is not self._newest and self._here.first <= wanted and index < self._here.stop

    def _reach(self, wanted: int, index: int) -> tuple[int, int]:
        return max(0, wanted - _BEFORE), min(index + _AFTER, len(self._starts))

    def _stretch(self, first: int, stop: int) -> RoundWindow:
        """Compute the blocks of the window again at the current costs."""
        rates = self._rates or self.rates
        out = RoundWindow(first, ModelClock(rates, self._starts[first] if first < len(self._starts) else 0.0))
        for index in range(first, stop):
            out.take(self.run.rounds[index])
        return out


def _self_drafted(record: RoundRecord) -> RoundFacts:
    """A round that drafted with the target's own layers: no modelled clock, but forwards and fates all the same."""
    assert record.end is not None
    words: Mapping[str, Fate] = {"accepted": "accepted", "rejected": "rejected", "untested": "orphaned"}
    nodes = [node for node in record.nodes.values() if node.kept]
    fates = [(v.node, words[v.status]) for v in record.verdicts.values() if v.status in words]
    return RoundFacts(
        record.r,
        record.end.n_emitted,
        1 + sum(node.fed for node in nodes),
        tuple(DraftForward(1, (node.node,)) for node in nodes),
        fates=tuple(fates),
    )


def _key(record: RoundRecord) -> Any:
    return record.serial, record.stamp


_WAITS = {
    "drafting": "waits for the draft: there is nothing to verify yet",
    "verifying": "waits for the target's verdict",
    "overhang": "waits for branches that take longer than the target's pass",
    "hrad": "waits for the classifier",
    "sync": "waits at the barrier",
}


@dataclass(frozen=True, slots=True)
class LanePiece:
    """A stretch before it is dressed: which forward it was, if any."""

    lane: str
    kind: BlockKind
    t0: float
    t1: float
    size: int = 0
    forward: DraftForward | None = None
    why: str = ""
    forwards: int = 1


@dataclass
class LaneBlockBuilder:
    """Makes blocks of the pieces of one round, with what is known of their tokens in round `until`."""

    run: Run
    facts: RunFacts
    record: RoundRecord
    until: int
    judged: bool  # whether the fates of round `until` may be told

    def blocks(self, pieces: Sequence[LanePiece]) -> Iterator[LaneBlock]:
        """In order of lane and time; a batch over several branches stands in their lanes too."""
        counts: dict[str, int] = {}
        for piece in pieces:
            nodes = piece.forward.nodes if piece.forward is not None else ()
            branches = {branch for node in nodes if (branch := self._branch(node)) is not None}
            places: list[tuple[str, BlockKind, tuple[int, ...]]]
            places = [(piece.lane, "branch" if piece.kind == "draft" and branches else piece.kind, nodes)]
            for branch in sorted(branches):
                mine = tuple(node for node in nodes if self._branch(node) == branch)
                places.append((f"branch {branch}", "branch", mine))
            for lane, kind, mine in places:
                at = (self.record.index, lane, counts.get(lane, 0))
                counts[lane] = at[2] + 1
                yield self._block(piece, at, kind, mine)

    def _branch(self, node: int) -> int | None:
        drafted = self.record.query.nodes.get(node)
        return drafted.branch if drafted is not None else None

    def _block(self, piece: LanePiece, at: tuple[int, str, int], kind: BlockKind, nodes: tuple[int, ...]) -> LaneBlock:
        fates = [self._fate(node) for node in nodes]
        settled = [fate for fate in fates if fate is not None]
        kept = sum(fate == "accepted" for fate in settled)
        return LaneBlock(
            at=at,
            lane=at[1],
            kind=kind,
            round=self.record.r,
            t0=piece.t0,
            t1=piece.t1,
            size=piece.size,
            nodes=nodes,
            shown=self._shown(piece, nodes),
            void=bool(nodes) and len(settled) == len(nodes) and not kept,
            open=len(settled) < len(nodes),
            useful=kept / len(nodes) if nodes else 1.0,
            why=piece.why,
            kept=at[1].startswith("branch") and bool(kept),
            forwards=piece.forwards,
        )

    def _fate(self, node: int) -> str | None:
        settled = self.facts.settled.get((self.record.q, node))
        if settled is None or settled[1] > self.until or (settled[1] == self.until and not self.judged):
            return None
        return settled[0]

    def _shown(self, piece: LanePiece, nodes: Sequence[int]) -> str:
        known = self.record.query.nodes
        if nodes:
            return " ".join(self.run.word(known[node].token) for node in nodes if node in known)
        words = {"verify": f"{piece.size} rows", "draft": "a look, then a stop", "hrad": "H-RAD", "sync": "barrier"}
        return words.get(piece.kind, piece.why or UNKNOWN)


def modelled(played: ModelledRound) -> list[LanePiece]:
    """A round as the modelled clock plays it."""
    forwards = {"before": list(played.facts.before), "beside": list(played.facts.beside)}
    queue = [*forwards["before"], *forwards["beside"]]
    out = []
    for segment in played.segments:
        kind: BlockKind = {"draft_fwd": "draft", "verify_fwd": "verify", "hrad": "hrad", "sync": "sync"}.get(  # type: ignore[assignment]
            segment.kind, "idle"
        )
        forward = queue.pop(0) if segment.kind == "draft_fwd" and queue else None
        why = _WAITS.get(segment.why or "", "")
        out.append(LanePiece(segment.lane, kind, segment.t0, segment.t1, segment.size, forward, why))
    return out


def measured(record: RoundRecord, known: ClockedRound | None, zero: int, serial: bool) -> list[LanePiece]:
    """A round as its spans were written; a lane is idle where it has none while the other works."""
    facts = known.facts if known is not None else None
    spans = sorted(record.spans, key=lambda span: span.t0)
    drafts = [span for span in spans if span.lane == "draft"]
    forwards = _paired(facts, len(drafts))
    pieces = []
    for span in spans:
        forward, count = forwards[drafts.index(span)] if span.lane == "draft" and forwards else (None, 1)
        pieces.append(_piece(span, forward, facts, zero, count))
    return [*pieces, *_gaps(pieces, serial)]


def _paired(facts: RoundFacts | None, n_spans: int) -> list[tuple[DraftForward, int]] | None:
    """The forward of each span, and how many there were: one span for a whole draft holds them all."""
    if facts is None:
        return None
    forwards = [*facts.before, *facts.beside]
    if len(forwards) == n_spans:
        return [(forward, 1) for forward in forwards]
    if n_spans == 1:
        nodes = tuple(node for forward in forwards for node in forward.nodes)
        return [(DraftForward(max((f.batch for f in forwards), default=1), nodes), len(forwards))]
    return None


def _piece(span: Span, forward: DraftForward | None, facts: RoundFacts | None, zero: int, count: int) -> LanePiece:
    kinds: dict[str, BlockKind] = {"target": "verify", "draft": "draft", "hrad": "hrad", "sync": "sync"}
    t0 = (span.t0 - zero) / 1e9
    size = forward.batch if forward else facts.rows if facts is not None and span.lane == "target" else 0
    kind = kinds.get(span.lane, "sync")
    return LanePiece(span.lane, kind, t0, t0 + span.dur_ns / 1e9, size, forward, forwards=count)


def _gaps(pieces: Sequence[LanePiece], serial: bool) -> Iterator[LanePiece]:
    """Idle stretches of the two models between the first and the last thing that happened in the round."""
    if not pieces:
        return
    start, end = min(piece.t0 for piece in pieces), max(piece.t1 for piece in pieces)
    for lane in ("target", "draft"):
        mine = sorted((piece for piece in pieces if piece.lane == lane), key=lambda piece: piece.t0)
        if not mine and lane == "draft":
            continue
        now = start
        for piece in [*mine, LanePiece(lane, "idle", end, end)]:
            why = _waiting(lane, pieces, now, piece.t0, serial)
            if piece.t0 > now and why:
                yield LanePiece(lane, "idle", now, piece.t0, why=why)
            now = max(now, piece.t1)


def _waiting(lane: str, pieces: Sequence[LanePiece], t0: float, t1: float, serial: bool) -> str:
    """What the other lane did for most of this gap; "" where both lanes were idle."""
    other = [p for p in pieces if p.lane not in (lane, "sync") and min(p.t1, t1) > max(p.t0, t0)]
    if not other:
        return ""
    longest = max(other, key=lambda p: min(p.t1, t1) - max(p.t0, t0))
    if longest.kind == "hrad":
        return _WAITS["hrad"]
    verified = any(p.kind == "verify" and p.t1 <= longest.t0 for p in pieces)
    if serial and (verified or lane == "draft"):
        return f"waits while the {'draft model' if lane == 'target' else 'target'} works, one after the other here"
    return _WAITS["drafting"] if lane == "target" else _WAITS["verifying"]
