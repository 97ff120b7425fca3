"""Tables as files: CSV for spreadsheets and scripts, Parquet (by pyarrow) for analysis."""

import csv
import io
import zipfile
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Literal

from specviz.runlog.fold import Run
from specviz.tables.rows import TABLES, Cell, DataTable, Held

Kind = Literal["csv", "parquet"]
ENDINGS: tuple[Kind, ...] = ("csv", "parquet")
_ROWS = 20_000  # of a Parquet row group: so many are in memory
_FORMULA = ("=", "+", "-", "@")  # what a spreadsheet takes a text that begins so for


def write_tables(run: Run, kind: Kind, folder: Path) -> list[Path]:
    """Every table as a file of the folder. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for table in TABLES:
        path = folder / f"{table.name}.{kind}"
        with path.open("wb") as file:
            _WRITERS[kind](run, table, file)
        found.append(path)
    return found


def zipped(run: Run, kind: Kind) -> bytes:
    """The same files in one ZIP, which has no time of day in it."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for table in TABLES:
            part = io.BytesIO()
            _WRITERS[kind](run, table, part)
            archive.writestr(zipfile.ZipInfo(f"{table.name}.{kind}"), part.getvalue(), zipfile.ZIP_DEFLATED)
    return held.getvalue()


def _csv(run: Run, table: DataTable, file: BinaryIO) -> None:
    wrapped = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(wrapped, lineterminator="\n")
    writer.writerow(column.name for column in table.columns)
    texts = [column.kind == "text" for column in table.columns]
    for row in table.of(run):
        writer.writerow([_plain(cell) if text else cell for cell, text in zip(row, texts, strict=True)])
    wrapped.detach()


def _plain(cell: Cell) -> Cell:
    """A text that no spreadsheet runs: one that begins as formulas do gets an apostrophe before it."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


def _parquet(run: Run, table: DataTable, file: BinaryIO) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    types: Mapping[Held, Any] = {"int": pa.int64(), "float": pa.float64(), "text": pa.string(), "bool": pa.bool_()}
    schema = pa.schema([pa.field(c.name, types[c.kind], metadata={"help": c.help}) for c in table.columns])
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        rows = table.of(run)
        while chunk := list(islice(rows, _ROWS)):
            columns = [list(column) for column in zip(*chunk, strict=True)]
            writer.write_table(pa.table(columns, schema=schema))


_WRITERS: Mapping[Kind, Callable[[Run, DataTable, BinaryIO], None]] = {"csv": _csv, "parquet": _parquet}
