"""`specviz compare` of histories of counts, or totals: what other engines' logs, reports and scrapes were read into."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from specviz.comparison.sheets import Sheet
from specviz.engines.watch import WatchPicture, picture_of, read_history
from specviz.engines.watch.beside import CountDifference, CountsBeside, beside
from specviz.engines.watch.history import is_history
from specviz.errors import SpecvizError
from specviz.text import running
from specviz.view.words.numbers import MINUS

_NOTE = "± is a 95 % interval, of a difference of shares Newcombe's; where there is none, counts do not carry one"


def are_counts(traces: Sequence[Path], names: Sequence[str]) -> bool:
    """Whether these are histories of counts, all of them. Raises SpecvizError where only some are, or sets of them."""
    known = [is_history(path) for path in traces]
    if not any(known):
        return False
    if not all(known):
        counts, rounds = traces[known.index(True)], traces[known.index(False)]
        raise SpecvizError(
            f"{running(str(counts))} holds counts alone, {running(str(rounds))} single rounds: compare like with like"
        )
    if len(traces) != len(names):
        raise SpecvizError("a folder or pattern of histories of counts cannot be pooled: name them one by one")
    return True


@dataclass(frozen=True, slots=True)
class CountsCompared:
    """Files by letter, their pictures, and what differs."""

    files: tuple[str, ...]
    pictures: tuple[WatchPicture, ...]
    counts: CountsBeside

    @classmethod
    def of(cls, traces: Sequence[Path]) -> "CountsCompared":
        """Raises TraceError."""
        pictures = tuple(picture_of(read_history(path)) for path in traces)
        return cls(tuple(map(str, traces)), pictures, beside(pictures, ascii_uppercase))

    @property
    def heading(self) -> list[str]:
        """Which letter is which, and what the numbers say together."""
        out = []
        for letter, file, picture in zip(ascii_uppercase, self.files, self.pictures, strict=False):
            models = running(", ".join(picture.models)) or "model not named"
            out.append(f"{letter}  {running(file)}  {running(picture.engine)}, {models}, {picture.over}")
        return [*out, *self.counts.words, "counts alone: texts and single rounds are not on record"]

    @property
    def sheets(self) -> list[Sheet]:
        """Numbers, and settings that differ."""
        letters = ascii_uppercase[: len(self.files)]
        head = ("", "A", *(cell for letter in letters[1:] for cell in (letter, f"{letter} - A")))
        rows = [[row.name, _value(row, 0), *_cells(row)] for row in self.counts.rows]
        out = [Sheet("counted", head, rows, _NOTE)]
        if self.counts.settings:
            table = [[running(name), *map(running, values)] for name, values in self.counts.settings]
            out.append(Sheet("set otherwise", ("", *letters), table, "as their sources tell it"))
        return out

    def as_object(self) -> dict[str, Any]:
        """The comparison as one object for `--json`."""
        return {
            "runs": [{"file": file, "counters": asdict(p)} for file, p in zip(self.files, self.pictures, strict=True)],
            **asdict(self.counts),
        }


def _cells(row: CountDifference) -> list[str]:
    out = []
    for k, difference in enumerate(row.differences, 1):
        out.append(_value(row, k))
        if difference is None:
            out.append("—")
            continue
        by, ends = difference
        within = f" ±{_number(row, (ends[1] - ends[0]) / 2)}" if ends is not None else ""
        out.append(f"{'+' if by >= 0 else MINUS}{_number(row, abs(by))}{within}")
    return out


def _value(row: CountDifference, k: int) -> str:
    value = row.values[k]
    return "—" if value is None else _number(row, value)


def _number(row: CountDifference, value: float) -> str:
    return f"{value:.1%}" if row.share else f"{value:.2f}"
