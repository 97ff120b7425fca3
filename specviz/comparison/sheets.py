"""Reports as tables of words: built from columns, printed in a terminal, written as one HTML file."""

import html
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from rich import box
from rich.table import Table
from rich.text import Text

from specviz.console import standard_output
from specviz.metrics.estimate import Estimate
from specviz.numerals import UNKNOWN

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


def gate_sheet(gates: Sequence[tuple[str, str | None]]) -> Sheet:
    """What became of every rule of `--fail-if`: why it holds, None where it does not."""
    rows = [["passes" if why is None else "fails", rule, why or ""] for rule, why in gates]
    return Sheet("gate", ("", "rule", "why"), rows, "")


def margin(estimate: Estimate | None) -> str:
    """Half of the interval."""
    if estimate is None or estimate.interval is None:
        return UNKNOWN
    return f"{(estimate.interval[1] - estimate.interval[0]) / 2:.3f}"


_NARROWEST = 110  # columns when standard output is no terminal
LEFT = frozenset(
    {"method", "over", "as", "promise", "first divergence", "prompt", "before", "goes on", "rule", "why", ""}
)
_LEFT_IN_TERMINAL = LEFT | {"prompts", "verifier", "rule", "law", "lanes", "signal", "specbranch"}
_WRAPPED = frozenset({"promise", "hits by branches", "said > true", "rows a round"})


def print_sheets(heading: Sequence[str], sheets: Sequence[Sheet]) -> None:
    """Lines that must be known before any number, then the tables with how to read them, on standard output."""
    with standard_output(_NARROWEST) as console:
        for line in heading:
            console.print(Text(line, style="dim"))
        for sheet in sheets:
            console.print()
            console.print(_table(sheet))
            console.print(Text(sheet.note, style="dim"))
        console.print()


def _table(sheet: Sheet) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), header_style="bold", title=sheet.title)
    table.title_justify = "left"
    for name in sheet.head:
        side = "left" if name in _LEFT_IN_TERMINAL else "right"
        table.add_column(name, justify=side, no_wrap=name not in _WRAPPED)  # type: ignore[arg-type]
    for row in sheet.rows:
        table.add_row(*map(Text, row))
    return table


_STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif }
body { margin: 2rem auto; max-width: 68rem; padding: 0 1rem }
table { border-collapse: collapse; display: block; overflow-x: auto }
th, td { padding: .2rem .8rem .2rem 0; text-align: right; white-space: nowrap }
th { border-bottom: 1px solid } .words { text-align: left }
p, footer { opacity: .75 }
"""


def page(title: str, heading: Sequence[str], sheets: Sequence[Sheet], foot: str, charts: str = "") -> str:
    """The report as one HTML file that needs nothing else."""
    head = "".join(f"<p>{html.escape(line)}</p>" for line in heading)
    body = "".join(_section(sheet) for sheet in sheets)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{title}</h1>"
        f"{head}{charts}{body}<footer><code>{html.escape(foot)}</code></footer></body></html>\n"
    )


def _section(sheet: Sheet) -> str:
    classes = ["words" if name in LEFT else "" for name in sheet.head]

    def row(tag: str, cells: Sequence[str]) -> str:
        inside = (f'<{tag} class="{c}">{html.escape(v)}</{tag}>' for c, v in zip(classes, cells, strict=True))
        return f"<tr>{''.join(inside)}</tr>"

    rows = "".join(row("td", cells) for cells in sheet.rows)
    table = f"<table><thead>{row('th', sheet.head)}</thead><tbody>{rows}</tbody></table>"
    return f"<h2>{html.escape(sheet.title)}</h2>{table}<p>{html.escape(sheet.note)}</p>"
