"""`specviz whatif --sweep` on recorded runs: what it replays is what was run, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from specviz.cli.look.whatif import command
from specviz.cli.measure.values import each_value
from specviz.commands import Start
from specviz.cost.exit_replay import ExitKnobs, queries, rounds
from specviz.engine.model.files.loading import stop_tokens
from specviz.engine.run.local import LocalRun, load_pair
from specviz.errors import SpecvizError
from specviz.events import Event, LayerTrace, RoundEnd
from specviz.methods import get_method
from specviz.trace import Recorder, Trace
from support.models import planted, save

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


def sweep(method: str, *words: Any) -> Result:
    asked = ["--sweep", method, *(str(word) for word in words)]
    return CliRunner().invoke(command, asked, catch_exceptions=False)


@pytest.mark.parametrize(
    "knobs", [{}, {"alpha": 0, "tau": 0.3}, {"temperature": 0.8}, {"w_max": 2, "d_max": 4}], ids=str
)
def test_the_recorded_run_is_replayed_exactly(folder: str, tmp_path: Path, knobs: dict[str, Any]) -> None:
    path = record(folder, tmp_path / "a.sv.jsonl", **knobs)
    report = json.loads(sweep("specbound", path, "--target", folder, "--json").stdout)
    assert report["run"]["replayed"] == report["run"]["run"] > 1
    (only,) = report["totals"]
    assert only["tokens_per_round"] == report["run"]["run"]


def test_another_setting_is_what_a_run_with_it_gives(folder: str, tmp_path: Path) -> None:
    """Swept from a run of plain decoding; the grid is every combination, the last knob fastest."""
    plain = record(folder, tmp_path / "ar.sv.jsonl", "ar")
    swept = sweep("specbound", plain, "--target", folder, "--json", "--tau", "0.3,0.9", "--w-max", "0..2")
    totals = json.loads(swept.stdout)["totals"]
    assert [(t["tau"], t["w_max"]) for t in totals] == [(t, w) for t in (0.3, 0.9) for w in (0, 1, 2)]
    for total in totals:
        own = record(folder, tmp_path / "own.sv.jsonl", tau=total["tau"], w_max=total["w_max"])
        again = json.loads(sweep("specbound", own, "--target", folder, "--json").stdout)
        assert again["run"]["run"] == total["tokens_per_round"]


def test_random_settings_run_as_they_were_replayed(folder: str, tmp_path: Path) -> None:
    """Any tau, depth, width and (grid) alpha, from one recorded pass: round by round what a run with them does."""
    record(folder, tmp_path / "ar.sv.jsonl", "ar")
    sweep("specbound", tmp_path / "ar.sv.jsonl", "--target", folder, "--write", tmp_path / "b.sv.jsonl")
    (written,) = tmp_path.glob("b.sv.jsonl*")
    with Trace(written) as opened:
        _, (query,) = queries(opened.poll())
    table, rng = query.table(L), np.random.default_rng(11)
    pair = load_pair(folder, needs_draft=False)
    for _ in range(8):
        setting = ExitKnobs(
            round(int(rng.integers(41)) / 10, 1),
            float(rng.random()),
            int(rng.integers(L)),
            int(rng.integers(9)),
            (1, 2, 3, 4),
        )
        knobs = {name: getattr(setting, name) for name in ("alpha", "tau", "d_max", "w_max")}
        start = Start(
            prompt="some text",
            method="specbound",
            level="summary",
            knobs={"max_new_tokens": 30, "exit_layers": ["1, 2, 3, 4"], **knobs},
        )
        events: list[Event] = []
        for _ in LocalRun(pair, start, events.append).rounds():
            pass
        ends = [event for event in events if isinstance(event, RoundEnd)]
        exits = [
            [
                climb.exit_layer
                for climb in events
                if isinstance(climb, LayerTrace) and climb.r == end.r and not climb.terminal
            ]
            for end in ends
        ]
        replayed = list(rounds(table, setting, query.room, query.ends))
        assert [done.n_new for done in replayed] == [end.n_emitted for end in ends], setting
        for done, run in zip(replayed, exits, strict=True):
            assert list(done.exits) == run[: len(done.exits)], setting
            assert 0 <= len(run) - len(done.exits) <= done.more


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
        (("--tau", "high"), "'high' is not a number in 0..1.01"),
        (("--tau", "nan"), "'nan' is not a number"),
        (("--tau", ""), "'' is not a number"),
        (("--tau", "-1"), "'-1' is not a number in 0"),
        (("--d-max", "9"), "'9' is not a whole number in 0..4"),
        (("--w-max", "-1"), "'-1' is not a whole number in 0..16"),
        (("--w-max", "0..999999999999"), "'999999999999' is not a whole number"),
        (("--w-max", "5..1"), "range is empty"),
        (("--alpha", "inf"), "'inf' is not a number"),
        (("--exit-layers", "third"), "is no layer"),
        ((), "layers"),  # the embedded target did not write this
    ):
        with pytest.raises(SpecvizError, match=says):
            sweep("specbound", path, *(["--target", folder] if words else []), *words)
    drawn = record(folder, tmp_path / "b.sv.jsonl", temperature=1, verifier="tokenwise")
    with pytest.raises(SpecvizError, match="verifier tokenwise"):
        sweep("specbound", drawn, "--target", folder)


def test_ranges() -> None:
    table = get_method("specbound").table
    assert each_value(table.spec("w_max"), "0..2, 5") == [0, 1, 2, 5]
    assert each_value(table.spec("tau"), "0.5") == [0.5]


def test_a_run_of_other_weights_is_refused(folder: str, tmp_path: Path) -> None:
    """As many layers, other weights: what its heads say would be about another text's target."""
    other = save(planted(6, layers=L)[0], tmp_path / "other")
    path = record(folder, tmp_path / "a.sv.jsonl")
    with pytest.raises(SpecvizError, match="has weights"):
        sweep("specbound", path, "--target", other)


