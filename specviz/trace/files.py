"""Names of trace files, and opening them: every way a file can be no trace has its own clear line.

A recording is `NAME.sv.jsonl` while it grows and `NAME.sv.jsonl.gz` once the run has ended. Either name, or NAME alone,
finds whichever exists, so a reader may be pointed at a file that is zipped a moment later.
"""

import tempfile
import zlib
from pathlib import Path
from typing import IO

from specviz.errors import TraceError, suggestion

PLAIN, PACKED = ".sv.jsonl", ".sv.jsonl.gz"
RECORD = "'specviz run --record FILE'"
_MAGIC = b"\x1f\x8b"
_CHUNK = 1 << 20
_IN_MEMORY = 256 << 20  # inflated traces above this go to a temporary file


def plain_path(path: Path | str) -> Path:
    """The name a recording has while it grows; `.sv.jsonl` is added to a bare name."""
    path = Path(path)
    path = path.with_name(path.name.removesuffix(".gz"))
    return path if path.suffix == ".jsonl" else path.with_name(path.name + PLAIN)


def packed_path(path: Path | str) -> Path:
    """The name a recording has once its run has ended."""
    plain = plain_path(path)
    return plain.with_name(plain.name + ".gz")


def resolve(path: Path | str) -> Path:
    """The existing file meant by `path`. Raises TraceError for a folder, or when there is none (nearest name given)."""
    path = Path(path)
    if path.is_dir():
        raise TraceError(f"{path} is a folder; name one of its traces{_traces_in(path)}")
    for candidate in (path, plain_path(path), packed_path(path)):
        if candidate.is_file():
            return candidate
    if path.exists():
        raise TraceError(f"{path} is not a regular file; give the path of a recorded trace ({PLAIN} or {PACKED})")
    if not path.parent.is_dir():
        raise TraceError(f"no trace {path}: there is no folder {path.parent}")
    stems = [name.removesuffix(".gz").removesuffix(PLAIN) for name in trace_names(path.parent)]
    near = suggestion(plain_path(path).name.removesuffix(PLAIN), dict.fromkeys(stems)) if stems else ""
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


def open_plain(path: Path) -> IO[bytes]:
    """The trace's bytes as plain JSON lines, seekable; a zipped file is inflated once, here."""
    try:
        file = path.open("rb")
        packed = file.read(2) == _MAGIC
        file.seek(0)
        return _inflate(file, path) if packed else file
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror or error}") from None


def _inflate(packed: IO[bytes], path: Path) -> IO[bytes]:
    out = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 (the reader owns it)
    try:
        with packed:
            _inflate_into(out, packed, path)
    except BaseException:
        out.close()
        raise
    out.seek(0)
    return out


def _inflate_into(out: IO[bytes], packed: IO[bytes], path: Path) -> None:
    engine = zlib.decompressobj(wbits=31)
    while chunk := packed.read(_CHUNK):
        try:
            plain = engine.decompress(chunk)
        except zlib.error as error:
            raise TraceError(f"{path}: the gzip data is damaged ({error}); copy the file again") from None
        if out.tell() == 0 and plain and plain.lstrip()[:1] != b"{":
            raise foreign(path, "its first line is not a JSON object")
        out.write(plain)
    if not engine.eof:
        n_lines = _count_lines(out)
        raise TraceError(f"{path}: the gzip data ends early, after {n_lines} whole lines; copy the file again")


def _count_lines(file: IO[bytes]) -> int:
    file.seek(0)
    return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(_CHUNK), b""))


def foreign(path: Path, reason: str) -> TraceError:
    """The error for a file that holds something else."""
    return TraceError(f"{path} is not a specviz trace: {reason}; record one with {RECORD}")
