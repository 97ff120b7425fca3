"""Tables of recordings in DuckDB, in this process, for one reading statement: no file, no setting, no other variable of
Python can be reached from it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from specviz.errors import MissingExtra, SpecvizError, nearest
from specviz.tables.rows import NODES, WHOLE, TableColumn
from specviz.tables.sources import TableSource, table_sources

RUN = TableColumn("run", "text", "which recording: its name without the ending")
_TYPES = {"int": "BIGINT", "float": "DOUBLE", "text": "VARCHAR", "bool": "BOOLEAN"}
_LOCKS = ("enable_external_access=false", "python_enable_replacements=false", "lock_configuration=true")
_WRONG_COLUMN = re.compile(r'(?:Referenced column|does not have a column named) "([^"]+)"')
_WRONG_TABLE = re.compile(r'(?:Table with name (\S+) does not|Referenced table "([^"]+)")')


@dataclass(frozen=True)
class QueryResult:
    """`notes`: what of the recordings could not be read."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    notes: tuple[str, ...]


def ask(sql: str, patterns: Sequence[str]) -> QueryResult:
    """What a statement finds in recordings. Raises SpecvizError: a statement that is wrong or would change something,
    MissingExtra where DuckDB or pyarrow is not installed, TraceError for what cannot be read.
    """
    try:
        import duckdb
        import pyarrow  # noqa: F401 (the sources need it)
    except ModuleNotFoundError as error:
        raise MissingExtra("scale", f"SQL uses {error.name}, which is not installed; it") from None

    connection = duckdb.connect(":memory:", config={"autoload_known_extensions": "false"})
    try:
        _refuse(connection, sql)
        # Nodes are many and seldom asked for: their rows are made only for a statement that names them.
        wanted = [table.name for table in WHOLE if table is not NODES or NODES.name in sql.lower()]
        sources = table_sources(patterns, wanted)
        _fill(connection, sources, wanted)
        for lock in _LOCKS:
            connection.execute(f"SET {lock}")
        result = connection.execute(sql)
        columns = _apart([column[0] for column in result.description])
        return QueryResult(columns, result.fetchall(), tuple(note for column in sources for note in column.notes))
    except duckdb.Error as error:
        raise SpecvizError(_line(str(error))) from None
    finally:
        connection.close()


def _apart(names: Sequence[str]) -> tuple[str, ...]:
    """Names of columns, each once: a join has `run` twice, and the second is `run_2`."""
    apart: dict[str, None] = {}
    for name in names:
        number, other = 1, name
        while other in apart:
            number += 1
            other = f"{name}_{number}"
        apart[other] = None
    return tuple(apart)


def _refuse(connection: Any, sql: str) -> None:
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise SpecvizError(f"one statement at a time, this has {len(statements)}; write one: select … from rounds")
    kind = statements[0].type.name
    if kind not in ("SELECT", "EXPLAIN"):
        raise SpecvizError(f"a query only reads, and this is {kind}; begin with select, with, describe or summarize")


def _fill(connection: Any, sources: Sequence[TableSource], wanted: Sequence[str]) -> None:
    """A view for every table over all sources; a column that one of them lacks is null there."""
    for table in (whole for whole in WHOLE if whole.name in wanted):
        nothing = ", ".join(f'NULL::{_TYPES[c.kind]} AS "{c.name}"' for c in (RUN, *table.columns))
        parts = [f"SELECT {nothing} WHERE false"]
        for number, source in enumerate(sources):
            if table.name in source.tables:
                held = f"_{table.name}_{number}"
                connection.register(held, source.tables[table.name])
                name = source.run.replace("'", "''")
                parts.append(f"SELECT '{name}' AS run, * FROM {held}")
        connection.execute(f"CREATE VIEW {table.name} AS {' UNION ALL BY NAME '.join(parts)}")


def _line(message: str) -> str:
    """What DuckDB says, on one line and with the nearest right name of ours."""
    first = message.split("\n", 1)[0].partition("Error: ")[2] or message
    table, column = _WRONG_TABLE.search(message), _WRONG_COLUMN.search(message)
    if table is not None:
        return _told("table", table[1] or table[2], [whole.name for whole in WHOLE], "--tables shows them all")
    if column is not None:
        known = {c.name for whole in WHOLE for c in (RUN, *whole.columns)}
        candidates = re.search(r"Candidate bindings: (.*)", message)
        bound = {name for name in re.findall(r'"([^"]+)"', candidates[1]) if name in known} if candidates else set()
        close = nearest(column[1], sorted(bound)) and sorted(bound)
        return _told("column", column[1], close or sorted(known), "--tables shows them all")
    guess = re.search(r'Did you mean "([^"]+)"', message)
    near = f"; did you mean '{guess[1]}'?" if guess is not None else ""
    return f"the statement cannot be carried out: {first}{near}"


def _told(what: str, name: str, known: Sequence[str], last: str) -> str:
    near = nearest(name, known)
    return f"no {what} '{name}'" + (f"; did you mean '{near}'? {last}" if near else f"; {last}")
