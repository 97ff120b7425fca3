"""Tables as files: CSV for spreadsheets and scripts, Parquet (by pyarrow) for analysis."""

import csv
import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Literal

from specviz.runlog.fold import Run
from specviz.tables.rows import TABLES, Cell, DataTable, Held
from specviz.trace.private import open_like

Kind = Literal["csv", "parquet"]
ENDINGS: tuple[Kind, ...] = ("csv", "parquet")
_ROWS = 20_000  # of a Parquet row group: so many are in memory
_STEADY = ("query", "round", "t_ns", "n_before", "node", "parent", "pos")  # grow by little: their differences are kept
_FORMULA = ("=", "+", "-", "@")  # what a spreadsheet takes a text that begins so for


def write_tables(
    run: Run,
    kind: Kind,
    folder: Path,
    tables: Sequence[DataTable] = TABLES,
    narrow: bool = False,
    traces: Sequence[Path] = (),
) -> list[Path]:
    """Every table as a file of the folder; `narrow`, for Parquet: see `parquet_file`.

    `traces`: what they are made of, whose readers may read them. Raises OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for table in tables:
        path = folder / f"{table.name}.{kind}"
        with open_like(path, traces) as file:
            if narrow:
                _parquet(run, table, file, narrow)
            else:
                _WRITERS[kind](run, table, file)
        written.append(path)
    return written


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
        writer.writerow([plain_cell(cell) if text else cell for cell, text in zip(row, texts, strict=True)])
    wrapped.detach()


def plain_cell(cell: Cell) -> Cell:
    """A text that no spreadsheet runs: one that begins as formulas do gets an apostrophe before it."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


def arrow_schema(table: DataTable, narrow: bool = False) -> Any:
    """The Arrow schema of a table. Narrow floats have 32 bits, of which 19 say something (`halved`)."""
    import pyarrow as pa

    real = pa.float32() if narrow else pa.float64()
    types: Mapping[Held, Any] = {"int": pa.int64(), "float": real, "text": pa.string(), "bool": pa.bool_()}
    kept = [c for c in table.columns if not narrow or c.name in table.narrow]
    return pa.schema([pa.field(c.name, types[c.kind], metadata={"help": c.help}) for c in kept])


def parquet_file(file: BinaryIO, schema: Any) -> Any:
    """A writer of Parquet in the encodings that make rounds small: differences for what grows steadily, the bytes of a
    float each with their like, all else by dictionary; zstd over it.
    """
    from pyarrow import parquet, types

    steady = {field.name: "DELTA_BINARY_PACKED" for field in schema if field.name in _STEADY}
    real = {field.name: "BYTE_STREAM_SPLIT" for field in schema if types.is_float32(field.type)}
    by_name = [field.name for field in schema if field.name not in {**steady, **real}]
    return parquet.ParquetWriter(
        file, schema, compression="zstd", use_dictionary=by_name, column_encoding={**steady, **real}
    )


def halved(values: Any) -> Any:
    """Floats as precise as half ones (11 bits), in 32 bits: every reader knows these, and zeros cost nothing."""
    import numpy as np

    with np.errstate(over="ignore"):
        return np.asarray(values, dtype=np.float16).astype(np.float32)


def _parquet(run: Run, table: DataTable, file: BinaryIO, narrow: bool = False) -> None:
    import pyarrow as pa

    schema = arrow_schema(table, narrow)
    places = [place for place, column in enumerate(table.columns) if column.name in schema.names]
    real = [table.columns[place].kind == "float" for place in places]
    with parquet_file(file, schema) as writer:
        rows = table.of(run)
        while chunk := list(islice(rows, _ROWS)):
            columns = [[row[place] for row in chunk] for place in places]
            if narrow:
                columns = [
                    [None if cell is None else float(halved(cell)) for cell in column] if is_real else column
                    for column, is_real in zip(columns, real, strict=True)
                ]
            writer.write_table(pa.table(columns, schema=schema))


_WRITERS: Mapping[Kind, Callable[[Run, DataTable, BinaryIO], None]] = {"csv": _csv, "parquet": _parquet}
