"""`Rounds`: all rounds of a run as a sequence, of which the newest and those looked at are held in memory.

An older one is written to a spool and read again when somebody asks for it, whole and equal to what it was. What every
frame asks of all rounds (the time line, searching for a place) stands in columns of plain numbers, 57 bytes a round.
As long as anybody holds a record, asking again gives the same object.
"""

from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from types import GenericAlias
from typing import Any, overload
from weakref import WeakValueDictionary

import msgspec

from specviz.events import Chain, Event, Node, RoundStart, Verify
from specviz.runlog.run import Query, RoundRecord
from specviz.runlog.spool import Spool


@dataclass(frozen=True, slots=True)
class RoundPoint:
    """A round on the time line."""

    index: int
    q: int
    r: int
    n_emitted: int | None
    n_accepted: int | None
    n_drafted: int | None
    rejected: bool
    markers: str = ""  # any of ◆ knob change, ⚑ bookmark, ⚠ warning


WINDOW = 128  # newest rounds, always in memory
AT_HAND = 128  # rounds read again that stay at hand
_COMPLETE, _REJECTED, _CHANGED, _NOTED, _WARNED = 1, 2, 4, 8, 16
_MOST = (1 << 31) - 1
# A record in the spool, without what the columns and its query know: start, n_before, serial, born, and its events by
# the number of their kind, so that a kind which nobody here has heard of is read again as what it was.
_Page = tuple[RoundStart, int, int, int, list[tuple[int, msgspec.Raw]]]
_encoder, _pages = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(_Page)


@cache
def _reader(kind: type[Event]) -> "msgspec.msgpack.Decoder[list[Any]]":
    return msgspec.msgpack.Decoder(GenericAlias(list, kind))


