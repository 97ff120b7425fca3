"""`LineIndex`: what every line of a trace is and where it begins, so that some can be read without all the others."""

from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from specviz.errors import TraceError
from specviz.trace.files import STREAMED_MB, Damaged, Plain, most_bytes, resolve


class IndexedLine(msgspec.Struct):
    """What is read of a line to find it again."""

    ev: str
    i: int = -1
    t: int = 0
    q: int = 0
    r: int = 0


_decoder = msgspec.json.Decoder(IndexedLine)


def line_of(line: bytes) -> IndexedLine:
    """What a line says of itself. Raises msgspec.DecodeError for what is no record."""
    return _decoder.decode(line)


class LineIndex:
    """Made in one pass; 14 bytes a line are kept. A last line that is torn is left out, as are empty ones.

    Raises TraceError for a file that cannot be read, or with a line that is no record.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = resolve(path)
        self.kinds: list[str] = []  # in the order in which they first came
        self.last_round = 0
        self._kind, self._round, self._at = array("H"), array("i"), array("q")
        numbers: dict[str, int] = {}
        for n, (at, line) in enumerate(self._lines(0), 1):
            if not line.strip():
                continue
            try:
                entry = _decoder.decode(line)
            except (msgspec.DecodeError, RecursionError) as error:
                raise TraceError(f"{self.path} line {n}: {error}") from None
            self._kind.append(numbers.setdefault(entry.ev, len(numbers)))
            self._round.append(min(entry.r, (1 << 31) - 1))
            self._at.append(at)
            self.last_round = max(self.last_round, entry.r)
        self.kinds = list(numbers)

    def __len__(self) -> int:
        return len(self._at)

    def matching(self, kind: str | None = None, round: int = 0) -> Sequence[int]:
        """The numbers, from 0, of the lines of a kind and of a round; None and 0 ask for all."""
        if kind is None and not round:
            return range(len(self))
        wanted = self.kinds.index(kind) if kind in self.kinds else -1
        pairs = enumerate(zip(self._kind, self._round, strict=True))
        return [n for n, (k, r) in pairs if (kind is None or k == wanted) and (not round or r == round)]

    def read(self, numbers: Sequence[int]) -> Iterator[bytes]:
        """Some lines by their numbers, which count up."""
        if not numbers:
            return
        places = {self._at[n] for n in numbers}
        for at, line in self._lines(self._at[numbers[0]]):
            if at in places:
                yield line
            if at >= self._at[numbers[-1]]:
                return

    def _lines(self, at: int) -> Iterator[tuple[int, bytes]]:
        """Whole lines from a place on, with where they begin."""
        source = Plain(self.path, most_bytes(STREAMED_MB))
        try:
            source.seek(at)
            rest = b""
            while piece := source.piece():
                *whole, rest = (rest + piece).split(b"\n")
                for line in whole:
                    yield at, line
                    at += len(line) + 1
        except Damaged as error:
            raise TraceError(f"{self.path}: {error}; copy the file again") from None
        finally:
            source.close()
