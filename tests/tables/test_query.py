"""`specviz stats --sql`: SQL over recordings and exports, what it says of bad input, and what it cannot reach."""

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cli.conftest import Cli, cli
from specviz.tables import WHOLE, arrow_schema
from specviz.tables.write import halved, parquet_file
from support.recordings import RECORDINGS

__all__ = ["cli"]
TRACE = RECORDINGS["code-draft"]
TREE = RECORDINGS["code-tree"]
ROUNDS, GAMMA = 1_000_000, 4
# Each finds nothing wrong: rows where a sum of tests is not what the round says.
IDENTITIES = (
    "select * from rounds where n_emitted is not null and n_emitted <> n_accepted + 1",
    """with t as (select run, query, round, count(*) as n, count(*) filter (status = 'accepted') as kept,
         max(depth) filter (status = 'accepted') as deepest from tests group by all)
       select * from rounds join t using (run, query, round)
       where n <> n_tested or kept <> n_accepted or coalesce(deepest, 0) <> n_accepted""",
    """select (select sum(n_accepted) from rounds) as a,
         (select sum(kept) from (select count(*) as kept from tests where status = 'accepted' group by depth)) as b
       where a <> b""",
    """select * from requests join (select run, query, count(*) as n, sum(n_emitted) as wrote from rounds group by all)
         using (run, query) where n <> n_rounds or wrote <> n_emitted""",
    "select * from runs join (select run, count(*) as n from rounds group by run) using (run) where n <> n_rounds",
)


