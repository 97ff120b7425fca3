"""Tables against the records of the run: every round, node and test once, in the words and numbers of the screens."""

import csv
import io
import zipfile
from pathlib import Path

import msgspec
import pytest
from pyarrow import parquet

from specviz.events import Event, Node
from specviz.runlog.fold import Run
from specviz.runlog.tree import RoundTree
from specviz.tables import ENDINGS, TABLES, write_tables, zipped
from specviz.trace import read_events
from support.recordings import RECORDINGS
from support.traces import make_events


def _run(events: list[Event]) -> Run:
    return Run().extend(events)


def _csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", ["code-draft", "code-tree", "code-hsd", "code-pearl", "code-ar", "code-specbound"])
def test_every_round_node_and_test_is_there_once(name: str, tmp_path: Path) -> None:
    run = _run(read_events(RECORDINGS[name]))
    write_tables(run, "csv", tmp_path)
    rounds, nodes, tests = (_csv(tmp_path / f"{table.name}.csv") for table in TABLES)
    assert len(rounds) == len(run.rounds)
    trees = [RoundTree(record) for record in run.rounds]
    assert len(nodes) == sum(len(tree.nodes) for tree in trees)
    assert len(tests) == sum(len(tree.tests) for tree in trees)
    for row, record in zip(rounds, run.rounds, strict=True):
        assert record.end is not None
        assert (int(row["round"]), int(row["n_emitted"])) == (record.r, record.end.n_emitted)
    for row in tests:
        if row["kind"] == "test":
            assert (float(row["u"]) < float(row["thr"])) == (row["status"] == "accepted")


def test_parquet_holds_what_csv_holds(tmp_path: Path) -> None:
    run = _run(read_events(RECORDINGS["code-tree"]))
    for kind in ENDINGS:
        write_tables(run, kind, tmp_path)
    for table in TABLES:
        columns = parquet.read_table(tmp_path / f"{table.name}.parquet")
        assert columns.column_names == [column.name for column in table.columns]
        assert all(columns.schema.field(c.name).metadata[b"help"].decode() == c.help for c in table.columns)
        plain = _csv(tmp_path / f"{table.name}.csv")
        assert columns.num_rows == len(plain) > 0
        for row, other in zip(columns.to_pylist(), plain, strict=True):
            for column in table.columns:
                cell, text = row[column.name], other[column.name]
                if column.kind == "text":
                    assert (
                        (cell or "") == text.removeprefix("'")
                        if (cell or "")[:1] in tuple("=+-@")
                        else text == (cell or "")
                    )
                elif cell is None:
                    assert text == ""
                else:
                    assert float(text) == cell


_FORMULA = "=cmd|' /C calc'!A0\x1b\x00"


def test_no_cell_is_a_formula_or_moves_a_cursor(tmp_path: Path) -> None:
    events = [
        msgspec.structs.replace(event, text=_FORMULA, bytes=None) if isinstance(event, Node) else event
        for event in make_events(temperature=0.8, new_tokens=20)
    ]
    write_tables(_run(events), "csv", tmp_path)
    whole = (tmp_path / "nodes.csv").read_text("utf-8")
    assert "\x1b" not in whole
    rows = _csv(tmp_path / "nodes.csv")
    assert rows
    assert all(row["text"].startswith("'=cmd") for row in rows)


@pytest.mark.parametrize("kind", ENDINGS)
def test_zipped_they_are_the_same_files(kind: str, tmp_path: Path) -> None:
    run = _run(make_events(temperature=0.8, new_tokens=20))
    ending = next(other for other in ENDINGS if other == kind)
    write_tables(run, ending, tmp_path)
    paths = zipped(run, ending)
    with zipfile.ZipFile(io.BytesIO(paths)) as archive:
        assert archive.namelist() == [f"{table.name}.{kind}" for table in TABLES]
        for name in archive.namelist():
            assert archive.read(name) == (tmp_path / name).read_bytes()
    assert zipped(run, ending) == paths


def test_what_is_not_recorded_is_empty(tmp_path: Path) -> None:
    run = _run(make_events(temperature=0.8, new_tokens=20, level="none"))
    write_tables(run, "csv", tmp_path)
    rounds, nodes, tests = (_csv(tmp_path / f"{table.name}.csv") for table in TABLES)
    assert rounds
    assert nodes == tests == []
    write_tables(run, "parquet", tmp_path)
    assert parquet.read_table(tmp_path / "nodes.parquet").num_rows == 0
