"""`Trace`: a file of events that may still be growing.

`poll()` gives what was completed since the last call and extends an index of byte ranges, so that any round can be read
again with one seek. A finished file is the same thing, read in one poll. The open file is followed, not the name: when
the recorder zips and removes it, the remaining lines still arrive.

A last line without its newline is *torn* (the recorder was cut off, or is writing it now) and is left out. Everything
else that is no valid record raises `TraceError` with the line number and the reason.
"""

import hashlib
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

from specviz.errors import TraceError
from specviz.events import End, Event, Header
from specviz.trace import lock
from specviz.trace.check import Checker
from specviz.trace.files import RECORD, foreign, open_plain, resolve
from specviz.trace.lines import major_of, record_of

_LONGEST_HEADER = 4 << 20
_END = b'{"ev":"end"'
Place = tuple[int, int]  # query, round


class Trace:
    """An opened trace. `check`: also tests the invariants that a reader can check, while reading."""

    def __init__(self, path: Path | str, check: bool = False) -> None:
        self.path = resolve(path)
        self.header: Header | None = None  # None only while a recorder has written nothing yet
        self.end: End | None = None
        self.torn = False
        self.n_lines = 0
        self._file = open_plain(self.path)
        self._major = 0
        self._offset = 0
        self._index: dict[Place, list[tuple[int, int]]] = {}
        self._checker = Checker(self.path) if check else None
        try:
            self._first_line()
        except TraceError:
            self.close()
            raise

    @property
    def growing(self) -> bool:
        """Whether a recorder still writes to it."""
        return self.end is None and isinstance(self._file, BufferedReader) and lock.held(self._file)

    @property
    def places(self) -> list[Place]:
        """Every (query, round) seen so far, in order; round 0 is what stands before a query's first round."""
        return list(self._index)

    def poll(self) -> list[Event]:
        """The records completed since the last call. Never waits."""
        if self.header is None and not self._first_line():
            return []
        self._file.seek(self._offset)
        data = self._file.read()
        events = []
        start, number = 0, self.n_lines
        for line in _whole_lines(data):
            number += 1
            event = record_of(line, number, self.path, self._major) if line.strip() else None
            place = self._offset + start
            start += len(line) + 1
            if event is None:
                continue
            self._take(event, number, place, place + len(line) + 1)
            events.append(event)
        self._offset, self.n_lines = min(self._offset + start, self._offset + len(data)), number
        self.torn = start < len(data)
        return events

    def round(self, q: int, r: int) -> list[Event]:
        """The records of one round, read again from the file. Raises TraceError for a round it does not have."""
        if (q, r) not in self._index:
            last = max((place[1] for place in self._index if place[0] == q), default=None)
            has = f"rounds 0..{last}" if last is not None else "no such query"
            raise TraceError(f"{self.path} has no round {r} of query {q}: {has}")
        out = []
        for start, stop in self._index[q, r]:
            self._file.seek(start)
            found = (record_of(line, 0, self.path, self._major) for line in self._file.read(stop - start).splitlines())
            out += [event for event in found if event is not None]
        return out

    def intact(self) -> bool | None:
        """Whether the bytes before `end` still have the hash it names; None when there is no `end` or no hash in it."""
        if self.end is None or self.end.sha256 is None:
            return None
        self._file.seek(0)
        digest, last = hashlib.sha256(), b""
        for line in self._file:
            digest.update(last)
            last = line
        return digest.hexdigest() == self.end.sha256

    def close(self) -> None:
        """Lets go of the file."""
        self._file.close()

    def __enter__(self) -> "Trace":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _first_line(self) -> bool:
        """Checks the header line. False while a recorder has not written it yet."""
        self._file.seek(0)
        first = self._file.readline(_LONGEST_HEADER)
        if not first.endswith(b"\n"):
            if len(first) < _LONGEST_HEADER and self.growing:
                return False
            raise self._no_header(first)
        self._major = major_of(first, self.path)
        header = record_of(first, 1, self.path, self._major)
        assert isinstance(header, Header), type(header)
        self.header = header
        return True

    def _no_header(self, first: bytes) -> TraceError:
        if not first:
            return TraceError(f"{self.path} is empty: nothing was recorded; record again with {RECORD}")
        if first.startswith(b'{"ev":"header"') and len(first) < _LONGEST_HEADER:
            return TraceError(f"{self.path} was cut off inside its header: nothing can be shown; record it again")
        return foreign(self.path, "it has no header line")

    def _take(self, event: Event, number: int, start: int, stop: int) -> None:
        if self.end is not None:
            raise TraceError(f"{self.path} line {number}: a '{_tag(event)}' record stands behind the end of the run")
        if isinstance(event, Header) and number > 1:
            raise TraceError(
                f"{self.path} line {number}: a second header; two recordings run together, split them there"
            )
        if isinstance(event, End):
            self.end = event
        if self._checker:
            self._checker.take(event, number)
        spans = self._index.setdefault((event.q, event.r), [])
        if spans and spans[-1][1] == start:
            spans[-1] = (spans[-1][0], stop)
        else:
            spans.append((start, stop))


def _whole_lines(data: bytes) -> Iterator[bytes]:
    """Lines with their newline, without it; a last `end` record counts although an editor took its newline away."""
    lines = data.split(b"\n")
    last = lines.pop()
    yield from lines
    if last.startswith(_END) and last.endswith(b"}"):
        yield last


def _tag(event: Event) -> str:
    return str(event.__struct_config__.tag)


def read_events(path: Path | str, check: bool = False) -> list[Event]:
    """All records of a trace."""
    with Trace(path, check) as trace:
        return trace.poll()
