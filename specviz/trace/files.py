"""Names of trace files, opening them, and who is recording: every way a file can be no trace has its own clear line.

A recording is `NAME.sv.jsonl` while it grows and `NAME.sv.jsonl.gz` once the run has ended. Either name, or NAME alone,
finds whichever exists, so a reader may be pointed at a file that is zipped a moment later; else NAME may be one that
comes with the package. A recorder holds an advisory lock on its file, which tells a growing trace from a cut-off one.
Where the system has no `flock` (or the file system refuses it) nothing counts as growing; readers still show whatever
is appended.
"""

import os
import weakref
import zlib
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import IO, Any

from specviz.errors import TraceError, nearest, suggestion

PLAIN, PACKED = ".sv.jsonl", ".sv.jsonl.gz"
RECORD = "'specviz run --record FILE'"
_MAGIC = b"\x1f\x8b"
_HEADER = b'{"ev":"header"'
_OPENING = 1 << 12  # bytes of a file that show what it is
_CHUNK = 1 << 20
_PACKED_CHUNK = 1 << 16  # of a zipped file: what is left of it stays with every mark
_APART, _MOST_MARKS = 4 << 20, 256  # bytes of plain text between two marks; more of them are thinned out

# How much is read of a trace, in megabytes of plain text: by those who look at a record and forget it, and by those who
# keep them all. An hour of recording everything has some 420.
FLAG, VARIABLE = "--max-mb", "SPECVIZ_MAX_MB"
STREAMED_MB, KEPT_MB = 4096, 256


def plain_path(path: Path | str) -> Path:
    """The name a recording has while it grows; `.sv.jsonl` is added to a bare name."""
    path = Path(path)
    path = path.with_name(path.name.removesuffix(".gz"))
    return path if path.suffix == ".jsonl" else path.with_name(path.name + PLAIN)


def packed_path(path: Path | str) -> Path:
    """The name a recording has once its run has ended."""
    plain = plain_path(path)
    return plain.with_name(plain.name + ".gz")


def is_recording(path: Path) -> bool:
    """Whether a file begins as a recording does, whatever its name."""
    try:
        with path.open("rb") as file:
            begin = file.read(_OPENING)
    except OSError:
        return False
    if begin.startswith(_MAGIC):
        try:
            begin = zlib.decompressobj(wbits=31).decompress(begin, len(_HEADER))
        except zlib.error:
            return False
    return begin.startswith(_HEADER)


def resolve(path: Path | str) -> Path:
    """The existing file meant by `path`, else the trace of that name that comes with the package.

    The one door for every command. Raises TraceError for a folder, or when there is none (nearest name given).
    """
    path = Path(path)
    try:
        return _resolved(path)
    except OSError as error:  # a folder that may not be searched, a name that is too long
        raise TraceError(f"cannot read {path}: {error.strerror or error}") from None


def _resolved(path: Path) -> Path:
    from specviz.trace.bundled import (  # which knows a trace by the endings that are named here
        all_bundled,
    )

    for candidate in (path, plain_path(path), packed_path(path)):
        if candidate.is_file():
            return candidate
    if str(path) in all_bundled():
        return all_bundled()[str(path)]
    if path.is_dir():
        raise TraceError(f"{path} is a folder; name one of its traces{_traces_in(path)}")
    if path.exists():
        raise TraceError(f"{path} is not a regular file; give the path of a recorded trace ({PLAIN} or {PACKED})")
    if not path.parent.is_dir():
        raise TraceError(f"no trace {path}: there is no folder {path.parent}")
    stems = [name.removesuffix(".gz").removesuffix(PLAIN) for name in trace_names(path.parent)]
    name = plain_path(path).name.removesuffix(PLAIN)
    close = nearest(name, [*stems, *(all_bundled() if path.parent == Path() else ())])
    near = suggestion(name, dict.fromkeys([close] if close else stems)) if close or stems else ""
    raise TraceError(f"no trace {path}{near or '; record one with ' + RECORD}")


def trace_names(folder: Path) -> list[str]:
    """The traces in a folder, sorted; at most 12."""
    try:
        return sorted(p.name for p in folder.iterdir() if p.name.endswith((PLAIN, PACKED)))[:12]
    except OSError:
        return []


def _traces_in(folder: Path) -> str:
    names = trace_names(folder)
    return f": {', '.join(names)}" if names else f" (there is none in it; they end in {PLAIN} or {PACKED})"


class Damaged(Exception):
    """The bytes of a file cannot be read on; says why. The reader knows how far it had come."""


@dataclass(frozen=True, slots=True)
class _Mark:
    """A place of the plain text from which a zipped file can be read on."""

    at: int
    offset: int  # of the file
    engine: Any  # zlib's, as it was there
    pending: bytes  # read, not yet given to the decompressor


class _Marks:
    """Marks in order, the first at the beginning: from one of them any place is near."""

    def __init__(self) -> None:
        self._marks = [_Mark(0, 0, zlib.decompressobj(wbits=31), b"")]
        self._apart = _APART

    def before(self, place: int) -> _Mark:
        return self._marks[bisect_right(self._marks, place, key=lambda mark: mark.at) - 1]

    def wants(self, at: int) -> bool:
        return at >= self._marks[-1].at + self._apart

    def add(self, mark: _Mark) -> None:
        self._marks.append(mark)
        if len(self._marks) > _MOST_MARKS:
            del self._marks[1::2]
            self._apart *= 2


