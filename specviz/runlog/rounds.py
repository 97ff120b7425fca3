"""`Rounds`: all rounds of a run as a sequence, of which only the newest and the recently used ones are in memory.

Older ones are written to a spool file and read back on access, equal to what they were. What every frame needs of all
rounds (time line, search) is kept as rows of numbers, 128 bytes a round. While a record is referenced anywhere, access
returns the same object.

Rounds of a recording need no spool: a `RoundReader` reads them from the trace (`StoredRounds`).
"""

from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from types import GenericAlias
from typing import Any, NamedTuple, Protocol, overload
from weakref import WeakValueDictionary

import msgspec

from specviz.events import Event, Node, RoundStart
from specviz.runlog.run import Query, RoundRecord
from specviz.runlog.spool import Place, Shelf, Spool


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
AT_HAND = 128  # rounds read back that stay cached
_COMPLETE, _REJECTED = 1, 2
_MARKS = {4: "⚠", 8: "⚑", 16: "◆"}  # the gravest first
_MOST = (1 << 62) - 1


class _Row(NamedTuple):
    """A round in numbers; -1: not recorded."""

    q: int
    r: int
    began: int  # ns
    n: int  # tokens of text before it
    upto: int  # and after it
    n_emitted: int
    n_accepted: int
    n_drafted: int
    flags: int

    @classmethod
    def of(cls, record: RoundRecord) -> "_Row":
        """The row of numbers of a record in memory."""
        end = record.end
        counts = (end.n_emitted, end.n_accepted, end.n_drafted) if end is not None else (-1, -1, -1)
        marks = (bool(record.warnings), bool(record.notes), bool(record.changes))
        flags = sum(bit << k for k, bit in enumerate((record.complete, record.rejected, *marks)))
        upto = record.commit.n if record.commit is not None else -1
        return cls(record.q, record.r, record.start.t, record.start.n, upto, *counts, flags)


# Of a round away its numbers are followed by these: the smallest id of its nodes, its knob values and its query by
# their numbers, its place in the spool or the recording, the tokens of text before it, its serial number.
_EMITTED, _ACCEPTED, _DRAFTED, _FLAGS, _FIRST, _KNOBS, _PLACE, _WIDTH = 5, 6, 7, 8, 9, 10, 12, 16
# A record in the spool, without what its row and its query know: start, and its events by the number of their kind, so
# that a kind which nobody here has heard of is read again as what it was.
_Page = tuple[RoundStart, list[tuple[int, msgspec.Raw]]]
_encoder, _pages = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(_Page)


@cache
def _reader(kind: type[Event]) -> "msgspec.msgpack.Decoder[list[Any]]":
    return msgspec.msgpack.Decoder(GenericAlias(list, kind))


class RoundReader(Protocol):
    """Reads a round from where it was recorded."""

    def __call__(self, index: int, place: Place) -> tuple[RoundStart, list[Event]]:
        """How it began, and all records that belong to it. `place`: as its row names it."""


@dataclass(frozen=True, slots=True)
class StoredRounds:
    """All rounds of a run, none of them in memory: what `Rounds.summary` gave of them.

    `rows`: plain numbers, 16 a round; `settings` and `queries`: the knob values and the queries those name by number.
    """

    rows: "array[int]"
    settings: list[Any]
    queries: list[Query]