class Rounds(Sequence[RoundRecord]):
    """Grows at its end (`append`); only the last may be taken away again (`pop`).

    `whole=False`: a round that leaves the window is gone; asking for it raises IndexError.
    """

    def __init__(self, window: int | None = None, whole: bool = True) -> None:
        self.whole = whole
        self.spool = Spool()
        self.leaving: list[Callable[[RoundRecord], None]] = []  # told of a round before it goes out of memory
        self.n_marked = 0  # grows when a mark is set on a round that is no longer in memory
        self._window = WINDOW if window is None else window
        self._near: dict[int, RoundRecord] = {}  # the newest, in order
        self._pinned: dict[int, RoundRecord] = {}  # changed after they were written: they stay
        self._again: OrderedDict[int, RoundRecord] = OrderedDict()  # read again
        self._held: WeakValueDictionary[int, RoundRecord] = WeakValueDictionary()
        self._n_complete = 0  # of those away
        self._n_away = 0  # rounds before the window
        self._settings: list[Any] = []  # knob values by number
        self._kinds: dict[type[Event], int] = {}  # of records in the spool, by number
        self._queries: list[Query] = []  # of every round away, by number: one entry a query
        self._offset, self._size = array("q"), array("i")
        self._numbers = {name: array("i") for name in ("q", "r", "n", "upto", "first_node", "knobs", "query")}
        self._times = array("q")
        self._counts = {name: array("i") for name in ("n_emitted", "n_accepted", "n_drafted")}
        self._flags = array("B")
        self._next_node = 0

    # As a sequence ---------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._n_away + len(self._near)

    @overload
    def __getitem__(self, index: int) -> RoundRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[RoundRecord]: ...
    def __getitem__(self, index: int | slice) -> RoundRecord | list[RoundRecord]:
        if isinstance(index, slice):
            return [self._at(k) for k in range(*index.indices(len(self)))]
        place = index + len(self) if index < 0 else index
        if not self.n_gone <= place < len(self):
            raise IndexError(f"round {index} of {len(self)}")
        return self._at(place)

    def __iter__(self) -> Iterator[RoundRecord]:
        """In order; only one of those away is in memory at a time."""
        index = self.n_gone
        while index < len(self):
            yield self._at(index, keep=False)
            index += 1

    def append(self, record: RoundRecord) -> None:
        """The next round. The oldest of the window goes."""
        self._near[record.index] = record
        while len(self._near) > self._window:
            if not self._put_away(next(iter(self._near))):
                break

    def pop(self) -> RoundRecord:
        """Take the last one away."""
        return self._near.popitem()[1]

    @property
    def last(self) -> RoundRecord | None:
        """The newest; None before the first."""
        return next(reversed(self._near.values()), None)

    @property
    def n_gone(self) -> int:
        """Rounds that nobody can ask for any more."""
        return 0 if self.whole else self._n_away

    def keep(self, record: RoundRecord) -> None:
        """A mark was set on a record, wherever it is: it stays in memory from now on."""
        if record.index < self._n_away:
            self._pinned[record.index] = record
            self._flags[record.index] = _flags(record)
            self.n_marked += 1

    def set_knobs(self, first: int, knobs: Any) -> None:
        """Other knob values from a round on."""
        for index in range(first, self._n_away):
            self._numbers["knobs"][index] = self._setting(knobs)
            if index in self._held:
                self._held[index].knobs = knobs
        for index in range(max(first, self._n_away), len(self)):
            self._near[index].knobs = knobs

    # What is known of every round without reading it -----------------------------------------------------------------

    @property
    def n_away(self) -> int:
        """Rounds that are not in memory for being new."""
        return self._n_away

    @property
    def n_complete(self) -> int:
        """Rounds that came to their end."""
        return self._n_complete + sum(record.complete for record in self._near.values())

    def place(self, index: int) -> tuple[int, int]:
        """Query and round."""
        if index < self._n_away:
            return self._numbers["q"][index], self._numbers["r"][index]
        return self._near[index].q, self._near[index].r

    def covers(self, index: int, q: int, pos: int) -> bool:
        """Whether this round of the query committed the token at a position."""
        if index < self._n_away:
            numbers = self._numbers
            return numbers["q"][index] == q and numbers["n"][index] <= pos < numbers["upto"][index]
        record = self._near[index]
        return record.q == q and record.commit is not None and record.start.n <= pos < record.commit.n

    def began(self, index: int) -> int:
        """When it began: nanoseconds of the trace's clock."""
        return self._times[index] if index < self._n_away else self._near[index].start.t

    def rejected(self, index: int) -> bool:
        """Whether a drafted token was tested and lost."""
        return bool(self._flags[index] & _REJECTED) if index < self._n_away else self._near[index].rejected

    def point(self, index: int) -> RoundPoint:
        """A round on the time line."""
        if index >= self._n_away:
            return _point(self._near[index])
        emitted, accepted, drafted = (None if column[index] < 0 else column[index] for column in self._counts.values())
        q, r = self.place(index)
        flags = self._flags[index]
        return RoundPoint(index, q, r, emitted, accepted, drafted, bool(flags & _REJECTED), _marks(flags))

    def points(self) -> "Points":
        """The time line as it is now."""
        tail = tuple(self.point(index) for index in range(self._n_away, len(self)))
        return Points(self, self._n_away, self.n_marked, tail)

    def marked_away(self, n: int) -> Iterator[int]:
        """Those of the first `n` rounds that carry a mark."""
        for index, flags in enumerate(memoryview(self._flags)[:n]):
            if flags & ~(_COMPLETE | _REJECTED):
                yield index

    def node(self, index: int, stop: int, node: int) -> Node | None:
        """A node that was drafted in one of the rounds away from `index` to `stop`: ids count up over a query."""
        firsts, stop = self._numbers["first_node"], min(stop, self._n_away)
        while stop - index > 1:
            middle = (index + stop) // 2
            index, stop = (middle, stop) if firsts[middle] <= node else (index, middle)
        return self._at(index).nodes.get(node) if index < stop else None

    # Away and back ---------------------------------------------------------------------------------------------------

    def _at(self, index: int, keep: bool = True) -> RoundRecord:
        found = self._near.get(index) or self._pinned.get(index) or self._held.get(index)
        if found is None:
            found = self._read(index)
        if keep and index < self._n_away and index not in self._pinned:
            self._again[index] = found
            self._again.move_to_end(index)
            if len(self._again) > AT_HAND:
                self._again.popitem(last=False)
        return found

    def _put_away(self, index: int) -> bool:
        """Write a record to the spool; False, and it stays, when the disk is full."""
        record = self._near[index]
        for tell in self.leaving:
            tell(record)
        if self.whole:
            kinds = [(self._kinds.setdefault(kind, len(self._kinds)), found) for kind, found in record.by_kind.items()]
            page = (record.start, record.n_before, record.serial, record.born, kinds)
            try:
                offset, size = self.spool.put(_encoder.encode(page))
            except OSError:
                return False
            self._offset.append(offset)
            self._size.append(size)
            self._note_numbers(record)
            self._held[index] = record
        del self._near[index]
        self._n_away += 1
        record.query.forget_nodes(record)
        return True

    def _note_numbers(self, record: RoundRecord) -> None:
        if not self._queries or self._queries[-1] is not record.query:
            if self._queries:
                self._queries[-1].put_away(self.spool)
            self._queries.append(record.query)
        first = min(record.nodes, default=self._next_node)
        if record.nodes:
            self._next_node = max(record.nodes) + 1
        upto = record.commit.n if record.commit is not None else -1
        numbers = (record.q, record.r, record.start.n, upto, first, self._setting(record.knobs), len(self._queries) - 1)
        for column, value in zip(self._numbers.values(), numbers, strict=True):
            column.append(max(-_MOST, min(_MOST, value)))
        self._times.append(record.start.t)
        for name, column in self._counts.items():
            column.append(-1 if record.end is None else max(0, min(_MOST, getattr(record.end, name))))
        self._flags.append(_flags(record))
        self._n_complete += record.complete

    def _setting(self, knobs: Any) -> int:
        if not self._settings or self._settings[-1] is not knobs:
            self._settings.append(knobs)
        return len(self._settings) - 1

    def _read(self, index: int) -> RoundRecord:
        start, n_before, serial, born, pieces = _pages.decode(self.spool.get((self._offset[index], self._size[index])))
        query, knobs = (self._numbers[name][index] for name in ("query", "knobs"))
        record = RoundRecord(index, start, self._queries[query], n_before, self._settings[knobs], serial, born)
        kinds = list(self._kinds)
        record.by_kind = {kinds[number]: _reader(kinds[number]).decode(raw) for number, raw in pieces}
        record.nodes = {node.node: node for node in record.every(Node)}
        record.verdicts = {verdict.node: verdict for verdict in record.every(Verify)}
        record.chains = {chain.node: chain for chain in record.every(Chain)}
        self._held[index] = record
        return record


