"""A table of numbers, and the page of the documents between whose markers it stands."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from specviz.errors import SpecvizError
from specviz.metrics.estimate import Estimate
from specviz.registry import discover

_PLACE = re.compile(r"^<!-- computed: (?P<key>[a-z-]+) -->\n(?P<rows>.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class ComputedTable:
    """Cells as text; the first column names the row. `note`: where they are from, below them."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def markdown(self) -> str:
        """Its lines, each with its end."""
        lines = (self.columns, ("---",) * len(self.columns), *self.rows)
        return "".join(f"| {' | '.join(line)} |\n" for line in lines) + (f"\n{self.note}.\n" if self.note else "")


@dataclass(frozen=True, slots=True)
class Paper:
    """What is recomputed of a paper. `tables`: by the key of their place; `slow`: keys that take more than a second.

    `measure`: decodes a file of prompts, or the bundled ones, and keeps the counts that tables are worked out from.
    """

    name: str
    title: str
    tables: Mapping[str, Callable[[], ComputedTable]]
    slow: frozenset[str] = frozenset()
    measure: Callable[[Path | None], None] | None = None

    def compute(self, quick: bool = False) -> dict[str, ComputedTable]:
        """Every table by its key; `quick`: without the slow ones."""
        return {key: make() for key, make in self.tables.items() if not (quick and key in self.slow)}


def papers() -> dict[str, Paper]:
    """Every paper by name."""
    return discover("specviz_lab.papers.recomputed", Paper)


def places(page: str) -> dict[str, str]:
    """What stands on a page between its markers, by key."""
    return {match["key"]: match["rows"] for match in _PLACE.finditer(page)}


def filled(page: str, tables: Mapping[str, ComputedTable]) -> str:
    """The page with these tables at their places. Raises SpecvizError where one has none."""
    if lost := sorted(tables.keys() - places(page).keys()):
        raise SpecvizError(
            f"the page has no place for {lost[0]}: put '<!-- computed: {lost[0]} -->' and '<!-- end -->'"
        )

    def rows(match: re.Match[str]) -> str:
        key = match["key"]
        here = tables[key].markdown() if key in tables else match["rows"]
        return f"<!-- computed: {key} -->\n{here}<!-- end -->"

    return _PLACE.sub(rows, page)


def exact(value: Fraction) -> str:
    """A fraction with its decimals: `11/9 = 1.222`."""
    value = Fraction(value)
    return str(value) if value.denominator == 1 else f"{value} = {decimal(float(value))}"


def decimal(value: float, places: int = 3) -> str:
    """`1.222`, `.057`; no minus before a zero."""
    text = f"{value:.{places}f}"
    text = text.lstrip("-") if not float(text) else text
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def percent(value: float) -> str:
    """`+1.6 %`."""
    return f"{100 * value:+.1f} %"


def within(estimate: Estimate | None, places: int = 3) -> str:
    """A mean with its 95 % interval."""
    if estimate is None:
        return "—"
    value = decimal(estimate.value, places)
    if estimate.interval is None:
        return value
    low, high = (decimal(end, places) for end in estimate.interval)
    return f"{value} ({low} .. {high})"


def rows_of(lines: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    """Rows as a table keeps them."""
    return tuple(tuple(line) for line in lines)
