"""What a number of one record may be in the light of those before it; what it may be by itself stands with its class.

Depths are differences of positions, and views and metrics loop over them: so a position must lie near the length of its
text, and a round may have so many records, before anybody counts. Reading applies this to every trace, for every
command; whether the records *agree* with each other is another question (`specviz.trace.check`).
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from specviz.errors import KnobError
from specviz.events import (
    Calibration,
    Climb,
    Commit,
    DraftStep,
    Event,
    ExitTable,
    Fork,
    Header,
    Knob,
    Node,
    Posterior,
    Prefill,
    RoundEnd,
    RoundStart,
    Span,
)
from specviz.events.base import FAR
from specviz.knobs import KnobSpec

MOST_IN_A_ROUND = 1 << 17  # records; the widest trees on offer take some thousand
_LONGEST_NS = 1 << 53
_PLACED = (Node, Climb, DraftStep, Fork, Posterior)


class Ranges:
    """Give it every record in order; it answers with what is wrong, or None."""

    def __init__(self) -> None:
        self._specs: Mapping[str, KnobSpec] = {}
        self._length: int | None = None  # of the text of this query
        self._began = 0
        self._count = 0
        self._climbs = 0

    def wrong(self, event: Event) -> str | None:
        """The first thing that cannot be."""
        return next(self._wrong(event), None)

    def _wrong(self, event: Event) -> Iterator[str]:
        self._count += not isinstance(event, ExitTable)
        if self._count > MOST_IN_A_ROUND:
            yield f"more than {MOST_IN_A_ROUND:,} records in one round"
        if isinstance(event, _PLACED):
            yield from self._far("pos", event.pos)
        if isinstance(event, Node) and event.parent >= event.node:  # whoever walks to the root comes there
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

    def _climb(self, event: Climb) -> Iterator[str]:
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


_CHECKS: dict[type[Event], Callable[[Ranges, Any], Iterator[str]]] = {
    Header: Ranges._header,
    Knob: Ranges._changed,
    Prefill: Ranges._prefill,
    RoundStart: Ranges._start,
    Commit: Ranges._commit,
    RoundEnd: Ranges._end,
    Span: Ranges._span,
    Climb: Ranges._climb,
    Calibration: Ranges._calibration,
}
