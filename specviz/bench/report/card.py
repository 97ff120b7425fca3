"""The report for people in a terminal."""

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from specviz.bench.report.text import Sheet, lines, sheets
from specviz.bench.results import Report
from specviz.console import standard_output

_NARROWEST = 110  # columns when standard output is no terminal
_WORDS = frozenset(
    {"method", "over", "as", "promise", "first divergence", "prompts", "verifier", "rule", "law", "lanes", "signal"}
    | {"specbranch"}
)
_WRAPPED = frozenset({"promise", "hits by branches", "said > true", "rows a round"})


def print_card(report: Report) -> None:
    """Heading, tables, notes, on standard output."""
    print_sheets(lines(report), sheets(report))


def print_sheets(heading: Sequence[str], tables: Sequence[Sheet]) -> None:
    """Lines that must be known before any number, then the tables with how to read them."""
    with standard_output(_NARROWEST) as console:
        for line in heading:
            console.print(Text(line, style="dim"))
        for sheet in tables:
            console.print()
            console.print(_table(sheet))
            console.print(Text(sheet.note, style="dim"))
        console.print()


def _table(sheet: Sheet) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), header_style="bold", title=sheet.title)
    table.title_justify = "left"
    for name in sheet.head:
        table.add_column(name, justify="left" if name in _WORDS or not name else "right", no_wrap=name not in _WRAPPED)
    for row in sheet.rows:
        table.add_row(*map(Text, row))
    return table
