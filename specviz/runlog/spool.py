"""`Spool`: what a long run pushes out of memory, in a temporary file of this process.

The file has no name where the system allows that, is readable by its owner alone, and is gone with the process,
however that ends. Pieces are compressed one by one, with the first ones as their dictionary: rounds are much alike.
"""

import tempfile
import zlib
from typing import IO

Place = tuple[int, int]  # offset, length
_DICTIONARY = 24 << 10
_LEVEL = 1


class Spool:
    """Append pieces, read them again by their place. The file is made with the first piece. Not for several threads."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._end = 0
        self._zdict = b""  # whole once a piece has been compressed with it
        self._plain: dict[int, bytes] = {}  # the pieces the dictionary is made of, kept as they are

    def put(self, data: bytes) -> Place:
        """Append a piece. Raises OSError, with nothing changed, when the disk is full."""
        if len(self._zdict) < _DICTIONARY:
            place = (-1 - len(self._plain), len(data))
            self._zdict += data[: _DICTIONARY - len(self._zdict)]
            self._plain[place[0]] = data
            return place
        packer = zlib.compressobj(_LEVEL, zdict=self._zdict)
        packed = packer.compress(data) + packer.flush()
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="specviz-", buffering=0)  # noqa: SIM115 (closed with this)
        self._file.seek(self._end)
        left = memoryview(packed)
        while left:
            left = left[self._file.write(left) :]
        place = (self._end, len(packed))
        self._end += len(packed)
        return place

    def get(self, place: Place) -> bytes:
        """A piece again."""
        offset, length = place
        if offset < 0:
            return self._plain[offset]
        assert self._file is not None
        self._file.seek(offset)
        packed = self._file.read(length)
        return zlib.decompressobj(zdict=self._zdict).decompress(packed)

    @property
    def size(self) -> int:
        return self._end

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def __del__(self) -> None:
        self.close()
