"""`Trace`: a file of events that may still be growing.

`poll()` gives what was completed since the last call; a finished file is the same thing, read in one poll. The open
file is followed, not the name: when the recorder zips and removes it, the remaining lines still arrive.

A last line without its newline is *torn* (the recorder was cut off, or is writing it now) and is left out. Everything
else that is no valid record raises `TraceError` with the line number and the reason.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from specviz.errors import TraceError
from specviz.events import End, Event, Header
from specviz.trace import files
from specviz.trace.check import Checker, Ranges
from specviz.trace.files import FLAG, KEPT_MB, RECORD, STREAMED_MB, Damaged, Plain, foreign, most_bytes, resolve
from specviz.trace.migrate import major_of, record_of

_LONGEST = 16 << 20  # of a line: a prompt of a million tokens has some twelve
_MOST_BLANK = 10_000
_END = b'{"ev":"end"'


class Trace:
    """An opened trace. `check`: also tests the invariants that a reader can check, while reading. `unzipped`: told of
    the plain text of a zipped one, piece by piece as it is read for the first time."""

    def __init__(self, path: Path | str, check: bool = False, unzipped: Callable[[bytes], None] | None = None) -> None:
        self.path = resolve(path)
        self.header: Header | None = None  # None only while a recorder has written nothing yet
        self.end: End | None = None
        self.torn = False
        self.n_lines = 0
        self._source = Plain(self.path, most_bytes(STREAMED_MB))
        self._major = 0
        self._offset = 0  # of the lines that were taken
        self._lines: deque[bytes] = deque()  # whole ones, read and not taken
        self._rest = b""  # what follows them, without a newline so far
        self._astray = False  # something else was read in between
        self._n_blank = 0
        self._last = (0, 0)  # query and round of the last record
        self._ranges = Ranges()
        self._checker = Checker(self.path) if check else None
        self._unzipped = unzipped if self._source.packed else None
        try:
            self._first_line()
        except TraceError:
            self.close()
            raise

    @property
    def growing(self) -> bool:
        """Whether a recorder still writes to it."""
        return self.end is None and not self._source.packed and files.held(self._source.file)

    @property
    def n_trailing(self) -> int:
        """Bytes behind the end of a zipped file that belong to no gzip data."""
        return self._source.n_trailing

    @property
    def offset(self) -> int:
        """Bytes of plain text up to the end of the last record taken."""
        return self._offset

    @property
    def packed(self) -> bool:
        return self._source.packed

    @property
    def share(self) -> float:
        """How much of the file was read, 0 to 1."""
        return self._source.share

    def stretch(self, offset: int, size: int) -> Iterator[Event]:
        """The records of some bytes of the plain text, which are whole lines, read again and not checked again."""
        self._astray = True
        try:
            data = self._source.stretch(offset, size)
        except (Damaged, OSError) as error:
            raise TraceError(f"{self.path}: {error}; copy the file again") from None
        yield from self.records(data)

    def records(self, data: bytes) -> Iterator[Event]:
        """The records of whole lines of this trace, not checked again."""
        for line in data.split(b"\n"):
            if line.strip() and (event := record_of(line, 0, self.path, self._major)) is not None:
                yield event

    def read(self) -> Iterator[Event]:
        """The records completed since the last call, one by one: none is kept here. Never waits."""
        if self.header is None and not self._first_line():
            return
        self._return()
        while (line := self._next()) is not None or self._finished():
            if line is None:
                line, self._rest, self.torn = self._rest, b"", False
            self.n_lines += 1
            self._offset += len(line) + 1
            if not line.strip():
                self._n_blank += 1
                if self._n_blank > _MOST_BLANK:
                    raise TraceError(f"{self.path} line {self.n_lines}: more than {_MOST_BLANK:,} empty lines")
                continue
            event = record_of(line, self.n_lines, self.path, self._major)
            if event is None:
                continue
            wrong = next((f"{_tag(event)}: {reason}" for reason in self._ranges.wrong(event)), "")
            if self.end is not None:
                wrong = f"a '{_tag(event)}' record stands behind the end of the run"
            elif isinstance(event, Header) and self.n_lines > 1:
                wrong = "a second header; two recordings run together, split them there"
            if wrong:
                raise TraceError(f"{self.path} line {self.n_lines}: {wrong}")
            if isinstance(event, End):
                self.end = event
            self._last = event.q, event.r
            if self._checker:
                self._checker.take(event, self.n_lines)
            yield event

    def poll(self) -> list[Event]:
        """The records completed since the last call, all of them at once."""
        events, most = [], most_bytes(KEPT_MB)
        for event in self.read():
            events.append(event)
            if self._offset > most:
                raise TraceError(
                    f"{self.path} holds more than {most >> 20} MB of records, which would all be kept in memory; raise "
                    f"the limit with {FLAG}, or look at it with 'specviz stats', which keeps none"
                )
        return events

    def intact(self) -> bool | None:
        """Whether the bytes before `end` still have the hash it names; None when there is no `end` or no hash in it."""
        if self.end is None or self.end.sha256 is None:
            return None
        digest, last = hashlib.sha256(), b""
        for line in self._every_line():
            digest.update(last)
            last = line
        return digest.hexdigest() == self.end.sha256

    def close(self) -> None:
        self._source.close()

    def __enter__(self) -> "Trace":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Lines ------------------------------------------------------------------------------------------------------------

    def _return(self) -> None:
        """To the place behind the last line taken. What was torn in a plain file may have been written anew."""
        if self._source.packed and not self._astray:
            return
        self._source.seek(self._offset)
        self._lines.clear()
        self._rest, self._astray = b"", False

    def _next(self) -> bytes | None:
        """The next whole line without its newline; None when no more is there."""
        while not self._lines:
            piece = self._piece()
            if self._unzipped is not None:
                self._unzipped(piece)
            if not piece:
                self.torn = bool(self._rest)
                return None
            *whole, self._rest = (self._rest + piece).split(b"\n")
            self._lines.extend(whole)
            if len(self._rest) > _LONGEST:
                raise TraceError(
                    f"{self.path} line {self.n_lines + len(self._lines) + 1}: longer than {_LONGEST >> 20} MB, which "
                    "no record is"
                )
        return self._lines.popleft()

    def _piece(self) -> bytes:
        try:
            return self._source.piece()
        except Damaged as error:
            q, r = self._last
            raise TraceError(
                f"{self.path}: {error}, after {self.n_lines} whole lines; copy the file again (it was read as far as "
                f"round {r} of query {q})"
            ) from None

    def _finished(self) -> bool:
        """Whether the text after the last newline is a complete `end` record whose newline an editor removed."""
        if not (self._rest.startswith(_END) and self._rest.endswith(b"}")):
            return False
        try:
            msgspec.json.decode(self._rest)
        except (msgspec.DecodeError, RecursionError):  # a cut that fell behind the brace of an inner object
            return False
        return True

    def _every_line(self) -> Iterator[bytes]:
        """The file again from its first byte, newlines included."""
        self._astray = True
        self._source.seek(0)
        rest = b""
        while piece := self._piece():
            *whole, rest = (rest + piece).split(b"\n")
            yield from (line + b"\n" for line in whole)
        if rest:
            yield rest

    def _first_line(self) -> bool:
        """Checks the header line. False while a recorder has not written it yet."""
        self._return()
        first = b""
        while not (first := self._next() or b""):
            if self._rest and not self._rest.lstrip().startswith(b"{"):
                raise foreign(self.path, "its first line is not a JSON object")
            if self._lines:
                raise foreign(self.path, "its first line is empty")
            if self.growing:
                return False
            raise self._no_header(self._rest)
        self._lines.appendleft(first)
        self._major = major_of(first, self.path)
        header = record_of(first, 1, self.path, self._major)
        assert isinstance(header, Header), type(header)
        self.header = header
        return True

    def _no_header(self, first: bytes) -> TraceError:
        if not first:
            return TraceError(f"{self.path} is empty: nothing was recorded; record again with {RECORD}")
        if first.startswith(b'{"ev":"header"'):
            return TraceError(f"{self.path} was cut off inside its header: nothing can be shown; record it again")
        return foreign(self.path, "it has no header line")


def _tag(event: Event) -> str:
    return str(event.__struct_config__.tag)


def read_events(path: Path | str, check: bool = False) -> list[Event]:
    """All records of a trace."""
    with Trace(path, check) as trace:
        return trace.poll()
