"""`Kept`: every event of a live run in order, for whoever comes late: a browser tab, a recording switched on midway.

The newest are in memory, the others in a spool: a run may go on for hours.
"""

from bisect import bisect_right
from collections.abc import Iterator

from specviz.events import Event, decode, encode_lines
from specviz.runlog.spool import Place, Spool

TAIL = 512  # events that go to the spool together


class Kept:
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
        """From the n-th on, counted from 0, up to the last there is when it is reached."""
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
        """Let go of the file."""
        self._spool.close()
