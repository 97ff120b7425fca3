"""Blocks of the lanes on either clock: forwards and passes as recorded, or as the modelled clock plays them.

The measured clock takes spans as they were written: in one process nothing overlaps, and that is what it shows. Draft
forwards are paired with the tokens drawn from them in order; where their numbers differ no token is named.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from specviz.cost.model_clock import Facts, Forward, Played
from specviz.events import Span
from specviz.runlog.fold import Run
from specviz.runlog.run import RoundRecord
from specviz.view.panels.lanes.lane_facts import Known, RunFacts
from specviz.view.panels.lanes.model import Block, BlockKind
from specviz.view.words.numbers import UNKNOWN

_WAITS = {
    "drafting": "waits for the draft: there is nothing to verify yet",
    "verifying": "waits for the target's verdict",
    "overhang": "waits for branches that take longer than the target's pass",
    "hrad": "waits for the classifier",
    "sync": "waits at the barrier",
}


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch before it is dressed: which forward it was, if any."""

    lane: str
    kind: BlockKind
    t0: float
    t1: float
    size: int = 0
    forward: Forward | None = None
    why: str = ""
    forwards: int = 1


@dataclass
class Dresser:
    """Makes blocks of the pieces of one round, with what is known of their tokens in round `until`."""

    run: Run
    facts: RunFacts
    record: RoundRecord
    until: int
    judged: bool  # whether the fates of round `until` may be told

    def blocks(self, pieces: Sequence[Piece]) -> Iterator[Block]:
        """In order of lane and time; a batch over several branches stands in their lanes too."""
        counts: dict[str, int] = {}
        for piece in pieces:
            for lane, kind, nodes in self._places(piece):
                at = (self.record.index, lane, counts.get(lane, 0))
                counts[lane] = at[2] + 1
                yield self._block(piece, at, kind, nodes)

    def _places(self, piece: Piece) -> Iterator[tuple[str, BlockKind, tuple[int, ...]]]:
        nodes = piece.forward.nodes if piece.forward is not None else ()
        branches = {self._branch(node) for node in nodes} - {None}
        yield piece.lane, "branch" if piece.kind == "draft" and branches else piece.kind, nodes
        for branch in sorted(b for b in branches if b is not None):
            yield f"branch {branch}", "branch", tuple(node for node in nodes if self._branch(node) == branch)

    def _branch(self, node: int) -> int | None:
        found = self.record.query.nodes.get(node)
        return found.branch if found is not None else None

    def _block(self, piece: Piece, at: tuple[int, str, int], kind: BlockKind, nodes: tuple[int, ...]) -> Block:
        fates = [self._fate(node) for node in nodes]
        settled = [fate for fate in fates if fate is not None]
        kept = sum(fate == "accepted" for fate in settled)
        return Block(
            at=at, lane=at[1], kind=kind, round=self.record.r, t0=piece.t0, t1=piece.t1, size=piece.size, nodes=nodes,
            shown=self._shown(piece, nodes), void=bool(nodes) and len(settled) == len(nodes) and not kept,
            open=len(settled) < len(nodes), useful=kept / len(nodes) if nodes else 1.0, why=piece.why,
            kept=at[1].startswith("branch") and bool(kept), forwards=piece.forwards,
        )  # fmt: skip

    def _fate(self, node: int) -> str | None:
        found = self.facts.settled.get((self.record.q, node))
        if found is None or found[1] > self.until or (found[1] == self.until and not self.judged):
            return None
        return found[0]

    def _shown(self, piece: Piece, nodes: Sequence[int]) -> str:
        known = self.record.query.nodes
        if nodes:
            return " ".join(self.run.word(known[node].token) for node in nodes if node in known)
        words = {"verify": f"{piece.size} rows", "draft": "a look, then a stop", "hrad": "H-RAD", "sync": "barrier"}
        return words.get(piece.kind, piece.why or UNKNOWN)


def modelled(played: Played) -> list[Piece]:
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
        out.append(Piece(segment.lane, kind, segment.t0, segment.t1, segment.size, forward, why))
    return out


def measured(record: RoundRecord, known: Known | None, zero: int, serial: bool) -> list[Piece]:
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


def _paired(facts: Facts | None, n_spans: int) -> list[tuple[Forward, int]] | None:
    """The forward of each span, and how many there were: one span for a whole draft holds them all."""
    if facts is None:
        return None
    forwards = [*facts.before, *facts.beside]
    if len(forwards) == n_spans:
        return [(forward, 1) for forward in forwards]
    if n_spans == 1:
        nodes = tuple(node for forward in forwards for node in forward.nodes)
        return [(Forward(max((f.batch for f in forwards), default=1), nodes), len(forwards))]
    return None


def _piece(span: Span, forward: Forward | None, facts: Facts | None, zero: int, count: int) -> Piece:
    kinds: dict[str, BlockKind] = {"target": "verify", "draft": "draft", "hrad": "hrad", "sync": "sync"}
    t0 = (span.t0 - zero) / 1e9
    size = forward.batch if forward else facts.rows if facts is not None and span.lane == "target" else 0
    return Piece(span.lane, kinds.get(span.lane, "sync"), t0, t0 + span.dur_ns / 1e9, size, forward, forwards=count)


def _gaps(pieces: Sequence[Piece], serial: bool) -> Iterator[Piece]:
    """Idle stretches of the two models between the first and the last thing that happened in the round."""
    if not pieces:
        return
    start, end = min(piece.t0 for piece in pieces), max(piece.t1 for piece in pieces)
    for lane in ("target", "draft"):
        mine = sorted((piece for piece in pieces if piece.lane == lane), key=lambda piece: piece.t0)
        if not mine and lane == "draft":
            continue
        now = start
        for piece in [*mine, Piece(lane, "idle", end, end)]:
            why = _waiting(lane, pieces, now, piece.t0, serial)
            if piece.t0 > now and why:
                yield Piece(lane, "idle", now, piece.t0, why=why)
            now = max(now, piece.t1)


def _waiting(lane: str, pieces: Sequence[Piece], t0: float, t1: float, serial: bool) -> str:
    """What the other lane did most of this time; nothing for a gap in which nobody worked."""
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
