"""Who is recording: a recorder holds an advisory lock on its file, so a reader can tell a growing trace from a
cut-off one.

Without the lock a file whose recorder was killed would be followed for ever. Where the system has no `flock` (or the
file system refuses it) nothing counts as growing; readers still show whatever is appended.
"""

from types import ModuleType
from typing import IO

_fcntl: ModuleType | None
try:
    import fcntl as _fcntl
except ImportError:  # not a POSIX system
    _fcntl = None

KNOWN = _fcntl is not None  # whether anything can be said here of who holds a file


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
