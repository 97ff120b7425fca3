"""What readers of files have in common: the file's text, and a trace that begins when something was found, at the
file's own times."""

import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from specviz.errors import TraceError
from specviz.trace import Writer


class Imported:
    """A trace under way, with the clock of what is read: `now`, in nanoseconds."""

    def __init__(self, path: Path | str, **header: Any) -> None:
        self.now = 0
        self.trace = Writer(path, clock=lambda: self.now, **header)


Opened = Callable[[Any], Imported]  # begins the trace, once the reader (which has a `header`) knows what it is of


class _Unzipped(io.RawIOBase):
    """Bytes of a zipped file; of one that was cut off those up to there."""

    def __init__(self, path: Path) -> None:
        self._file = gzip.open(path, "rb")  # noqa: SIM115 -- closed with this one

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            found = self._file.read1(len(buffer))
        except EOFError:
            return 0
        buffer[: len(found)] = found
        return len(found)

    def close(self) -> None:
        self._file.close()
        super().close()


@contextmanager
def opened(path: Path) -> Iterator[IO[str]]:
    """A file's text, zipped or not. Raises TraceError where it cannot be read, also while it is."""
    try:
        with path.open("rb") as plain:
            packed = plain.read(2) == b"\x1f\x8b"
        raw: Any = io.BufferedReader(_Unzipped(path)) if packed else path.open("rb")
        with io.TextIOWrapper(raw, encoding="utf-8", errors="replace") as file:
            yield file
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror or error}") from None
    except zlib.error:
        raise TraceError(f"cannot read {path}: what is zipped in it is damaged") from None
