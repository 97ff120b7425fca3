"""Reports as tables of words: built from columns, printed in a terminal, written as one HTML file."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from rich import box
from rich.table import Table
from rich.text import Text

from specviz.console import standard_output
from specviz.metrics.estimate import Estimate
from specviz.view.words.numbers import UNKNOWN

T = TypeVar("T")
Column = tuple[str, Callable[[T], str]]  # its heading, and the words of an item


@dataclass(frozen=True, slots=True)
class Sheet:
    """A titled table; `note` says how to read it."""

    title: str
    head: tuple[str, ...]
    rows: list[list[str]]
    note: str


def sheet(title: str, items: Iterable[T], columns: Sequence[Column[T]], note: str) -> Sheet:
    """A row an item, a cell a column."""
    return Sheet(
        title, tuple(name for name, _ in columns), [[cell(item) for _, cell in columns] for item in items], note
    )


def margin(found: Estimate | None) -> str:
    """Half of the interval."""
    if found is None or found.interval is None:
        return UNKNOWN
    return f"{(found.interval[1] - found.interval[0]) / 2:.3f}"


_NARROWEST = 110  # columns when standard output is no terminal
LEFT = frozenset({"method", "over", "as", "promise", "first divergence", ""})
_LEFT_IN_TERMINAL = LEFT | {"prompts", "verifier", "rule", "law", "lanes", "signal", "specbranch"}
_WRAPPED = frozenset({"promise", "hits by branches", "said > true", "rows a round"})


def print_sheets(heading: Sequence[str], sheets: Sequence[Sheet]) -> None:
    """Lines that must be known before any number, then the tables with how to read them, on standard output."""
    with standard_output(_NARROWEST) as console:
        for line in heading:
            console.print(Text(line, style="dim"))
        for each in sheets:
            console.print()
            console.print(_table(each))
            console.print(Text(each.note, style="dim"))
        console.print()


def _table(found: Sheet) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), header_style="bold", title=found.title)
    table.title_justify = "left"
    for name in found.head:
        side = "left" if name in _LEFT_IN_TERMINAL else "right"
        table.add_column(name, justify=side, no_wrap=name not in _WRAPPED)  # type: ignore[arg-type]
    for row in found.rows:
        table.add_row(*map(Text, row))
    return table
