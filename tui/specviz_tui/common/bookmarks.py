"""Bookmarks set in a recording. They are kept beside the program's own state, one small file a run: a trace is a
record of what happened, and nothing a person does while looking at it may change it.

A run is known by its header, not by the name of its file: a copy, or the same trace under another name, has the same
bookmarks."""

from hashlib import blake2b
from pathlib import Path

import msgspec
import platformdirs

from specviz.errors import SpecvizError
from specviz.events import Header, Note

MOST_BYTES = 1 << 20  # of a file that is read: a list of words typed by hand, or not ours


def place(header: Header) -> Path:
    """The file of a run's bookmarks."""
    name = msgspec.json.encode([header.run, header.wall, header.t, header.method])
    mark = blake2b(name, digest_size=12).hexdigest()
    return Path(platformdirs.user_state_dir("specviz")) / "bookmarks" / f"{mark}.jsonl"


def kept(header: Header) -> list[Note]:
    """The bookmarks of earlier visits; none where there are none, or where the file is no such list."""
    try:
        with place(header).open("rb") as file:
            lines = file.read(MOST_BYTES).splitlines()
        return [msgspec.json.decode(line, type=Note) for line in lines]
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return []


def keep(header: Header, note: Note) -> Path:
    """Add one, readable by its owner alone; the file. Raises SpecvizError where it cannot be written."""
    path = place(header)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
        with path.open("ab") as file:
            file.write(msgspec.json.encode(note) + b"\n")
    except OSError as error:
        why = error.strerror or error
        raise SpecvizError(f"the bookmark stays until you leave: cannot write {path}: {why}") from error
    return path
