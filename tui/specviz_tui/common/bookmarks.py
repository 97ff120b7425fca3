"""Bookmarks set in a recording: a small file beside it, `NAME.bookmarks.json`, that goes where the recording goes.

A trace is a record of what happened, and looking at it may not change it. Where its folder cannot be written to, and
for recordings that come along, the file lies in the program's own state, where a run is known by its header; bookmarks
that were kept there earlier are still read.
"""

import os
from hashlib import blake2b
from pathlib import Path

import msgspec
import platformdirs

from specviz.errors import SpecvizError
from specviz.events import Header, Note
from specviz.sources.bundled import bundled_traces

MOST_BYTES = 1 << 20  # of a file of bookmarks that is read: a list of words typed by hand, or not ours
ENDING = ".bookmarks.json"


def bookmark_file(header: Header) -> Path:
    """The file of a run's bookmarks in the program's state."""
    name = msgspec.json.encode([header.run, header.wall, header.t, header.method])
    mark = blake2b(name, digest_size=12).hexdigest()
    return Path(platformdirs.user_state_dir("specviz")) / "bookmarks" / f"{mark}.jsonl"


def beside(trace: Path | None) -> Path | None:
    """The file beside a recording; None where it has no place of its own: one that comes along, a pipe."""
    if trace is None or not trace.is_file() or trace in bundled_traces().values():
        return None
    return trace.with_name(trace.name + ENDING)


def kept_bookmarks(header: Header, trace: Path | None = None) -> list[Note]:
    """The bookmarks of earlier visits, from both places; none where a file is no such list."""
    lines = _lines(bookmark_file(header))
    own = beside(trace)
    for note in _listed(own) if own is not None else []:
        if note not in lines:
            lines.append(note)
    return lines


def _listed(path: Path) -> list[Note]:
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(MOST_BYTES), type=list[Note])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return []


def _lines(path: Path) -> list[Note]:
    try:
        with path.open("rb") as file:
            return [msgspec.json.decode(line, type=Note) for line in file.read(MOST_BYTES).splitlines()]
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return []


def keep_bookmark(header: Header, note: Note, trace: Path | None = None) -> Path:
    """Add one, readable by its owner alone; the file. Raises SpecvizError where it can be written nowhere."""
    own = beside(trace)
    if own is not None:
        try:
            return _write_beside(own, note)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            pass  # a folder that cannot be written to, or a file that is not ours: it stays as it is
    path = bookmark_file(header)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
        with path.open("ab") as file:
            file.write(msgspec.json.encode(note) + b"\n")
    except OSError as error:
        why = error.strerror or error
        raise SpecvizError(f"the bookmark stays until you leave: cannot write {path}: {why}") from error
    return path


def _write_beside(path: Path, note: Note) -> Path:
    """The whole list anew, put in place at once: a full disk leaves the old one."""
    known = msgspec.json.decode(path.read_bytes(), type=list[Note]) if path.exists() else []
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fresh.touch(mode=0o600)
        fresh.write_bytes(msgspec.json.format(msgspec.json.encode([*known, note]), indent=1) + b"\n")
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
    return path