class Plain:
    """The bytes of a trace in their order, a piece at a time, inflated on the way: never the whole file in memory.

    Any place of what was read once can be gone to: of a zipped file by marks, each some 100 kB in memory.
    """

    def __init__(self, path: Path, most: int) -> None:
        self._path, self._most = path, most
        self.n_trailing = 0  # bytes behind the gzip data that are none
        self._at = 0
        self._marks = _Marks()
        try:
            self.file = path.open("rb", buffering=0)
        except OSError as error:
            raise TraceError(f"cannot read {path}: {error.strerror or error}") from None
        weakref.finalize(self, self.file.close)  # a caller that forgets to
        try:
            self.packed = self.file.read(2) == _MAGIC
            self._go_on(self._marks.before(0))
        except OSError as error:
            self.file.close()
            raise TraceError(f"cannot read {path}: {error.strerror or error}") from None

    def _go_on(self, mark: _Mark) -> None:
        self._at = mark.at
        self.file.seek(mark.offset)
        self._engine: Any = mark.engine.copy()
        self._over, self._given = False, mark.pending

    def seek(self, place: int) -> None:
        """To a byte of the plain text; in a zipped file by what lies between it and the mark before."""
        if not self.packed:
            self._at = self.file.seek(place)
            return
        mark = self._marks.before(place)
        if not mark.at <= self._at <= place:
            self._go_on(mark)
        while self._at < place and self._read(min(_CHUNK, place - self._at)):
            pass

    def piece(self) -> bytes:
        """The next bytes, at most 1 MiB; none at the end, or where a recorder has come so far."""
        try:
            piece = self._read(_CHUNK)
        except OSError as error:
            raise Damaged(f"cannot be read on: {error.strerror or error}") from None
        if self._at > self._most:
            raise TraceError(
                f"{self._path} holds more than {self._most >> 20} MB; raise the limit with {FLAG} if you trust it"
            )
        return piece

    def stretch(self, place: int, size: int) -> bytes:
        """Some bytes of the plain text; fewer where it ends. Raises OSError and Damaged."""
        self.seek(place)
        pieces = []
        while size > 0 and (piece := self._read(min(_CHUNK, size))):
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def _read(self, most: int) -> bytes:
        data: bytes = self._inflated(most) if self.packed else (self.file.read(most) or b"")
        self._at += len(data)
        if self.packed and data and self._marks.wants(self._at) and not self._engine.eof:
            packed = self._given
            self._marks.add(_Mark(self._at, self.file.tell(), self._engine.copy(), packed))
        return data

    @property
    def share(self) -> float:
        """How much of the file was read, 0 to 1."""
        return self.file.tell() / max(os.fstat(self.file.fileno()).st_size, 1)

    def close(self) -> None:
        self.file.close()

    def _inflated(self, most: int) -> bytes:
        """Several gzip members are one text, as gzip itself has it; zeros behind them are padding."""
        while not self._over:
            if self._engine.eof:
                self._next_member()
                continue
            packed = self._engine.unconsumed_tail or self._given or self.file.read(_PACKED_CHUNK) or b""
            self._given = b""
            try:
                plain: bytes = self._engine.decompress(packed, most)
            except zlib.error as error:
                raise Damaged(f"the gzip data is damaged ({error})") from None
            if plain:
                return plain
            if not packed and not self._engine.eof:
                raise Damaged("the gzip data ends early")
        return b""

    def _next_member(self) -> None:
        rest = self._engine.unused_data
        while len(rest) < len(_MAGIC) and (more := self.file.read(_CHUNK)):
            rest += more
        if rest.startswith(_MAGIC):
            self._engine, self._given = zlib.decompressobj(wbits=31), rest
            return
        self._over, self.n_trailing = True, 0
        while rest:
            self.n_trailing += len(rest) - rest.count(0)
            rest = self.file.read(_CHUNK) or b""


def most_bytes(usual_mb: int) -> int:
    """How much of a trace is read, in bytes: the number of megabytes that was asked for, or the usual one."""
    text = os.environ.get(VARIABLE, "")
    return (int(text) if text.isdecimal() and 0 < int(text) < 1 << 30 else usual_mb) << 20


def foreign(path: Path, reason: str) -> TraceError:
    """The error for a file that holds something else."""
    return TraceError(f"{path} is not a specviz trace: {reason}; record one with {RECORD}")


_fcntl: ModuleType | None
try:
    import fcntl as _fcntl
except ImportError:  # not a POSIX system
    _fcntl = None

LOCKABLE = _fcntl is not None  # whether this system can tell which process locks a file


def hold(fd: int) -> None:
    """Marks the open file as being recorded until the descriptor closes."""
    if _fcntl is not None:
        try:
            _fcntl.flock(fd, _fcntl.LOCK_EX)
        except OSError:  # a file system without locks: readers see a trace that is not growing
            return


def held(file: IO[bytes]) -> bool:
    """Whether a recorder still has this open file; a later file of the same name does not count."""
    if _fcntl is None:
        return False
    try:
        _fcntl.flock(file, _fcntl.LOCK_SH | _fcntl.LOCK_NB)
        _fcntl.flock(file, _fcntl.LOCK_UN)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
