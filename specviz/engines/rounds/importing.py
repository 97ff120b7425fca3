"""What readers of files have in common: the file's text, and a trace that begins when something was found, at the
file's own times."""

import codecs
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


_WIDE = codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE  # what PowerShell writes with `>`
_LONGEST = 1 << 26  # characters of a line
Opened = Callable[[Any], Imported]  # begins the trace, once the reader (which has a `header`) knows what it is of


class _Unzipped(io.RawIOBase):
    """Bytes of a zipped file; of one that was cut off those up to there."""

    def __init__(self, path: Path) -> None:
        self._file = gzip.open(path, "rb")  # noqa: SIM115 -- closed with this one

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._file.read1(len(buffer))
        except EOFError:
            return 0
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def lines_of(file: IO[str]) -> Iterator[str]:
    """Lines; one too long for memory ends the file, cut short."""
    while line := file.readline(_LONGEST):
        yield line
        if len(line) == _LONGEST:
            return


@contextmanager
def opened(path: Path) -> Iterator[IO[str]]:
    """A file's text, zipped or not. Raises TraceError where it cannot be read, also while it is."""
    try:
        with path.open("rb") as plain:
            begin = plain.read(2)
        packed = begin == b"\x1f\x8b"
        encoding = "utf-16" if begin in _WIDE else "utf-8-sig"
        raw: Any = io.BufferedReader(_Unzipped(path)) if packed else path.open("rb")
        with io.TextIOWrapper(raw, encoding=encoding, errors="replace") as file:
            yield file
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror or error}") from None
    except zlib.error:
        raise TraceError(f"cannot read {path}: what is zipped in it is damaged") from None
