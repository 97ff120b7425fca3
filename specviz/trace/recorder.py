"""`Recorder`: events into a file, on the reader's side of the pipe, so that a crash of the core keeps the trace.

Plain JSON lines while the run goes on, written at the end of every round; zipped when it has ended (to a temporary
name, then renamed), and left plain when zipping fails. The file takes its name with the first line that is on disk, so
a run that never began destroys no older trace; an older one of the same name goes then, zipped or not.

The open file is what is ours, not the name: when the file of that name is another one, is gone or has another size,
`problem` says so, and what stands there is neither zipped nor removed.

Nothing here ever stops a run: a disk that is full or not writable sets `problem`, calls `on_problem` with a `warn`
event, and keeps the unwritten bytes, which are tried again with every round until they pass 256 MiB. So the file is
at every moment a prefix of the whole recording, its last line perhaps torn.

Sums over a run that stand in its `end` record, so that a reader can tell whether records are missing.
"""

import contextlib
import errno
import gzip
import hashlib
import os
import re
import shutil
import threading
import time
import uuid
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec

from specviz.errors import TraceError
from specviz.events import (
    LEVELS,
    WIRE_RECORDS,
    Commit,
    End,
    Event,
    Header,
    Level,
    Prefill,
    RoundEnd,
    Warn,
    encode_lines,
)
from specviz.trace import files
from specviz.trace.files import packed_path, plain_path
from specviz.trace.private import Redactor, named