class Points(Sequence[RoundPoint]):
    """The time line at one moment: what was in memory then as it was, older rounds from the columns."""

    __slots__ = ("_marked", "_n_away", "_rounds", "_tail")

    def __init__(self, rounds: Rounds, n_away: int, marked: int, tail: tuple[RoundPoint, ...]) -> None:
        self._rounds, self._n_away, self._marked, self._tail = rounds, n_away, marked, tail

    def __len__(self) -> int:
        return self._n_away + len(self._tail)

    @overload
    def __getitem__(self, index: int) -> RoundPoint: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[RoundPoint, ...]: ...
    def __getitem__(self, index: int | slice) -> RoundPoint | tuple[RoundPoint, ...]:
        if isinstance(index, slice):
            return tuple(self[k] for k in range(*index.indices(len(self))))
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(index)
        return self._tail[place - self._n_away] if place >= self._n_away else self._rounds.point(place)

    def marked(self) -> Iterable[RoundPoint]:
        """Those with a marker, without looking at every one."""
        yield from (self[index] for index in self._rounds.marked_away(self._n_away))
        yield from (point for point in self._tail if point.markers)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Points) and self._rounds is other._rounds and self._n_away == other._n_away:
            return self._marked == other._marked and self._tail == other._tail
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]


def _point(record: RoundRecord) -> RoundPoint:
    end = record.end
    return RoundPoint(
        index=record.index, q=record.q, r=record.r, n_emitted=end.n_emitted if end else None,
        n_accepted=end.n_accepted if end else None, n_drafted=end.n_drafted if end else None, rejected=record.rejected,
        markers=record.markers,
    )  # fmt: skip


def _flags(record: RoundRecord) -> int:
    bits = (record.complete, record.rejected, bool(record.changes), bool(record.notes), bool(record.warnings))
    return sum(bit << k for k, bit in enumerate(bits))


def _marks(flags: int) -> str:
    return "◆" * bool(flags & _CHANGED) + "⚑" * bool(flags & _NOTED) + "⚠" * bool(flags & _WARNED)
