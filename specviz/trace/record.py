"""`Recorder`: events into a file, on the reader's side of the pipe, so that a crash of the core keeps the trace.

Plain JSON lines while the run goes on, written at the end of every round; zipped when it has ended (to a temporary
name, then renamed), and left plain when zipping fails. The file takes its name with the first line, so a run that
never began destroys no older trace.

Nothing here ever stops a run: a disk that is full or not writable sets `problem`, calls `on_problem` with a `warn`
event, and keeps the unwritten bytes, which are tried again with every round until they pass 256 MiB. So the file is
at every moment a prefix of the whole recording, its last line perhaps torn.
"""

import errno
import gzip
import hashlib
import os
import shutil
import threading
import uuid
import zlib
from collections.abc import Callable
from pathlib import Path

import msgspec

from specviz.errors import TraceError
from specviz.events import LEVEL_OF, LEVELS, WIRE_RECORDS, End, Event, Header, Level, Warn, encode_lines
from specviz.events.early_exit import Climb, ExitRound, ExitTable, Gate
from specviz.events.round import Chain, Closing, Commit, Node, RoundStart, Span, Verify
from specviz.trace import lock
from specviz.trace.files import packed_path, plain_path
from specviz.trace.private import Redactor, named
from specviz.trace.totals import Totals

# Encoded together and written with the record that follows them; any other record is written at once.
_INSIDE_A_ROUND = frozenset({RoundStart, Node, Verify, Chain, Closing, Commit, Span, Climb, Gate, ExitRound, ExitTable})
_NOT_WRITTEN = frozenset(WIRE_RECORDS)
_PATIENCE = 256 << 20
_HEADER = b'{"ev":"header"'