_NOT_WRITTEN = frozenset(WIRE_RECORDS)
_PATIENCE = 256 << 20
_MOST_WAITING = 4096  # records inside a round; those of no round come by the thousand too (`exit_table`)
_STALE_S = 60.0
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
        self.taken = False  # by another run, that began to record under this name since we looked
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
        self._written = 0  # bytes
        self._fd: int | None = None  # None: nothing is written (any more)
        # Its name until the first line; of this recorder alone, one process may have several.
        self._new: Path | None = self.path.with_name(f".{self.path.name}.{uuid.uuid4().hex}.new")
        refuse_foreign(self.path)
        self._open()

    def write(self, event: Event) -> None:
        """Record an event, renumbered; events of the live connection and above the recorder's level are left out."""
        with self._lock:
            if self.ended or type(event) in _NOT_WRITTEN or not self._wanted(event):
                return
            redacted = self._redact(named(event))
            if redacted is None:
                return
            event = redacted
            if isinstance(event, End):
                self._finish(event)
                return
            self._totals.take(event)
            if isinstance(event, Header) and self._level is not None:
                event = msgspec.structs.replace(event, level=min(event.level, self._level, key=LEVELS.__getitem__))
            self._add(event)
            if not event.inside_round or len(self._waiting) >= _MOST_WAITING:
                self._flush()

    def close(self, reason: str = "cancelled", message: str | None = None) -> None:
        """Ends the file with `reason` when no `end` came; leaves no file when nothing came. Again: does nothing."""
        if not self.ended:
            last = self._last
            self.write(End(reason=reason, message=message, t=last.t, q=last.q, r=last.r))

    def _wanted(self, event: Event) -> bool:
        return self._level is None or LEVELS[event.written_at] <= LEVELS[self._level]

    def _add(self, event: Event) -> None:
        if event.i != self._count:
            event = msgspec.structs.replace(event, i=self._count)
        self._count += 1
        self._last = event
        self._waiting.append(event)

    def _encode(self) -> None:
        """A round at a time: record by record it would cost twice as much."""
        waiting, self._waiting = self._waiting, []  # first: an event that cannot be written must not block later ones
        try:
            lines = encode_lines(waiting)
        except (OverflowError, TypeError, ValueError):
            lines = b"".join(map(_line, waiting))
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
        if begun and self._fd is not None and self.problem is None:
            self.path = pack(self.path, self._fd)
            if not _is_there(self.path):  # gone while it could not be zipped
                self._tell(OSError(errno.ENOENT, "it was removed"), "trace_lost")
        self._let_go()

    def _open(self) -> None:
        assert self._new is not None
        try:
            sweep(self.path)
            self._fd = os.open(self._new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            self._tell(error)
            return
        files.hold(self._fd)

    def _flush(self) -> None:
        self._encode()
        if self._fd is None:
            return
        try:
            if self._new is not None and _taken(self.path):  # it began after this one was made, and was faster
                self.taken = True
                self._let_go()
                self._tell(OSError(errno.EBUSY, "another run is recording there"))
                return
            if (strayed := _resized(self._fd, self._written)) is not None:
                self._tell(OSError(errno.ENOENT, strayed), "trace_lost")
                self._let_go()  # for good: a later line would follow a gap, or overwrite another process's
                return
            while self._unwritten:
                written = os.write(self._fd, self._unwritten)
                self._written += written
                del self._unwritten[:written]
            if self._new is not None:
                self._take_name(self._new)
            self._look_after(self._fd)
        except OSError as error:
            self._tell(error)
            if len(self._unwritten) > _PATIENCE:
                self._let_go()  # for good: a later line must not follow a hole

    def _take_name(self, new: Path) -> None:
        new.replace(self.path)  # readers of an older file of that name keep what they read
        self._new = None
        older = packed_path(self.path)
        if _beginning(older) == _HEADER:  # else opening the zipped name would give another run
            older.unlink()

    def _look_after(self, fd: int) -> None:
        """Whether the file of our name is still the one we write, as long as we left it."""
        strayed = _strayed(self.path, fd, self._written)
        if strayed is None:
            self.problem = None
        elif self.problem != strayed:
            self.problem = None  # of another kind: told again
            self._tell(OSError(errno.ENOENT, strayed), "trace_lost")

    def _let_go(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            if self._new is not None:
                with contextlib.suppress(OSError):
                    self._new.unlink()
        self._fd = None
        self._unwritten.clear()

    def _tell(self, error: OSError, code: str = "disk_full") -> None:
        if self.problem is not None:
            return
        self.problem = error.strerror or str(error)
        if self._on_problem:
            message = f"not recording to {self.path}: {self.problem}; the run goes on"
            self._on_problem(Warn(code=code, message=message, t=self._last.t, q=self._last.q, r=self._last.r))


def _line(event: Event) -> bytes:
    """A record's line; where it cannot be written, that of a warning in its place, so that no number is missing."""
    try:
        return encode_lines([event])
    except (OverflowError, TypeError, ValueError) as error:
        message = f"a record of kind {type(event).__name__} cannot be written ({type(error).__name__}): it is left out"
        return encode_lines([Warn(code="not_written", message=message, i=event.i, t=event.t, q=event.q, r=event.r)])


def pack(plain: Path, fd: int | None = None) -> Path:
    """Zips a finished file and removes the plain one; returns the name that it has afterwards.

    `fd`: the open file, where the name may have come to mean another one: that is neither read nor removed. Nothing
    that stands under the zipped name is written over.
    """
    packed = packed_path(plain)
    temporary, name = _temporary(packed), plain
    try:
        with _reopened(plain, fd) as source, open(temporary, "xb", opener=_private) as sink:
            files.hold(sink.fileno())
            source.seek(0)
            with gzip.GzipFile(filename="", mode="wb", fileobj=sink, compresslevel=6, mtime=0) as zipped:
                shutil.copyfileobj(source, zipped, 1 << 20)
            sink.flush()
            os.fsync(sink.fileno())
            _name(temporary, packed)
            name = packed
            if os.path.samestat(plain.stat(), os.fstat(source.fileno())):
                plain.unlink()
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
    return name


def _temporary(packed: Path) -> Path:
    return packed.with_name(f".{packed.name}.{uuid.uuid4().hex}.tmp")


def longest_name(path: Path) -> Path:
    """The longest name that recording to `path` will need, for who wants to know whether that can be."""
    return _temporary(packed_path(path))


def _reopened(plain: Path, fd: int | None) -> BinaryIO:
    return plain.open("rb") if fd is None else os.fdopen(os.dup(fd), "rb")


def _name(temporary: Path, packed: Path) -> None:
    """Gives a file its name unless that is taken. Raises OSError."""
    try:
        os.link(temporary, packed)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if _is_there(packed):
            raise FileExistsError(errno.EEXIST, "File exists", str(packed)) from None
        temporary.replace(packed)
    else:
        temporary.unlink()


def _is_there(path: Path) -> bool:
    try:
        path.lstat()
    except OSError:
        return False
    return True


def _strayed(path: Path, fd: int, written: int) -> str | None:
    """What became of a file that we write, when its name no longer leads to it or its length is not ours."""
    ours = os.fstat(fd)
    try:
        there: os.stat_result | None = path.stat()
    except OSError:
        there = None
    if there is not None and not os.path.samestat(ours, there):
        return "another file was put in its place, which is left alone"
    if there is None:
        return "it was removed" if ours.st_nlink == 0 else "it was moved or renamed"
    return _resized(fd, written)


def _resized(fd: int, written: int) -> str | None:
    """Whether somebody cut or lengthened a file that we write."""
    size = os.fstat(fd).st_size
    return None if size == written else f"somebody else changed it ({size:,} bytes where {written:,} were written)"


def sweep(path: Path) -> None:
    """Delete partial files of killed recorders of this name: older than a minute and locked by no process."""
    if not files.LOCKABLE:
        return
    ours = re.compile(re.escape(f".{path.name}") + r"(\.gz)?\.[0-9a-f]+\.(new|tmp)")
    for name in filter(ours.fullmatch, os.listdir(path.parent)):
        left = path.with_name(name)
        with contextlib.suppress(OSError), left.open("rb") as file:
            if time.time() - os.fstat(file.fileno()).st_mtime > _STALE_S and not files.held(file):
                left.unlink()


def existing(path: Path) -> Path | None:
    """The trace that a recording to `path` would write over, plain or zipped; None when there is none."""
    plain = plain_path(path)
    return next((name for name in (plain, packed_path(plain)) if _is_there(name)), None)


def _private(path: str, flags: int) -> int:
    """Open a file with mode 0600: prompts are private."""
    return os.open(path, flags, 0o600)


def refuse_foreign(path: Path) -> None:
    """Recording over an older trace is fine, over anything else, under either name, is not: TraceError.

    Whether somebody wanted the older one gone is for the caller to ask (`existing`).
    """
    try:
        _refuse_foreign(path)
    except OSError as error:  # a folder that may not be searched, a name that is too long
        raise TraceError(f"cannot record to {path}: {error.strerror or error}; choose another name") from None


def _refuse_foreign(path: Path) -> None:
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
            return files.held(file)
    except OSError:
        return False


@dataclass(slots=True)
class Totals:
    """`n_chars` counts the characters of the text: the texts of all commits, put together."""

    n_queries: int = 0
    n_rounds: int = 0
    n_drafted: int = 0
    n_tested: int = 0
    n_accepted: int = 0
    n_emitted: int = 0
    n_chars: int = 0

    def take(self, event: Event) -> None:
        if isinstance(event, RoundEnd):
            self.n_rounds += 1
            for name in ("n_drafted", "n_tested", "n_accepted", "n_emitted"):
                setattr(self, name, getattr(self, name) + getattr(event, name))
        elif isinstance(event, Commit):
            self.n_chars += sum(map(len, event.texts))
        elif isinstance(event, Prefill):
            self.n_queries += 1

    def as_dict(self) -> dict[str, int]:
        """By name, ready for `end.totals`."""
        return asdict(self)
