"""`specviz sweep` on recorded runs: what it replays is what was run, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from engine.zoo import planted, save
from specviz.cli.sweep import _values, command
from specviz.engine.local import LocalRun, load_pair
from specviz.errors import SpecvizError
from specviz.trace import Recorder, Trace
from specviz.wire import Start

L = 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save(planted(5, layers=L)[0], tmp_path_factory.mktemp("target"))


def record(folder: str, path: Path, method: str = "specbound", **knobs: Any) -> Path:
    recorder = Recorder(path)
    verifier = knobs.pop("verifier", None)
    start = Start(prompt="some text", method=method, verifier=verifier, knobs={"max_new_tokens": 30, **knobs})
    run = LocalRun(load_pair(folder, needs_draft=False), start, recorder.write)
    list(run.rounds())
    return recorder.path


def sweep(*words: Any) -> Result:
    return CliRunner().invoke(command, [str(word) for word in words], catch_exceptions=False)


@pytest.mark.parametrize(
    "knobs", [{}, {"alpha": 0, "tau": 0.3}, {"temperature": 0.8}, {"w_max": 2, "d_max": 4}], ids=str
)
def test_the_recorded_run_is_replayed_exactly(folder: str, tmp_path: Path, knobs: dict[str, Any]) -> None:
    path = record(folder, tmp_path / "a.sv.jsonl", **knobs)
    found = json.loads(sweep("specbound", path, "--target", folder, "--json").stdout)
    assert found["run"]["replayed"] == found["run"]["run"] > 1
    (only,) = found["totals"]
    assert only["tokens_per_round"] == found["run"]["run"]


def test_another_setting_is_what_a_run_with_it_gives(folder: str, tmp_path: Path) -> None:
    """Swept from a run of plain decoding; the grid is every combination, the last knob fastest."""
    plain = record(folder, tmp_path / "ar.sv.jsonl", "ar")
    swept = sweep("specbound", plain, "--target", folder, "--json", "--tau", "0.3,0.9", "--w-max", "0..2")
    totals = json.loads(swept.stdout)["totals"]
    assert [(t["tau"], t["w_max"]) for t in totals] == [(t, w) for t in (0.3, 0.9) for w in (0, 1, 2)]
    for found in totals:
        own = record(folder, tmp_path / "own.sv.jsonl", tau=found["tau"], w_max=found["w_max"])
        again = json.loads(sweep("specbound", own, "--target", folder, "--json").stdout)
        assert again["run"]["run"] == found["tokens_per_round"]


def test_a_written_trace_needs_no_model(folder: str, tmp_path: Path) -> None:
    path = record(folder, tmp_path / "a.sv.jsonl")
    first = sweep("specbound", path, "--target", folder, "--json", "--write", tmp_path / "b.sv.jsonl")
    (written,) = tmp_path.glob("b.sv.jsonl*")
    assert json.loads(sweep("specbound", written, "--target", "nowhere", "--json").stdout) == json.loads(first.stdout)
    with Trace(written, check=True) as opened:
        opened.poll()
        assert opened.intact()


def test_a_person_gets_a_table(folder: str, tmp_path: Path) -> None:
    path = record(folder, tmp_path / "a.sv.jsonl")
    shown = sweep("adadecode", path, "--target", folder, "--tau", "0,0.75")
    lines = shown.stdout.splitlines()
    assert len(lines) == 3
    assert sum("fewest" in line for line in lines) == 1


def test_what_is_refused(folder: str, tmp_path: Path) -> None:
    path = record(folder, tmp_path / "a.sv.jsonl")
    for words, says in (
        (("--alpha", "0.55"), "steps of"),
        (("--tau", "high"), "no list of numbers"),
        (("--exit-layers", "third"), "is no layer"),
        ((), "layers"),  # the embedded target did not write this
    ):
        with pytest.raises(SpecvizError, match=says):
            sweep("specbound", path, *(["--target", folder] if words else []), *words)
    drawn = record(folder, tmp_path / "b.sv.jsonl", temperature=1, verifier="tokenwise")
    with pytest.raises(SpecvizError, match="verifier tokenwise"):
        sweep("specbound", drawn, "--target", folder)


def test_ranges() -> None:
    assert _values("w_max", "0..2,5", int) == [0, 1, 2, 5]
    assert _values("tau", "0.5", float) == [0.5]