def test_the_heads_asked_are_those_that_a_run_of_the_method_has(folder: str, tmp_path: Path) -> None:
    """layerskip drafts through the lens unless told otherwise, so its replay asks the lens, not trained heads."""
    path = record(folder, tmp_path / "a.sv.jsonl", "ar")
    sweep("layerskip", path, "--target", folder, "--write", tmp_path / "b.sv.jsonl")
    (written,) = tmp_path.glob("b.sv.jsonl*")
    with Trace(written) as opened:
        header, _ = queries(opened.poll())
    assert header.models.parts["replayed heads"] == "lens"
    mute = tmp_path / "mute"  # a model by its files, which cannot be loaded
    mute.mkdir()
    for name in ("config.json", "model.safetensors"):
        (mute / name).write_bytes((Path(folder) / name).read_bytes())
    sweep("layerskip", written, "--target", mute)  # all is told
    with pytest.raises(SpecvizError, match="cannot be loaded"):
        sweep("specbound", written, "--target", mute)  # asks the target's own heads


def test_only_what_the_run_had_is_compared_with_it(folder: str, tmp_path: Path) -> None:
    path = record(folder, tmp_path / "a.sv.jsonl")
    words = ("specbound", path, "--target", folder, "--json")
    assert json.loads(sweep(*words).stdout)["run"] is not None
    assert json.loads(sweep(*words, "--exit-layers", "1").stdout)["run"] is None


def test_end_tokens_in_front_of_the_end_are_not_fed_in_a_replay(folder: str, tmp_path: Path) -> None:
    """A wrong draft of one ends a round without a row of its own, also where the text ends by its length."""
    path = record(folder, tmp_path / "a.sv.jsonl", "ar")
    sweep("specbound", path, "--target", folder, "--write", tmp_path / "b.sv.jsonl")
    (written,) = tmp_path.glob("b.sv.jsonl*")
    with Trace(written) as opened:
        header, (query,) = queries(opened.poll())
    known = stop_tokens(load_pair(folder, needs_draft=False).target)
    assert known
    assert header.models.parts["stop tokens"] == " ".join(map(str, sorted(known)))
    assert query.finish == "length"
    query.stops = known
    assert query.ends == known
