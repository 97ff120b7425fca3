"""The index of a recording: what is known of all its rounds without reading them, and where each of them stands.

Made once (`specviz.trace.indexing`), kept in the cache folder of the person who looks, never beside the trace: a trace
may lie where nobody can write, and an index that came with one would have to be believed. It names the size and the
time of the file it was made of and a hash of its two ends; when one of them differs it is stale and made again. An
index holds texts of its trace, so its owner alone can read it; all of them together take at most `MOST_MB`.

Of a zipped trace it holds all lines once more, in pieces that can be read anywhere: gzip data can only be read from its
beginning.

File: `MAGIC`, then pieces (prompt and text of a query each, lines of a zipped trace; each compressed), then the head
(`Head`, MessagePack), then its length in 8 bytes. It takes its name when it is whole.
"""

import os
import tempfile
import zlib
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any

import msgspec
import platformdirs

from specviz.runlog.spool import Place

FORMAT = 3  # of the file and of the rows in it
MAGIC = b"specviz index\n"
MOST_MB = 512  # of the indexes of all traces; the oldest go
_ENDS = 1 << 16  # bytes of either end of a trace that are hashed
_LEVEL = 1
PIECE = 1 << 17  # bytes of plain text that are inflated together: a millisecond
_LENGTH = 8


class Stamp(msgspec.Struct, frozen=True, array_like=True):
    """What a file was when its index was made."""

    size: int
    mtime_ns: int
    ends: str

    @classmethod
    def of(cls, path: Path) -> "Stamp":
        """Size, modification time and a hash of both ends of a file; they tell a stale index. Raises OSError."""
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            digest = blake2b(file.read(_ENDS), digest_size=16)
            file.seek(max(0, status.st_size - _ENDS))
            digest.update(file.read(_ENDS))
        return cls(status.st_size, status.st_mtime_ns, digest.hexdigest())


class QueryOffset(msgspec.Struct, array_like=True):
    """A query: its numbers as `Query` has them, where prompt and text stand in the index, and its other records."""

    number: int
    first: int
    n_rounds: int
    n_nodes: int
    text: Place
    adapt: bytes | None
    exits: list[Place]  # stretches of the trace that hold its exit table


class Head(msgspec.Struct, array_like=True):
    """All but the texts. Records stand as their lines."""

    format: int
    stamp: Stamp
    writer: str  # version of specviz, and what it can read and count: another one makes its own
    rows: bytes  # of `Rounds.summary`, 8 bytes a number
    settings: list[dict[str, Any]]
    queries: list[QueryOffset]
    header: bytes
    calibration: bytes | None
    end: bytes | None
    changes: list[bytes]
    warnings: list[bytes]
    notes: list[bytes]
    findings: list[bytes]
    reported: list[bytes]
    learnt: list[bytes]
    n_warnings: int
    knobs: dict[str, Any]
    beside: dict[int, list[bytes]]  # records that stand beside a round, wherever they were written
    words: list[tuple[int, str, str | None]]
    counted: bytes  # metrics counted over all rounds; empty: not counted
    n_bytes: int  # of plain text, as far as it was read
    lines: list[Place]  # where the plain text of a zipped trace stands in the index, `PIECE` bytes each; else none


_head_encoder, _head_decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(Head)


class IndexFile:
    """Pieces on disk, as `Spool` has them: append while it is made, read ever after. Not for several threads."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def begin(self) -> None:
        """Write what tells an index from other files."""
        self._file.write(MAGIC)

    def put(self, data: bytes) -> Place:
        """Append a piece. Raises OSError, with nothing lost, when the disk is full."""
        packed = zlib.compress(data, _LEVEL)
        offset = self._file.seek(0, os.SEEK_END)
        self._file.write(packed)
        return offset, len(packed)

    def get(self, place: Place) -> bytes:
        """The piece of a place. Raises OSError for one that cannot be read."""
        self._file.seek(place[0])
        try:
            return zlib.decompress(self._file.read(place[1]))
        except zlib.error as error:
            raise OSError(f"the index is damaged: {error}") from error

    def head(self) -> Head | None:
        """None for a file that is no index, or not of this version of it."""
        self._file.seek(0)
        if self._file.read(len(MAGIC)) != MAGIC:
            return None
        size = self._file.seek(0, os.SEEK_END)
        try:
            self._file.seek(size - _LENGTH)
            length = int.from_bytes(self._file.read(_LENGTH), "little")
            if not 0 < length <= size - len(MAGIC) - _LENGTH:
                return None
            self._file.seek(size - _LENGTH - length)
            head = _head_decoder.decode(zlib.decompress(self._file.read(length)))
        except (OSError, zlib.error, msgspec.MsgspecError, UnicodeDecodeError):
            return None
        return head if head.format == FORMAT else None

    def finish(self, head: Head) -> None:
        """Write what makes it whole. Raises OSError."""
        packed = zlib.compress(_head_encoder.encode(head), _LEVEL)
        self._file.seek(0, os.SEEK_END)
        self._file.write(packed + len(packed).to_bytes(_LENGTH, "little"))
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def folder() -> Path:
    """Where indexes are kept."""
    return Path(platformdirs.user_cache_dir("specviz")) / "indexes"


def index_path(trace: Path) -> Path:
    """The index of a trace, whether it is there or not."""
    name = blake2b(os.fsencode(trace.resolve()), digest_size=16).hexdigest()
    return folder() / f"{name}.index"


def opened(path: Path, trace: Path, writer: str) -> tuple[IndexFile, Head] | None:
    """The index in a file, if it was made of this trace as it is now; the caller closes it."""
    try:
        file = IndexFile(path.open("rb"))
    except OSError:
        return None
    with suppress(OSError):
        head = file.head()
        if head is not None and head.writer == writer and head.stamp == Stamp.of(trace):
            return file, head
    file.close()
    return None


class CopiedLines:
    """The plain text of a zipped trace, from its index."""

    def __init__(self, file: IndexFile, places: list[Place]) -> None:
        self._file, self._places = file, places

    def stretch(self, offset: int, size: int) -> bytes:
        """Some bytes of it. Raises OSError for a damaged index."""
        first, stop = offset // PIECE, -(-(offset + size) // PIECE)
        text = b"".join(self._file.get(place) for place in self._places[first:stop])
        begin = offset - first * PIECE
        return text[begin : begin + size]


class NewIndex:
    """An index that is being made. `keep` gives it its name, `close` without it leaves nothing."""

    def __init__(self, path: Path) -> None:
        """Raises OSError where nothing can be written."""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path = path
        descriptor, name = tempfile.mkstemp(prefix=".", suffix=".new", dir=path.parent)  # readable by its owner alone
        self._new: Path | None = Path(name)
        self.file = IndexFile(os.fdopen(descriptor, "r+b"))
        self.file.begin()

    def keep(self, head: Head) -> None:
        """Raises OSError."""
        assert self._new is not None
        self.file.finish(head)
        self._new.replace(self._path)
        self._new = None
        _tidy(self._path)

    def close(self) -> None:
        """Close the file."""
        self.file.close()
        if self._new is not None:
            self._new.unlink(missing_ok=True)
            self._new = None


def _tidy(newest: Path) -> None:
    """Remove the oldest indexes beyond the room for all of them."""
    with suppress(OSError):
        indexes = [(path.stat().st_mtime_ns, path.stat().st_size, path) for path in newest.parent.glob("*.index")]
        room = MOST_MB << 20
        for _, size, path in sorted(indexes, reverse=True):
            room -= size
            if room < 0 and path != newest:
                path.unlink(missing_ok=True)
