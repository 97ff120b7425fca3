"""Where the tables of a query come from: traces, folders of them, and exports as Parquet."""

import glob
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from specviz.errors import TraceError, suggestion
from specviz.runlog.fold import Run
from specviz.tables.rows import WHOLE, DataTable
from specviz.tables.write import arrow_schema
from specviz.trace import Trace, resolve
from specviz.trace.files import PACKED, PLAIN

_SIGN = "rounds.parquet"  # a folder with it is one that was exported
_ROWS = 20_000


@dataclass(frozen=True)
class TableSource:
    """`run`: what its rows are called; `tables`: by name, Arrow tables or data sets; `notes`: what is missing of it."""

    run: str
    tables: dict[str, Any]
    notes: list[str] = field(default_factory=list)


def table_sources(patterns: Sequence[str], wanted: Iterable[str]) -> list[TableSource]:
    """Everything that is meant, each once, with the wanted tables. Raises TraceError: nothing found, or not ours."""
    paths = list(dict.fromkeys(path for pattern in patterns for path in _paths(pattern)))
    names = _names(paths)
    wanted = set(wanted)
    tables = [table for table in WHOLE if table.name in wanted]
    return [(_exported if path.is_dir() else _recorded)(path, names[path], tables) for path in paths]


def _paths(pattern: str) -> list[Path]:
    path = Path(pattern)
    if path.is_dir():
        paths = _in_folder(path)
        if not paths:
            raise TraceError(f"{pattern} is a folder without a trace ({PLAIN}, {PACKED}) or an export ({_SIGN})")
        return paths
    if glob.has_magic(pattern) and not path.exists():
        matches = [Path(entry) for entry in sorted(glob.glob(pattern, recursive=True))]
        paths = [entry for match in matches for entry in (_in_folder(match) if match.is_dir() else [_whole(match)])]
        if not paths:
            raise TraceError(f"no trace fits '{pattern}'; put a pattern in quotes and look at its folder")
        return paths
    return [_whole(path) if path.suffix == ".parquet" else resolve(path)]


def _whole(path: Path) -> Path:
    """The folder of one of its Parquet files; another file is itself."""
    return path.parent if path.suffix == ".parquet" and (path.parent / _SIGN).is_file() else path


def _in_folder(folder: Path) -> list[Path]:
    if (folder / _SIGN).is_file():
        return [folder]
    return sorted(path for path in folder.iterdir() if path.name.endswith((PLAIN, PACKED)) or (path / _SIGN).is_file())


def _names(paths: Sequence[Path]) -> dict[Path, str]:
    """The last part of a path without its ending; the whole path where two would be called the same."""
    short = {path: path.resolve().name.removesuffix(".gz").removesuffix(PLAIN) for path in paths}
    counts = list(short.values())
    return {path: name if counts.count(name) == 1 else str(path) for path, name in short.items()}


def _recorded(path: Path, name: str, tables: Sequence[DataTable]) -> TableSource:
    import pyarrow as pa

    run, why = Run(), ""
    with Trace(path) as trace:
        try:
            run.extend(trace.read())
        except TraceError as error:  # what was read stays
            if not run.rounds:
                raise
            why = f": {error}"
        growing = trace.growing
    by_name = {}
    for table in tables:
        schema, rows, parts = arrow_schema(table), table.of(run), []
        while chunk := list(islice(rows, _ROWS)):
            parts.append(pa.table([list(column) for column in zip(*chunk, strict=True)], schema=schema))
        by_name[table.name] = pa.concat_tables(parts) if parts else schema.empty_table()
    notes = []
    if growing:
        notes.append(f"{path} is being recorded: read as far as it has come, {len(run.rounds):,} rounds")
    elif run.end is None:
        notes.append(f"{path} breaks off: read as far as it goes, {len(run.rounds):,} rounds{why}")
    return TableSource(name, by_name, notes)


def _exported(folder: Path, name: str, tables: Sequence[DataTable]) -> TableSource:
    from pyarrow import ArrowException, dataset

    exported, notes = {}, []
    for table in tables:
        path = folder / f"{table.name}.parquet"
        if not path.is_file():
            notes.append(f"{folder} has no {table.name}: it has no rows of that table")
            continue
        try:
            data = dataset.dataset(path, format="parquet")
        except (OSError, ArrowException) as error:
            raise TraceError(f"cannot read {path}: {str(error).splitlines()[0]}; export it again") from None
        _check(path, data.schema.names, table)
        exported[table.name] = data
    return TableSource(name, exported, notes)


def _check(path: Path, names: Sequence[str], table: DataTable) -> None:
    """Raises TraceError for a file of another schema."""
    known = [column.name for column in table.columns]
    lacking = [name for name in table.narrow or known if name not in names]
    if lacking:
        near = suggestion(lacking[0], names)
        raise TraceError(f"{path} is no table of {table.name}: it has no column '{lacking[0]}'{near}; export it again")