class Recorder:
    """Writes one run. Calls may come from several threads.

    `level` filters by record (None: all that comes). Fields of level `full` are null at `summary` already, because
    the core does not copy them. Paths are cut to names; with `redact` ids are written in place of any text. Raises
    TraceError only for a name that would destroy something that is no trace.
    """

    def __init__(
        self,
        path: Path | str,
        level: Level | None = None,
        on_problem: Callable[[Warn], None] | None = None,
        redact: bool = False,
    ) -> None:
        self.path = plain_path(path)  # the zipped name once the run has ended
        self.problem: str | None = None
        self.ended = False
        self._level = level
        self._on_problem = on_problem
        self._redact: Callable[[Event], Event | None] = Redactor() if redact else lambda event: event
        self._lock = threading.Lock()
        self._digest = hashlib.sha256()
        self._totals = Totals()
        self._waiting: list[Event] = []  # not encoded yet
        self._unwritten = bytearray()
        self._last = Event()
        self._count = 0
        self._fd: int | None = None  # None: nothing is written (any more)
        # Its name until the first line; of this recorder alone, one process may have several.
        self._new: Path | None = self.path.with_name(f".{self.path.name}.{uuid.uuid4().hex}.new")
        refuse_foreign(self.path)
        self._open()

    def write(self, event: Event) -> None:
        """Takes one event; records of the wire and above the level are left out, numbers are given anew."""
        with self._lock:
            if self.ended or type(event) in _NOT_WRITTEN or not self._wanted(event):
                return
            told = self._redact(named(event))
            if told is None:
                return
            event = told
            if isinstance(event, End):
                self._finish(event)
                return
            self._totals.take(event)
            if isinstance(event, Header) and self._level is not None:
                event = msgspec.structs.replace(event, level=min(event.level, self._level, key=LEVELS.__getitem__))
            self._add(event)
            if type(event) not in _INSIDE_A_ROUND:
                self._flush()

    def close(self, reason: str = "cancelled", message: str | None = None) -> None:
        """Ends the file with `reason` when no `end` came; leaves no file when nothing came. Again: does nothing."""
        if not self.ended:
            last = self._last
            self.write(End(reason=reason, message=message, t=last.t, q=last.q, r=last.r))

    def _wanted(self, event: Event) -> bool:
        return self._level is None or LEVELS[LEVEL_OF.get(type(event), "none")] <= LEVELS[self._level]

    def _add(self, event: Event) -> None:
        if event.i != self._count:
            event = msgspec.structs.replace(event, i=self._count)
        self._count += 1
        self._last = event
        self._waiting.append(event)

    def _encode(self) -> None:
        """A round at a time: record by record it would cost twice as much."""
        lines = encode_lines(self._waiting)
        self._waiting.clear()
        self._digest.update(lines)
        if self._fd is not None:
            self._unwritten += lines

    def _finish(self, end: End) -> None:
        begun = self._count > 0
        if begun:
            self._encode()
            totals = {**end.totals, **self._totals.as_dict()}
            self._add(msgspec.structs.replace(end, totals=totals, n_lines=self._count, sha256=self._digest.hexdigest()))
            self._flush()
        self.ended = True
        complete = begun and self._fd is not None and not self._unwritten
        self._let_go()
        if complete:
            self.path = pack(self.path)

    def _open(self) -> None:
        assert self._new is not None
        try:
            self._fd = os.open(self._new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        except OSError as error:
            self._tell(error)
            return
        lock.hold(self._fd)

    def _flush(self) -> None:
        self._encode()
        if self._fd is None:
            return
        try:
            if self._new is not None:
                if _taken(self.path):  # it began after this one was made, and was faster
                    self._tell(OSError(errno.EBUSY, "another run is recording there"))
                    self._let_go()
                    return
                self._new.replace(self.path)  # readers of an older file of that name keep what they read
                self._new = None
            while self._unwritten:
                written = os.write(self._fd, self._unwritten)
                del self._unwritten[:written]
            self.problem = None
        except OSError as error:
            self._tell(error)
            if len(self._unwritten) > _PATIENCE:
                self._let_go()  # for good: a later line must not follow a hole

    def _let_go(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            if self._new is not None:
                self._new.unlink(missing_ok=True)
        self._fd = None
        self._unwritten.clear()

    def _tell(self, error: OSError) -> None:
        if self.problem is not None:
            return
        self.problem = error.strerror or str(error)
        if self._on_problem:
            message = f"not recording to {self.path}: {self.problem}; the run goes on"
            self._on_problem(Warn(code="disk_full", message=message, t=self._last.t, q=self._last.q, r=self._last.r))


def pack(plain: Path) -> Path:
    """Zips a finished file and removes the plain one; returns the name that is there afterwards."""
    packed = packed_path(plain)
    temporary = packed.with_name(f".{packed.name}.{os.getpid()}.tmp")
    try:
        with plain.open("rb") as source, open(temporary, "wb", opener=_private) as sink:
            with gzip.GzipFile(filename="", mode="wb", fileobj=sink, compresslevel=6, mtime=0) as zipped:
                shutil.copyfileobj(source, zipped, 1 << 20)
            sink.flush()
            os.fsync(sink.fileno())
        temporary.replace(packed)
        plain.unlink()
    except OSError:
        temporary.unlink(missing_ok=True)
        return plain if plain.exists() else packed
    return packed


def _private(path: str, flags: int) -> int:
    """A file for its owner alone: what people ask a model is nobody else's business."""
    return os.open(path, flags, 0o600)


def refuse_foreign(path: Path) -> None:
    """Recording over an older trace is fine, over anything else, under either name, is not: TraceError."""
    for name in (path, packed_path(path)):
        if name.is_dir():
            raise TraceError(f"cannot record to {name}: it is a folder; name a file in it")
        if name.exists() and not name.is_file():  # a pipe would be waited for, a device replaced
            raise TraceError(f"cannot record to {name}: it is no regular file; choose another name")
        if _beginning(name) not in (b"", _HEADER):
            raise TraceError(f"cannot record to {name}: it exists and is not a trace; choose another name")
    if _taken(path):
        raise TraceError(f"cannot record to {path}: another run is recording there; choose another name")


def _beginning(path: Path) -> bytes:
    """The first bytes, inflated; none of a file that is not there or cannot be read: opening it for writing tells."""
    try:
        with path.open("rb") as file:
            if path.suffix != ".gz":
                return file.read(len(_HEADER))
            return gzip.GzipFile(fileobj=file).read(len(_HEADER)) or b"nothing"
    except (EOFError, zlib.error, gzip.BadGzipFile):
        return b"no gzip data"
    except OSError:
        return b""


def _taken(path: Path) -> bool:
    """Whether another recorder writes to the file of that name now."""
    try:
        with path.open("rb") as file:
            return lock.held(file)
    except OSError:
        return False
