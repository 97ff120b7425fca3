"""`specviz stats --sql`: recordings as tables, asked by SQL."""

import csv
import sys
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from specviz.cli.printing import echo_json, narrate, table_of
from specviz.errors import SpecvizError
from specviz.text import running

if TYPE_CHECKING:
    from rich.console import Console

    from specviz.tables.database import QueryResult

_NARROWEST = 100
_SHOWN = 100  # rows of a table for people; --csv and --json have all


def answer(sql: str, traces: Sequence[str], as_csv: bool, as_json: bool) -> None:
    """Print what a statement finds in traces, folders of them, patterns, and folders of tables. Raises SpecvizError."""
    if as_csv and as_json:
        raise SpecvizError("--csv and --json together; give one of them")
    if not traces:
        raise SpecvizError(
            "--sql needs a trace to ask: specviz stats --sql 'select count(*) from rounds' run.sv.jsonl.gz"
        )
    from specviz.tables.database import ask

    result = ask(sql, traces)
    for note in result.notes:
        narrate(f"specviz: {running(note)}")
    if as_json:
        rows = [dict(zip(result.columns, map(_plain, row), strict=True)) for row in result.rows]
        echo_json({"columns": result.columns, "rows": rows})
    elif as_csv:
        _csv(result)
    else:
        _print(result)


def _csv(result: "QueryResult") -> None:
    from specviz.tables.write import plain_cell

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(result.columns)
    writer.writerows([plain_cell(cell) for cell in row] for row in result.rows)


def _plain(cell: Any) -> Any:
    """A value that JSON has."""
    return float(cell) if isinstance(cell, Decimal) else cell


def _print(result: "QueryResult") -> None:
    from specviz.console import standard_output

    table = table_of(*(running(name) for name in result.columns))
    for number in range(len(result.columns)):
        is_text = any(isinstance(row[number], str) for row in result.rows[:_SHOWN])
        table.columns[number].justify = "left" if is_text else "right"
    for row in result.rows[:_SHOWN]:
        table.add_row(*map(_shown, row))
    with standard_output(_NARROWEST) as console:
        if _width(result) <= console.width:
            console.print(table)
        else:
            _print_records(console, result)
    if len(result.rows) > _SHOWN:
        narrate(f"specviz: {_SHOWN} of {len(result.rows):,} rows; --csv and --json have all")


def _width(result: "QueryResult") -> int:
    """Cells across, were every column as wide as its widest value; a long text may be cut to 40."""
    rows = [list(map(_shown, row)) for row in result.rows[:_SHOWN]]
    widest = (max([len(name), *(min(len(row[k]), 40) for row in rows)]) for k, name in enumerate(result.columns))
    return sum(widest) + 2 * len(result.columns)


def _print_records(console: "Console", result: "QueryResult") -> None:
    """Row by row, a line for each column: what is too wide for a table."""
    widest = max(map(len, result.columns))
    for number, row in enumerate(result.rows[:_SHOWN], start=1):
        console.print(f"row {number}", style="bold")
        for name, cell in zip(result.columns, row, strict=True):
            console.print(f"  {running(name):<{widest}}  {_shown(cell)}", no_wrap=True, overflow="ellipsis")


def _shown(cell: Any) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float | Decimal):
        return f"{float(cell):.6g}"
    return running(str(cell))


def print_tables(as_json: bool) -> None:
    """The tables, their columns and what these mean."""
    from specviz.console import standard_output
    from specviz.tables.rows import WHOLE, TableColumn

    run = TableColumn("run", "text", "which recording: its name without the ending")
    columns_by_table = {table.name: (run, *table.columns) for table in WHOLE}
    if as_json:
        echo_json(
            {
                n: [{"name": c.name, "kind": c.kind, "help": c.help} for c in cols]
                for n, cols in columns_by_table.items()
            }
        )
        return
    with standard_output(_NARROWEST) as console:
        for name, columns in columns_by_table.items():
            table = table_of(name, "kind", "")
            table.columns[1].justify = "left"
            for column in columns:
                table.add_row(column.name, column.kind, column.help)
            console.print(table)
            console.print()
