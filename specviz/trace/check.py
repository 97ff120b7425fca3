"""What a number of a record may be in the light of those before it (`Ranges`), and whether records agree (`Checker`).

Depths are differences of positions, and views and metrics loop over them: so a position must lie near the length of its
text, and a round may have so many records, before anybody counts. Reading applies this to every trace, for every
command. What a number may be by itself stands with its class.

The checker is a fold that stops at the first violation. Per round: `u < thr` iff
passed; the drawn token decides; `n_emitted` = accepted + closing = length of `commit`; lengths go on without a hole.
Over the run: `n_accepted` and `n_tested` at most `n_drafted` (a single round may test what an earlier one drafted), and
the sums named in `end.totals`.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from specviz.errors import KnobError, TraceError
from specviz.events import (
    WIRE_RECORDS,
    Calibration,
    Commit,
    DraftStep,
    End,
    Event,
    ExitTable,
    Fork,
    Header,
    Knob,
    LayerTrace,
    Node,
    Posterior,
    Prefill,
    RoundEnd,
    RoundStart,
    Span,
    Verify,
)
from specviz.events.base import FAR, handlers
from specviz.knobs import KnobSpec
from specviz.runlog.fold import Run
from specviz.runlog.run import RoundRecord
from specviz.trace.recorder import Totals

_EDGE = 1e-12  # two ways to round u * total: an interval's edge and the draw itself


class Checker:
    """Feed it every record with its line number; raises TraceError that names file, line, round and the broken rule."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._run = Run(whole=False)
        self._totals = Totals()
        self._length: int | None = None  # of the current query's text
        self._root: int | None = None  # its last token
        self._where = ""

    def take(self, event: Event, line: int) -> None:
        """Checks one record against what came before it."""
        self._where = f"{self._path} line {line} (query {event.q}, round {event.r})"
        tag = event.__struct_config__.tag
        self._expect(not isinstance(event, WIRE_RECORDS), f"a '{tag}' record belongs on the wire, not in a file")
        self._totals.take(event)
        self._run.apply(event)
        check = _RULES.get(type(event))
        if check is not None:
            check(self, event)

    def _expect(self, holds: bool, reason: str) -> None:
        if not holds:
            raise TraceError(f"{self._where}: {reason}")

    def _prefill(self, event: Prefill) -> None:
        self._expect(
            event.n_prompt == len(event.prompt), f"n_prompt {event.n_prompt}, but {len(event.prompt)} prompt tokens"
        )
        self._length, self._root = event.n_prompt, event.prompt[-1] if event.prompt else None

    def _round_start(self, event: RoundStart) -> None:
        self._expect(self._length is not None, "a round before its query's prefill")
        self._expect(event.n == self._length, f"starts at n {event.n}, but {self._length} tokens are committed")
        self._expect(event.root == self._root, f"root {event.root} is not the last committed token {self._root}")

    def _verify(self, event: Verify) -> None:
        query = self._run.queries[-1] if self._run.queries else None
        known = query is not None and event.node in query.nodes
        self._expect(known, f"verdict on node {event.node}, which was never drafted")
        decided = event.order is not None and not event.implied and event.status in ("accepted", "rejected")
        if decided and event.kind == "test" and event.thr is not None and event.u is not None:
            below = event.u < event.thr
            passed, rule = event.status == "accepted", "is" if below else "is not"
            self._expect(passed == below, f"node {event.node} {event.status}, but u {rule} below thr")

    def _commit(self, event: Commit) -> None:
        count = len(event.tokens)
        self._expect(count == len(event.texts) == len(event.kinds), "tokens, texts and kinds differ in number")
        self._expect(self._length is not None, "a commit before its query's prefill")
        n = self._length or 0
        self._expect(event.n == n + count, f"commit says n {event.n}, but its tokens end at {n + count}")
        record = self._run.rounds.last
        if record is not None:
            for verdict in record.every(Verify):
                self._check_drawn(record, verdict, event, n)
            token = record.closing.token if record.closing is not None else None
            if token is not None and (event.kinds or ["accepted"])[-1] != "accepted":
                self._expect(event.tokens[-1] == token, "the closing token is not the last one committed")
        self._length, self._root = event.n, event.tokens[-1] if event.tokens else self._root

    def _check_drawn(self, record: RoundRecord, verdict: Verify, commit: Commit, n: int) -> None:
        """The token committed at a node's position decides whether a drawn node was kept."""
        node, status = record.node(verdict.node), verdict.status
        if status == "accepted" and node is not None:
            place = node.pos - n
            kept = 0 <= place < len(commit.tokens) and commit.tokens[place] == node.token
            self._expect(kept, f"node {verdict.node} accepted, but its token was not committed at its position")
        drawn = verdict.kind == "draw" and verdict.order is not None
        if drawn and verdict.u is not None and verdict.interval is not None:
            lo, hi = verdict.interval
            inside = lo - _EDGE <= verdict.u < hi + _EDGE
            outside = verdict.u < lo + _EDGE or verdict.u >= hi - _EDGE
            agrees = inside if status == "accepted" else outside or status != "rejected"
            self._expect(agrees, f"node {verdict.node} {status}, but u {verdict.u} and interval [{lo}, {hi}) disagree")

    def _round_end(self, event: RoundEnd) -> None:
        record = self._run.rounds.last
        commit = record.commit if record is not None else None
        self._expect(commit is not None, "ends without a commit")
        tokens, kinds = (commit.tokens, commit.kinds) if commit is not None else ([], [])
        accepted = sum(kind in ("accepted", "branch") for kind in kinds)
        self._expect(event.n_emitted == len(tokens), f"n_emitted {event.n_emitted}, committed {len(tokens)}")
        self._expect(event.n_accepted == accepted, f"n_accepted {event.n_accepted}, committed {accepted} of that kind")
        closing = event.n_emitted - event.n_accepted
        self._expect(closing in (0, 1), f"{closing} closing tokens in one round")

    def _end(self, event: End) -> None:
        sums = self._totals.as_dict()
        for name in ("n_accepted", "n_tested"):
            self._expect(
                sums[name] <= sums["n_drafted"], f"{name} {sums[name]} over the run, drafted {sums['n_drafted']}"
            )
        for name, value in event.totals.items():
            self._expect(
                sums.get(name, value) == value, f"totals say {name} {value}, the records add up to {sums.get(name)}"
            )


