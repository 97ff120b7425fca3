"""`specviz diagnose`: everything that can be given, alone and mixed."""

import io
import json
from pathlib import Path

import pytest

from specviz.check.findings import FAULTS
from specviz.cli import main
from support.judged import judged_run, many
from support.traces import write_trace

DEAD = (
    "INFO 07-24 04:00:31 metrics.py:316] Speculative metrics: Draft acceptance rate: 0.000, System efficiency: 0.059, "
    "Number of speculative tokens: 16, Number of accepted tokens: 0, Number of draft tokens tokens: 8800, Number of "
    "emitted tokens tokens: 550.\n"
)


def diagnosed(capsys: pytest.CaptureFixture[str], *things: object) -> dict[str, object]:
    assert main(["diagnose", *map(str, things), "--json"]) == 0
    answer: dict[str, object] = json.loads(capsys.readouterr().out)
    return answer


@pytest.fixture
def dead(tmp_path: Path) -> Path:
    return write_trace(tmp_path / "dead.sv.jsonl", judged_run(many(20, [0.9, 0.8, 0.85], [0])))


def test_a_recording_is_judged_with_the_rounds_that_show_it(dead: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(dead)]) == 0
    words = capsys.readouterr().out
    assert "20 rounds" in words
    assert "the draft is never kept" in words
    assert "leads to: fault 3" in words
    assert "seen in: r1, r2" in words


def test_a_log_and_a_recording_are_judged_together(
    dead: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "server.log"
    log.write_text(DEAD)
    answer = diagnosed(capsys, log, dead)
    assert len(answer["read"]) == 2  # type: ignore[arg-type]
    assert [finding["fault"] for finding in answer["findings"]][:2] == [3, 3]  # type: ignore[attr-defined]


def test_what_is_pasted_is_judged(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(DEAD.encode())))
    (finding,) = diagnosed(capsys, "-")["findings"]  # type: ignore[misc]
    assert finding["name"] == FAULTS[2]


def test_a_sound_run_has_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sound = write_trace(tmp_path / "a.sv.jsonl", judged_run(many(40, [0.9, 0.8, 0.85], [3, 3, 2, 3, 1, 3, 3, 0])))
    assert diagnosed(capsys, sound)["findings"] == []
    assert diagnosed(capsys, tmp_path)["findings"] == [], "a folder of recordings"


@pytest.mark.parametrize(
    ("things", "words"),
    [
        (['vllm serve m --speculative-config {"method":"eagle3"}'], "alone says nothing"),
        (["."], "neither a model nor recordings"),
        (["nowhere.log"], "nowhere.log"),
    ],
)
def test_what_cannot_be_judged_is_refused_in_a_line(
    things: list[str], words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["diagnose", *things]) == 2
    assert words in capsys.readouterr().err


def test_a_recording_that_comes_along_is_judged_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", "explain-tree"]) == 0
    assert "explain-tree: 32 rounds" in capsys.readouterr().out
    assert main(["diagnose", "explain-tre"]) == 2
    assert "did you mean 'explain-tree'?" in capsys.readouterr().err


def test_lines_of_another_engine_are_read_by_a_pattern(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "engine.log"
    log.write_text("[spec] steps=400 proposed=1600 accepted=0\n" * 2)
    (finding,) = diagnosed(capsys, log, "--line", "steps={rounds} proposed={drafted} accepted={kept}")["findings"]  # type: ignore[misc]
    assert finding["fault"] == 3
    assert main(["diagnose", str(log), "--line", "steps={round}"]) == 2
    assert "rounds" in capsys.readouterr().err
