"""Early exit under other settings, round by round: what was recorded, and what runs with those settings really did."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from click.testing import CliRunner

from specviz.cli.look.whatif import command as whatif
from specviz.commands import Start
from specviz.engine.run.local import LocalRun, load_pair
from specviz.errors import SpecvizError
from specviz.runlog.fold import Run
from specviz.trace import Recorder, Trace
from specviz.view.whatif import exits_words
from specviz.whatif import Change, ExitReplay, checked, decide_run, exits_asked
from support.models import planted, save
from support.recordings import RECORDINGS


def read(path: Path) -> Run:
    with Trace(path) as trace:
        return Run().extend(trace.read())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save(planted(5, layers=5)[0], tmp_path_factory.mktemp("target"))


def recorded(folder: str, path: Path, **knobs: Any) -> Path:
    recorder = Recorder(path)
    start = Start(prompt="some text", method="specbound", knobs={"max_new_tokens": 30, **knobs})
    list(LocalRun(load_pair(folder, needs_draft=False), start, recorder.write).rounds())
    return recorder.path


def test_the_setting_of_the_run_gives_every_round_back() -> None:
    run = read(RECORDINGS["code-specbound"])
    replay = ExitReplay(run, {})
    decisions = [replay.decide(record) for record in run.rounds]
    assert [one_round.kept for one_round in decisions] == [one_round.was for one_round in decisions]
    assert sum(one_round.was for one_round in decisions) > 20
    other = ExitReplay(run, {"tau": 0.9})
    assert [other.decide(record).kept for record in run.rounds] != [one_round.was for one_round in decisions]


@pytest.mark.parametrize(
    "other", [{"tau": 0.9}, {"tau": 0.0, "w_max": 9}, {"tau": 0.3, "alpha": 0.0}, {"tau": 0.3, "d_max": 2}]
)
def test_a_round_is_what_a_run_with_that_setting_has_there(folder: str, tmp_path: Path, other: dict[str, Any]) -> None:
    """Both write the same text; where a round of theirs begins with one of ours, the counts are theirs."""
    plain = recorded(folder, tmp_path / "a.sv.jsonl", tau=1.01)  # stops nowhere, so a round begins at every token
    swept = tmp_path / "b.sv.jsonl"
    words = [str(plain), "--sweep", "specbound", "--target", folder, "--write", str(swept)]
    assert CliRunner().invoke(whatif, words).exit_code == 0
    (written,) = tmp_path.glob("b.sv.jsonl*")
    ours, theirs = read(written), read(recorded(folder, tmp_path / "c.sv.jsonl", **other))
    assert exits_asked(ours, Change(knobs=other))
    replay, real = ExitReplay(ours, other), {record.start.n: record for record in theirs.rounds}
    compared = 0
    for record in ours.rounds:
        if record.start.n in real:
            end = real[record.start.n].end
            assert end is not None
            assert replay.decide(record).kept == end.n_accepted
            compared += 1
    assert compared == len(theirs.rounds) < len(ours.rounds)


def test_a_sentence_and_a_run() -> None:
    run = read(RECORDINGS["code-specbound"])
    change = Change(knobs={"tau": "0.9"})
    replay = ExitReplay(run, change.knobs)
    lost = next(record for record in run.rounds if (a := replay.decide(record)).kept < a.was)
    assert "the text is the same" in exits_words(replay.decide(lost), change)
    decisions = decide_run(run, change)
    assert decisions.n_told == len(decisions.rounds) == len(run.rounds)
    assert decisions.verdict == "fewer"
    assert decisions.parts is None


def test_what_cannot_be_replayed_is_refused() -> None:
    run = read(RECORDINGS["code-specbound"])
    assert run.header is not None
    with pytest.raises(SpecvizError, match="knob tau"):
        ExitReplay(run, {"tau": 7})
    assert not exits_asked(run, Change(verifier="tokenwise", knobs={"tau": 0.9}))
    for query in run.queries:
        query.exit_table.clear()
    assert not exits_asked(run, Change(knobs={"tau": 0.9}))
    with pytest.raises(SpecvizError, match="adds what they say"):
        checked(run.header, Change(knobs={"tau": 0.9}))