_RULES = handlers(Checker)


MOST_IN_A_ROUND = 1 << 17  # records; the widest trees on offer take some thousand
_LONGEST_NS = 1 << 53
_PLACED = (Node, LayerTrace, DraftStep, Fork, Posterior)


class Ranges:
    """Give it every record in order; it answers with what is wrong."""

    def __init__(self) -> None:
        self._specs: Mapping[str, KnobSpec] = {}
        self._length: int | None = None  # of the text of this query
        self._began = 0
        self._count = 0
        self._climbs = 0

    def wrong(self, event: Event) -> Iterator[str]:
        """What cannot be."""
        self._count += not isinstance(event, ExitTable)
        if self._count > MOST_IN_A_ROUND:
            yield f"more than {MOST_IN_A_ROUND:,} records in one round"
        if isinstance(event, _PLACED):
            yield from self._far("pos", event.pos)
        if isinstance(event, Node) and event.parent >= event.node:  # every walk to the root ends there
            yield f"node {event.node} has parent {event.parent}, which must be older"
        if (check := _CHECKS.get(type(event))) is not None:
            yield from check(self, event)

    def _far(self, name: str, place: int) -> Iterator[str]:
        if self._length is not None and abs(place - self._length) > FAR:
            yield f"{name} {place} is more than {FAR} away from the {self._length} tokens of the text"

    def _header(self, event: Header) -> Iterator[str]:
        self._specs = {spec.name: spec for spec in event.knob_specs}
        for name, value in (*event.knobs.items(), *event.sampling.items()):
            yield from self._knob(name, value)

    def _changed(self, event: Knob) -> Iterator[str]:
        yield from self._knob(event.name, event.new)

    def _knob(self, name: str, value: Any) -> Iterator[str]:
        if (spec := self._specs.get(name)) is None or value is None:
            return
        try:
            spec.check(value)
        except (KnobError, KeyError, TypeError) as error:
            yield str(error)

    def _prefill(self, event: Prefill) -> Iterator[str]:
        self._begin()
        self._length = len(event.prompt)
        yield from self._far("n_prompt", event.n_prompt)

    def _begin(self) -> None:
        self._count = self._climbs = 0

    def _start(self, event: RoundStart) -> Iterator[str]:
        self._begin()
        self._began = event.t
        if self._length is None:
            self._length = event.n
        yield from self._far("n", event.n)

    def _commit(self, event: Commit) -> Iterator[str]:
        if self._length is not None:
            self._length += len(event.tokens)
            yield from self._far("n", event.n)

    def _end(self, event: RoundEnd) -> Iterator[str]:
        if abs(event.t - self._began) > _LONGEST_NS and self._began:
            yield f"the round began at t {self._began} and ended at {event.t}, more than a hundred days apart"
        self._begin()

    def _span(self, event: Span) -> Iterator[str]:
        if event.clock == "host" and abs(event.t0 - event.t) > _LONGEST_NS and event.t:
            yield f"t0 {event.t0} and t {event.t} are more than a hundred days apart"

    def _climb(self, event: LayerTrace) -> Iterator[str]:
        """Row by row; a call takes along rows of this round only."""
        n = len(event.width)
        if not n == len(event.past_len) == len(event.layer_ns):
            yield f"{n} widths, {len(event.past_len)} past_len and {len(event.layer_ns)} layer_ns, one each for a call"
        if event.row > self._climbs:
            yield f"row {event.row} climbs after {self._climbs} others"
        if max(event.width, default=0) > event.row + 1:
            yield f"width {max(event.width)} in the climb of row {event.row}, which has {event.row} rows before it"
        if n > FAR or len(event.fill_after) > FAR:
            yield f"{max(n, len(event.fill_after))} layers, at most {FAR}"
        for past in event.past_len:
            yield from self._far("past_len", past)
        self._climbs += 1

    def _calibration(self, event: Calibration) -> Iterator[str]:
        for of, names in (("widths", ("target_ns", "draft_ns")), ("exit_widths", ("layer_ns", "final_ns"))):
            widths: list[int] = getattr(event, of)
            if any(b <= a for a, b in pairwise(widths)):
                yield f"{of} {widths[:8]} do not rise"
            for name in names:
                if len(getattr(event, name)) not in (0, len(widths)):
                    yield f"{len(getattr(event, name))} {name} for {len(widths)} {of}"


_CHECKS = handlers(Ranges)
