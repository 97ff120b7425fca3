"""`specviz whatif` as it is typed: a round, a run, JSON, and what it refuses in one line."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from specviz.cli import main
from specviz.events import ExitTable
from specviz.runlog.fold import Run
from specviz.trace import Trace, read_events
from support.recordings import RECORDINGS
from support.traces import write_trace

TRACE = str(RECORDINGS["prose-hsd"])


def typed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["whatif", *words])
    out, err = capsys.readouterr()
    return code, out, err


def as_json(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    code, out, err = typed(capsys, *words, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_a_round_in_words_and_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = typed(capsys, TRACE, "--at", "r1", "--verifier", "tokenwise")
    assert code == 0
    first = out.splitlines()[0]
    report = as_json(capsys, TRACE, "--at", "r1", "--verifier", "tokenwise")
    assert first == f"r1: {report['sentence']}"
    assert report["kept"] == len(report["now"]["accepted"]) != len(report["was"]["accepted"])
    assert report["parting"]["pos"] == report["n"] + report["kept"]
    marks = report["was"]["marks"].items()
    lost = [n for n, mark in marks if (mark, report["now"]["marks"][n]) == ("accepted", "rejected")]
    assert len(lost) == 1
    assert f"{lost[0]} " in first


def test_nothing_changed_may_be_asked_of_a_round(capsys: pytest.CaptureFixture[str]) -> None:
    report = as_json(capsys, TRACE, "--at", "q0r2")
    assert report["now"]["accepted"] == report["was"]["accepted"]
    assert report["parting"]["pos"] is None


def test_a_run_adds_up_its_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    report = as_json(capsys, TRACE, "--verifier", "tokenwise")
    differences = [g["kept"] - g["was"] for g in report["rounds"]]
    assert report["difference"]["value"] == pytest.approx(sum(differences) / len(differences))
    assert report["n_told"] == report["n_rounds"] == len(report["rounds"]) > 10
    code, out, _ = typed(capsys, TRACE, "--verifier", "tokenwise")
    assert code == 0
    assert report["sentence"] in out
    assert "decision only" in out


def test_a_uniform_that_is_set_decides(capsys: pytest.CaptureFixture[str]) -> None:
    with Trace(RECORDINGS["prose-draft"]) as trace:
        run = Run().extend(trace.read())
    record = next(r for r in run.rounds if any(v.status == "rejected" for v in r.verdicts.values()))
    lost = next(v for v in record.verdicts.values() if v.status == "rejected")
    path = str(RECORDINGS["prose-draft"])
    passed = as_json(capsys, path, "--at", f"r{record.r}", "--u", f"n{lost.node}=0")
    assert lost.node in passed["now"]["accepted"]
    failed = as_json(capsys, path, "--at", f"r{record.r}", "--u", f"n{lost.node}=0.9999999")
    assert lost.node not in failed["now"]["accepted"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "nothing is changed"),
        (("--verifier", "tokenwis"), "no verifier 'tokenwis'; did you mean 'tokenwise'?"),
        (("--knob", "gamma"), "--knob gamma: write it as --knob gamma=2"),
        (("--knob", "gamma=x"), "knob gamma: 'x' is not a whole number in 0..64"),
        (("--knob", "top_k=3"), "knob top_k changes what is drafted"),
        (("--at", "37", "--seed", "1"), "--at 37: write a round as r37"),
        (("--at", "r999", "--seed", "1"), "query 0 has no round 999; it has r1..r21"),
        (("--at", "q5r1", "--seed", "1"), "no query 5"),
        (("--at", "r1", "--u", "n999=0.2"), "n999 was not judged in round 1; judged there: n0"),
        (("--at", "r1", "--u", "n0=1"), "a uniform lies in [0, 1)"),
        (("--at", "r1", "--u", "n0=nan"), "a uniform lies in [0, 1)"),
        (("--at", "r1", "--u", "0"), "write it as --u n14=0.2"),
        (("--u", "n0=0.5"), "name it with --at"),
    ],
)
def test_what_cannot_be_asked(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str) -> None:
    code, out, err = typed(capsys, TRACE, *words)
    assert (code, out) == (2, "")
    assert err.startswith("specviz: ")
    assert err.count("\n") == 1
    assert message in err


def test_a_trace_that_is_none(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    path = tmp_path / "x.sv.jsonl"
    path.write_text("no trace\n")
    code, _, err = typed(capsys, str(path), "--verifier", "walk")
    assert code == 2
    assert "Traceback" not in err


def test_exit_settings_of_a_trace_without_what_the_heads_say_are_refused_with_the_command_that_helps(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is told is typed as it stands, and then the question is answered."""
    events = [e for e in read_events(RECORDINGS["code-specbound"]) if not isinstance(e, ExitTable)]
    fresh = write_trace(tmp_path / "fresh.sv.jsonl", events)
    monkeypatch.chdir(tmp_path)
    code, out, err = typed(capsys, str(fresh), "--knob", "tau=0.9")
    assert (code, out, err.count("\n")) == (2, "", 1)
    match = re.search(r"run 'specviz ([^']+)', then ask whatif of (\S+)", err)
    assert match
    pytest.importorskip("torch")
    assert main(shlex.split(match[1])) == 0
    capsys.readouterr()
    assert as_json(capsys, match[2], "--knob", "tau=0.9")["n_told"] > 10
    code, _, err = typed(capsys, match[2], "--knob", "tau=0.9", "--seed", "3")
    assert (code, "nothing else changed" in err) == (2, True)