class Rounds(Sequence[RoundRecord]):
    """Grows at its end (`append`); only the last may be taken away again (`pop`).

    `whole=False`: a round that leaves the window is gone; asking for it raises IndexError. `reader`: rounds are read
    again from where they were recorded, and none is written. `spool`: where what leaves memory is written instead of a
    temporary file. `away`: rounds that are there from the beginning; they need a reader.
    """

    def __init__(
        self,
        window: int | None = None,
        whole: bool = True,
        *,
        reader: RoundReader | None = None,
        spool: Shelf | None = None,
        away: StoredRounds | None = None,
    ) -> None:
        self.whole = whole
        self.spool: Shelf = Spool() if spool is None else spool
        self._reader = reader
        self.on_evict: list[Callable[[RoundRecord], None]] = []  # called with a round before it leaves memory
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
        self._rows = array("q")  # of those away, one after another
        if away is not None:
            self._rows, self._settings, self._queries = away.rows, away.settings, away.queries
            self._n_away = len(away.rows) // _WIDTH
            self._n_complete = sum(bits & _COMPLETE for bits in away.rows[_FLAGS::_WIDTH])

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
        """All rounds in order; of those on disk only one is in memory at a time."""
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
        return self._near.popitem()[1]

    @property
    def last(self) -> RoundRecord | None:
        """The newest; None before the first."""
        near = next(reversed(self._near.values()), None)
        return self._at(self._n_away - 1) if near is None and self.whole and self._n_away else near

    @property
    def newest(self) -> tuple[int, int, bool]:
        """Serial number and stamp of the newest round, and whether it came to its end; it is not read for that. Of one
        that is out of memory the first two do not change, and are -1."""
        near = next(reversed(self._near.values()), None)
        if near is not None:
            return near.serial, near.stamp, near.complete
        return -1, -1, bool(self._n_away and self._row(self._n_away - 1).flags & _COMPLETE)

    @property
    def n_gone(self) -> int:
        """How many of the oldest rounds were dropped and cannot be read back."""
        return 0 if self.whole else self._n_away

    def keep(self, record: RoundRecord) -> None:
        """A mark was set on a record, wherever it is: it stays in memory from now on."""
        if record.index < self._n_away:
            self._pinned[record.index] = record
            self._rows[record.index * _WIDTH + _FLAGS] = _Row.of(record).flags
            self.n_marked += 1

    def set_knobs(self, first: int, knobs: Any) -> None:
        """Other knob values from a round on."""
        for index in range(first, self._n_away):
            self._rows[index * _WIDTH + _KNOBS] = self._setting(knobs)
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
        return self._n_complete + sum(record.complete for record in self._near.values())

    def _row(self, index: int) -> _Row:
        if index >= self._n_away:
            return _Row.of(self._near[index])
        return _Row._make(self._rows[index * _WIDTH : index * _WIDTH + len(_Row._fields)])

    def in_memory(self, index: int) -> bool:
        """Whether asking for a round reads nothing."""
        return index >= self._n_away or index in self._pinned or index in self._held

    def place(self, index: int) -> tuple[int, int]:
        """Query and round."""
        row = self._row(index)
        return row.q, row.r

    def covers(self, index: int, q: int, pos: int) -> bool:
        """Whether this round of the query committed the token at a position."""
        row = self._row(index)
        return row.q == q and row.n <= pos < row.upto

    def began(self, index: int) -> int:
        """When it began: nanoseconds of the trace's clock."""
        return self._row(index).began

    def rejected(self, index: int) -> bool:
        """Whether a drafted token was tested and lost."""
        return bool(self._row(index).flags & _REJECTED)

    def point(self, index: int) -> RoundPoint:
        """A round on the time line."""
        row = self._row(index)
        emitted, accepted, drafted = (None if n < 0 else n for n in (row.n_emitted, row.n_accepted, row.n_drafted))
        markers = "".join(mark for bit, mark in _MARKS.items() if row.flags & bit)
        return RoundPoint(index, row.q, row.r, emitted, accepted, drafted, bool(row.flags & _REJECTED), markers)

    def summary(self, places: Sequence[Place]) -> StoredRounds:
        """What is known of all rounds without reading them. `places`: where each was recorded."""
        rows = self._rows[:]
        for index in range(self._n_away, len(self)):
            rows.extend(self._full_row(self._near[index], (0, 0)))
        for index, place in enumerate(places):
            rows[index * _WIDTH + _PLACE : index * _WIDTH + _PLACE + 2] = array("q", place)
        return StoredRounds(rows, list(self._settings), list(self._queries))

    def marked_rounds(self) -> list[RoundRecord]:
        """Those that carry a mark of any kind, read where they are not in memory."""
        near = [record for record in self._near.values() if record.markers]
        return [self._at(index, keep=False) for index in self.marked_away(self._n_away)] + near

    def heights(self, first: int, stop: int) -> "array[int]":
        """Of rounds out of memory the tokens of text each brought; 0 where nothing of a draft was kept."""
        rows = self._rows[first * _WIDTH : stop * _WIDTH]
        emitted, accepted, drafted = (rows[k::_WIDTH] for k in (_EMITTED, _ACCEPTED, _DRAFTED))
        pairs = zip(emitted, accepted, drafted, strict=True)
        return array("q", (max(e, 0) if a > 0 or d <= 0 else 0 for e, a, d in pairs))

    def points(self) -> "Points":
        tail = tuple(self.point(index) for index in range(self._n_away, len(self)))
        return Points(self, self._n_away, self.n_marked, tail)

    def marked_away(self, n: int) -> list[int]:
        """The marked rounds among the first `n`, all of which left memory."""
        flags = self._rows[_FLAGS : n * _WIDTH : _WIDTH]
        return [index for index, bits in enumerate(flags) if bits & ~(_COMPLETE | _REJECTED)]

    def node(self, index: int, stop: int, node: int) -> Node | None:
        """A node that was drafted in one of the rounds away from `index` to `stop`: ids count up over a query."""
        stop = min(stop, self._n_away)
        while stop - index > 1:
            middle = (index + stop) // 2
            index, stop = (middle, stop) if self._rows[middle * _WIDTH + _FIRST] <= node else (index, middle)
        return self._at(index).nodes.get(node) if index < stop else None

    # Away and back ---------------------------------------------------------------------------------------------------

    def _at(self, index: int, keep: bool = True) -> RoundRecord:
        record = self._near.get(index) or self._pinned.get(index) or self._held.get(index)
        if record is None:
            record = self._read(index)
        if keep and index < self._n_away and index not in self._pinned:
            self._again[index] = record
            self._again.move_to_end(index)
            if len(self._again) > AT_HAND:
                self._again.popitem(last=False)
        return record

    def _put_away(self, index: int) -> bool:
        """Write a record to the spool; False, and it stays, when the disk is full."""
        record = self._near[index]
        for tell in self.on_evict:
            tell(record)
        if self.whole:
            try:
                place = self._write(record)
            except OSError:
                return False
            self._rows.extend(self._full_row(record, place))
            self._n_complete += record.complete
            self._held[index] = record
        del self._near[index]
        self._n_away += 1
        record.query.forget_nodes(record)
        return True

    def _write(self, record: RoundRecord) -> Place:
        """To the spool, unless it can be read from where it was recorded. Raises OSError."""
        if self._reader is not None:
            return 0, 0
        kinds = [(self._kinds.setdefault(kind, len(self._kinds)), events) for kind, events in record.by_kind.items()]
        return self.spool.put(_encoder.encode((record.start, kinds)))

    def _full_row(self, record: RoundRecord, place: Place) -> list[int]:
        """All numbers of a round, the next of those away."""
        if not self._queries or self._queries[-1] is not record.query:
            if self._queries:
                self._queries[-1].put_away(self.spool)
            self._queries.append(record.query)
        behind = (record.born, self._setting(record.knobs), len(self._queries) - 1, *place)
        numbers = (*_Row.of(record), *behind, record.n_before, record.serial)
        return [max(-_MOST, min(_MOST, number)) for number in numbers]

    def _setting(self, knobs: Any) -> int:
        if not self._settings or self._settings[-1] is not knobs:
            self._settings.append(knobs)
        return len(self._settings) - 1

    def _read(self, index: int) -> RoundRecord:
        row = self._rows[index * _WIDTH + _FIRST : (index + 1) * _WIDTH]
        born, knobs, query, offset, size, n_before, serial = row
        start, events = (self._reader or self._from_spool)(index, (offset, size))
        record = RoundRecord(index, start, self._queries[query], n_before, self._settings[knobs], serial, born)
        for event in events:
            record.take(event)
        self._held[index] = record
        return record

    def _from_spool(self, index: int, place: Place) -> tuple[RoundStart, list[Event]]:
        """Read a round back from the spool."""
        start, pieces = _pages.decode(self.spool.get(place))
        kinds = list(self._kinds)
        return start, [event for number, raw in pieces for event in _reader(kinds[number]).decode(raw)]


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