def _asked(cli: Cli, sql: str, *traces: object) -> list[dict[str, Any]]:
    done = cli("stats", "--json", "--sql", sql, *traces)
    assert done.code == 0, done.err
    rows: list[dict[str, Any]] = json.loads(done.out)["rows"]
    return rows


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export of a million rounds of chains, made as columns."""
    folder, draw = tmp_path_factory.mktemp("made"), np.random.default_rng(7)
    kept = (draw.random((ROUNDS, GAMMA)) < 0.6).cumprod(axis=1)
    accepted = kept.sum(axis=1)
    tested = np.minimum(accepted + 1, GAMMA)
    place = np.arange(ROUNDS)
    rounds = {
        "query": place // 100,
        "round": place % 100 + 1,
        "n_before": 12 + 2 * (place % 100),
        "n_drafted": np.full(ROUNDS, GAMMA),
        "n_tested": tested,
        "n_accepted": accepted,
        "n_emitted": accepted + 1,
        "walk_end": np.where(accepted == GAMMA, "all_accepted", "rejected"),
        "closing": np.where(accepted == GAMMA, "bonus", "recovered"),
    }
    of, n = np.repeat(place, tested), int(tested.sum())
    order = np.arange(n) - np.repeat(np.cumsum(tested) - tested, tested)
    tests = {
        "query": of // 100,
        "round": of % 100 + 1,
        "order": order,
        "depth": order + 1,
        "token": np.minimum(draw.zipf(1.3, n), 49_151),
        "q": halved(draw.beta(2, 1, n)),
        "p": halved(draw.beta(2, 1, n)),
        "status": np.where(order < accepted[of], "accepted", "rejected"),
    }
    queries = np.arange(ROUNDS // 100)
    sums = {name: rounds[name].reshape(-1, 100).sum(axis=1) for name in rounds if name.startswith("n_")}
    requests = {"query": queries, "n_rounds": np.full(len(queries), 100), **sums}
    runs = {"n_rounds": [ROUNDS], "n_requests": [len(queries)]}
    for table in WHOLE:
        columns = {"runs": runs, "requests": requests, "rounds": rounds, "tests": tests}.get(table.name)
        if columns is None:
            continue
        schema = arrow_schema(table, narrow=True)
        length = len(next(iter(columns.values())))
        whole = [pa.array(columns.get(f.name, [None] * length), type=f.type) for f in schema]
        with (folder / f"{table.name}.parquet").open("wb") as file, parquet_file(file, schema) as writer:
            writer.write_table(pa.table(whole, schema=schema), row_group_size=100_000)
    return folder


@pytest.mark.parametrize("number", range(len(IDENTITIES)))
def test_a_million_rounds_keep_the_identities(number: int, export: Path, cli: Cli) -> None:
    assert _asked(cli, IDENTITIES[number], export) == []


def test_a_million_rounds_are_small(export: Path, cli: Cli) -> None:
    """The promise of the format: some 13 bytes for a round of a chain, its tests included."""
    assert _asked(cli, "select count(*) as n from rounds", export) == [{"n": ROUNDS}]
    size = sum(path.stat().st_size for path in export.iterdir())
    print(f"{size / ROUNDS:.2f} bytes a round")
    assert size / ROUNDS < 14


def test_recordings_and_their_exports_keep_them_too(cli: Cli, tmp_path: Path) -> None:
    for kind in ((), ("--narrow",)):
        folder = tmp_path / f"export{len(kind)}"
        assert cli("export", TRACE, "--parquet", folder, *kind).code == 0
        for number in (0, 2, 3, 4):
            assert _asked(cli, IDENTITIES[number], TRACE, folder) == []
        sql = "select query, round, n_accepted, n_emitted, closing from rounds order by all"
        assert _asked(cli, sql, folder) == _asked(cli, sql, TRACE) != []
        sql = 'select query, round, "order", depth, token, status, round(p, 2) as p from tests order by all'
        mine, other = _asked(cli, sql, folder), _asked(cli, sql, TRACE)
        assert len(mine) == len(other) > 0
        for row, same in zip(mine, other, strict=True):
            assert row["p"] == pytest.approx(same["p"], abs=0.011)
            assert {**row, "p": 0} == {**same, "p": 0}


def test_many_sources_are_told_apart(cli: Cli, tmp_path: Path) -> None:
    for path in (TRACE, TREE):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert cli("export", TRACE, "--parquet", tmp_path / "older").code == 0
    sql = "select run, count(*) as n from rounds group by run order by run"
    everything = _asked(cli, sql, tmp_path)
    assert [row["run"] for row in everything] == ["code-draft", "code-tree", "older"]
    assert _asked(cli, sql, tmp_path / "*", tmp_path / "older") == everything
    assert [row["run"] for row in _asked(cli, sql, tmp_path / "*.gz")] == ["code-draft", "code-tree"]
    assert _asked(cli, "select count(*) as n from nodes where run = 'code-tree'", tmp_path)[0]["n"] > 0


def test_table_and_csv(cli: Cli) -> None:
    sql = "select round, walk_end, n_accepted / 2.0 as half, null as none, '=1' as text from rounds order by all"
    answer = cli("stats", "--sql", sql, TRACE)
    assert answer.code == 0
    assert all(word in answer.out for word in ("round", "walk_end", "half", "–"))
    rows = list(csv.DictReader(io.StringIO(cli("stats", "--csv", "--sql", sql, TRACE).out)))
    assert len(rows) == len(_asked(cli, sql, TRACE)) > 0
    assert {row["text"] for row in rows} == {"'=1"}


def test_what_is_too_wide_is_told_row_by_row(cli: Cli) -> None:
    answer = cli("stats", "--sql", "select * from rounds limit 2", TRACE).out
    columns = next(table.columns for table in WHOLE if table.name == "rounds")
    assert [line.split()[0] for line in answer.splitlines()] == ["row", "run", *(c.name for c in columns)] * 2


def test_every_column_is_told(cli: Cli) -> None:
    answer = json.loads(cli("stats", "--tables", "--json").out)
    for table in WHOLE:
        sql = f"select * from {table.name}"
        rows = json.loads(cli("stats", "--json", "--sql", sql, TRACE).out)["columns"]
        assert rows == [column["name"] for column in answer[table.name]]
    page = cli("stats", "--tables").out
    assert all(column["help"].split()[0] in page for table in answer.values() for column in table)


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("select n_acepted from rounds", "no column 'n_acepted'; did you mean 'n_accepted'?"),
        ("select r.n_acepted from rounds r", "no column 'n_acepted'; did you mean 'n_accepted'?"),
        ("select 1 from round", "no table 'round'; did you mean 'rounds'?"),
        ("select summ(n_accepted) from rounds", "did you mean 'sum'?"),
        ("selec 1", "syntax error"),
        ("", "one statement at a time"),
        ("select 1; select 2", "one statement at a time, this has 2"),
        ("drop view rounds", "only reads"),
        ("set threads = 1", "only reads"),
        ("attach 'x.db'", "only reads"),
        ("copy rounds to 'x.csv'", "only reads"),
        ("select * from '{trace}'", "cannot be carried out"),
        ("select * from read_text('{trace}')", "cannot be carried out"),
        ("select * from read_csv('{trace}')", "cannot be carried out"),
        ("select * from glob('/*')", "cannot be carried out"),
        ("select * from sources", "no table"),  # a variable of Python
    ],
)
def test_a_wrong_or_reaching_statement_is_one_line(
    sql: str, words: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert words in cli("stats", "--sql", sql.format(trace=TRACE), TRACE).line
    assert list(tmp_path.iterdir()) == []


def test_wrong_traces_are_one_line(cli: Cli, tmp_path: Path) -> None:
    ask = "select count(*) as n from rounds"
    assert "no trace" in cli("stats", "--sql", ask, tmp_path / "none.sv.jsonl.gz").line
    assert "no trace fits" in cli("stats", "--sql", ask, tmp_path / "*.gz").line
    assert "folder without a trace" in cli("stats", "--sql", ask, tmp_path).line
    assert "a trace to ask" in cli("stats", "--sql", ask).line
    assert "--csv and --json" in cli("stats", "--sql", ask, TRACE, "--csv", "--json").line
    other = tmp_path / "other"
    other.mkdir()
    with (other / "rounds.parquet").open("wb") as file:
        schema = pa.schema([("query", pa.int64()), ("rounds", pa.int64())])
        with parquet_file(file, schema) as writer:
            writer.write_table(schema.empty_table())
    assert "no column 'round'; did you mean 'rounds'?" in cli("stats", "--sql", ask, other).line
    (other / "rounds.parquet").write_bytes(b"PAR1")
    assert "export it again" in cli("stats", "--sql", ask, other).line


@pytest.mark.parametrize("packed", [False, True])
def test_a_torn_trace_is_read_as_far_as_it_goes(packed: bool, cli: Cli, tmp_path: Path) -> None:
    import gzip

    whole = TRACE.read_bytes()
    plain = gzip.decompress(whole)
    path = tmp_path / ("torn.sv.jsonl.gz" if packed else "torn.sv.jsonl")
    path.write_bytes(whole[: len(whole) * 3 // 4] if packed else plain[: len(plain) * 3 // 4])
    sql = "select count(*) as n from rounds"
    done = cli("stats", "--json", "--sql", sql, path)
    assert done.code == 0
    assert "breaks off: read as far as it goes" in done.err
    assert 0 < json.loads(done.out)["rows"][0]["n"] <= _asked(cli, sql, TRACE)[0]["n"]


def test_columns_of_one_name_are_told_apart(cli: Cli) -> None:
    sql = "select a.run, b.run, 1 as run_2 from runs a join runs b on a.run = b.run"
    assert _asked(cli, sql, TRACE) == [{"run": "code-draft", "run_2": "code-draft", "run_2_2": 1}]


@pytest.mark.parametrize("library", ["duckdb", "pyarrow"])
def test_without_its_libraries_it_names_the_extra(library: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    assert "pip install 'specviz-llm[scale]'" in cli("stats", "--sql", "select 1", TRACE).line
