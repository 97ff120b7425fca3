"""`EventSpool`: every event of a live run in order, for whoever comes late (a browser tab, a recording switched on).
`Spool`: what a long run pushes out of memory, in a temporary file of this process.

The file has no name where the system allows that, is readable by its owner alone, and is gone with the process,
however that ends. Pieces are compressed one by one, with the first ones as their dictionary: rounds are much alike.
"""

import tempfile
import weakref
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from typing import IO, Protocol

from specviz.events import Event, decode, encode_lines

Place = tuple[int, int]  # offset, length
_DICTIONARY = 24 << 10
_LEVEL = 1


class Shelf(Protocol):
    """Where what leaves memory is kept."""

    def put(self, data: bytes) -> Place:
        """Append a piece; its place. Raises OSError, with nothing changed, when the disk is full."""
        ...

    def get(self, place: Place) -> bytes:
        """The piece of a place."""
        ...


class Spool:
    """Append pieces, read them again by their place. The file is made with the first piece. Not for several threads."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._end = 0
        self._zdict = b""  # whole once a piece has been compressed with it
        self._plain: dict[int, bytes] = {}  # the pieces the dictionary is made of, kept as they are

    def put(self, data: bytes) -> Place:
        """Append a piece. Raises OSError, with nothing changed, when the disk is full."""
        if len(self._zdict) < _DICTIONARY:
            place = (-1 - len(self._plain), len(data))
            self._zdict += data[: _DICTIONARY - len(self._zdict)]
            self._plain[place[0]] = data
            return place
        packer = zlib.compressobj(_LEVEL, zdict=self._zdict)
        packed = packer.compress(data) + packer.flush()
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="specviz-", buffering=0)  # noqa: SIM115 (closed with this)
            weakref.finalize(self, self._file.close)
        self._file.seek(self._end)
        left = memoryview(packed)
        while left:
            left = left[self._file.write(left) :]
        place = (self._end, len(packed))
        self._end += len(packed)
        return place

    def get(self, place: Place) -> bytes:
        offset, length = place
        if offset < 0:
            return self._plain[offset]
        assert self._file is not None
        self._file.seek(offset)
        packed = self._file.read(length)
        return zlib.decompressobj(zdict=self._zdict).decompress(packed)

    @property
    def size(self) -> int:
        return self._end

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


TAIL = 512  # events that go to the spool together


class EventSpool:
    """Append events, read them from any place on. Not for several threads."""

    def __init__(self) -> None:
        self._spool = Spool()
        self._places: list[Place] = []  # of pieces
        self._firsts: list[int] = []  # the number of the first event of each
        self._n_away = 0
        self._tail: list[Event] = []

    def __len__(self) -> int:
        return self._n_away + len(self._tail)

    def append(self, event: Event) -> None:
        """The next event. On a full disk the newest stay in memory until there is room."""
        self._tail.append(event)
        if len(self._tail) % TAIL:
            return
        try:
            place = self._spool.put(encode_lines(self._tail))
        except OSError:
            return
        self._places.append(place)
        self._firsts.append(self._n_away)
        self._n_away += len(self._tail)
        self._tail = []

    def since(self, n: int) -> Iterator[Event]:
        """Entries from index n on, including those appended while iterating."""
        while n < self._n_away:
            piece = bisect_right(self._firsts, n) - 1
            lines = self._spool.get(self._places[piece]).splitlines()
            for line in lines[n - self._firsts[piece] :]:
                event = decode(line)
                assert event is not None, line[:80]  # written here, by this version
                yield event
                n += 1
        while n < len(self):
            yield self._tail[n - self._n_away]
            n += 1

    def close(self) -> None:
        self._spool.close()
