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
from specviz.view.compare.gate import TEXT, GateRule
from specviz.view.compare.texts import NOT_ON_RECORD
from specviz.view.words.numbers import MINUS

_ROWS = {  # what a rule of --fail-if means of counts
    "block_efficiency": "tokens a round",
    "mean_accepted": "tokens a round",
    "draft_acceptance_rate": "kept of drafted",
    "tokens_per_second": "tokens/s",
    "survival": "position {}",
    "position_acceptance": "position {} of those that came so far",
}
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

    def gates(self, rules: Sequence[GateRule]) -> list[tuple[str, str | None]]:
        """Every rule of `--fail-if`, and why it closes the gate; None where it does not. Raises SpecvizError where
        counts do not tell what a rule asks."""
        return [(rule.text, self._broken(rule)) for rule in rules]

    def _broken(self, rule: GateRule) -> str | None:
        if rule.text == TEXT:
            return NOT_ON_RECORD
        name, _, place = rule.metric.partition("@")
        label = _ROWS.get(name, "").format(place) if place != "1" else "position 1"
        row = next((row for row in self.counts.rows if row.name == label), None)
        for k in range(1, len(self.files)):
            difference = row.differences[k - 1] if row is not None else None
            if row is None or difference is None:
                names = dict.fromkeys(name if "{" not in row else f"{name}@1" for name, row in _ROWS.items())
                raise SpecvizError(
                    f"--fail-if '{rule.text}': counts alone do not tell {rule.metric} of both; what they may tell: "
                    f"{', '.join(names)}"
                )
            by, ends = difference
            base = (row.values[0] or 0.0) - (name == "mean_accepted")
            if rule.relative and not base:
                raise SpecvizError(f"--fail-if '{rule.text}': {rule.metric} of A is 0: name a change without %")
            scale = 1 / base if rule.relative else 1.0
            why = rule.why(by * scale, None if ends is None else (ends[0] * scale, ends[1] * scale))
            if why is not None:
                return why if len(self.files) == 2 else f"{ascii_uppercase[k]} {why}"
        return None

    def as_object(self, gates: Sequence[tuple[str, str | None]] = ()) -> dict[str, Any]:
        """The comparison as one object for `--json`."""
        return {
            "runs": [{"file": file, "counters": asdict(p)} for file, p in zip(self.files, self.pictures, strict=True)],
            **asdict(self.counts),
            "fail_if": [{"rule": rule, "holds": why is not None, "why": why} for rule, why in gates],
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
