"""`specviz compare RUN --gamma 2`: a recorded prompt decoded again with one thing set otherwise."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from specviz.cli import main

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def recorded(pair: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """A trace of the planted pair, and the options that name the pair again."""
    path = tmp_path_factory.mktemp("again") / "run.sv.jsonl"
    models = ("--target", pair[0], "--draft", pair[1])
    sampling = ("--temperature", "0.9", "--seed", "3", "--gamma", "4", "--verifier", "walk", "--max-new-tokens", "24")
    assert main(["run", "--prompt", "abc", *models, *sampling, "--record", str(path), "--quiet"]) == 0
    return f"{path}.gz", *models


def _found(capsys: Captured, *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["compare", *words, "--json"]) == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return report


def test_under_walk_another_gamma_writes_the_same_text(recorded: tuple[str, ...], capsys: Captured) -> None:
    report = _found(capsys, *recorded, "--gamma", "2")
    assert not report["parted"]
    assert report["n_same"] == report["runs"][0]["n_tokens"] == report["runs"][1]["n_tokens"]
    assert "promises the tokens of plain decoding" in report["words"]
    assert {name: values for name, values in report["settings"].items() if "—" not in values} == {"gamma": ["4", "2"]}


def test_every_verifier_that_is_named_decodes_it(recorded: tuple[str, ...], capsys: Captured) -> None:
    report = _found(capsys, *recorded, "--verifiers", "walk,tokenwise")
    assert [run["name"] for run in report["runs"]] == ["run", "again, walk", "again, tokenwise"]
    assert report["runs"][1]["parts_at"] is None
    assert report["settings"]["verifier"] == ["walk", "walk", "tokenwise"]


def test_another_method_writes_the_same_text_too(recorded: tuple[str, ...], capsys: Captured) -> None:
    report = _found(capsys, *recorded, "--method", "ngram")
    assert not report["parted"]
    assert report["settings"]["method"] == ["draft", "ngram"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--gamma", "99"), "gamma"),
        (("--verifiers", "nope"), "nope"),
        (("--method", "nope"), "nope"),
        (("--method", "ngram", "--epsilon", ".1"), "--epsilon"),
        (("--gamma", "2", "--seeds", "3"), "--seeds says nothing of recorded runs"),
    ],
)
def test_what_cannot_be_set_is_told(
    words: tuple[str, ...], message: str, recorded: tuple[str, ...], capsys: Captured
) -> None:
    capsys.readouterr()
    assert main(["compare", *recorded, *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert len(err.splitlines()) == 1


def test_the_draft_model_is_that_of_the_recording(pair: tuple[str, str], tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "run.sv.jsonl"
    words = ("--prompt", "abc", "--max-new-tokens", "6", "--draft", "self:int4", "--record", str(path), "--quiet")
    assert main(["run", *words, "--target", pair[0]]) == 0
    report = _found(capsys, f"{path}.gz", "--gamma", "2", "--target", pair[0])
    assert "draft" not in report["settings"]
    assert report["settings"]["gamma"][1] == "2"


def test_a_draft_model_that_is_no_more_is_refused_and_no_other_taken(
    pair: tuple[str, str], tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recording of the version before, with the target in eight bits."""
    path = tmp_path / "run.sv.jsonl"
    words = ("--prompt", "abc", "--max-new-tokens", "6", "--draft", "self:int4", "--record", str(path), "--quiet")
    assert main(["run", *words, "--target", pair[0]]) == 0
    text = gzip.decompress((tmp_path / "run.sv.jsonl.gz").read_bytes()).decode()
    assert ':int4"' in text
    path.write_text(text.replace("int4", "int8"), "utf-8")
    capsys.readouterr()
    assert main(["compare", str(path), "--gamma", "2", "--target", pair[0]]) == 2
    assert capsys.readouterr().err == (
        "specviz: --draft self:int8: no such form of the target; did you mean 'self:int4'?\n"
    )


def test_another_target_is_refused_by_name(recorded: tuple[str, ...], pair: tuple[str, str], capsys: Captured) -> None:
    capsys.readouterr()
    assert main(["compare", recorded[0], "--gamma", "2", "--target", pair[1], "--draft", pair[1]]) == 2
    assert "name its target with --target" in capsys.readouterr().err


def test_a_redacted_run_has_no_prompt_to_decode(pair: tuple[str, str], tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "run.sv.jsonl"
    models = ("--target", pair[0], "--draft", pair[1])
    words = ("--prompt", "abc", "--max-new-tokens", "6", "--record", str(path), "--redact", "--quiet")
    assert main(["run", *words, *models]) == 0
    capsys.readouterr()
    assert main(["compare", f"{path}.gz", "--gamma", "2", *models]) == 2
    assert "does not hold its prompt" in capsys.readouterr().err
