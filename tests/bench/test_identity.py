"""`specviz bench --identity N`: what it counts, and that it fails when a bit differs."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from specviz.bench import identity as module
from specviz.cli.measure.bench import command

_FEW = ["--identity", "60", "--methods", "ngram,tree", "--max-new-tokens", "20", "--threads", "1", "--quiet"]


@pytest.fixture
def prompts(tmp_path: Path) -> list[str]:
    file = tmp_path / "prompts.jsonl"
    file.write_text(json.dumps({"prompt": "The cat sat on the mat. The cat sat on"}) + "\n")
    return ["--prompts", str(file)]


def report(prompts: list[str], *more: str) -> tuple[int, dict[str, Any]]:
    done = CliRunner().invoke(command, [*_FEW, *prompts, "--json", *more])
    return done.exit_code, json.loads(done.stdout.splitlines()[-1])


def test_nothing_differs_and_everything_is_counted(prompts: list[str]) -> None:
    code, found = report(prompts, "--dtype", "float32")
    assert code == 0
    assert found["exact"] == "bitwise"
    assert (found["n_differing"], found["n_rows_differing"]) == (0, 0)
    assert found["n_tokens"] >= 60
    assert found["n_rows"] == found["n_tokens"] == sum(each["n_tokens"] for each in found["methods"])
    assert [each["name"] for each in found["methods"]] == ["ngram", "tree"]
    assert all(each["n_rounds"] < each["n_tokens"] for each in found["methods"])


def test_rows_that_round_as_they_stand_together_are_caught(prompts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """By torch, and without the widths of exact passes, the tokens may agree, the bits do not."""
    right = module.load_pair

    def inexact(*given: Any) -> Any:
        pair = right(*given)
        pair.target.adapter.widths = pair.target.adapter.compiled = None
        return pair

    monkeypatch.setattr(module, "load_pair", inexact)
    code, found = report(prompts, "--dtype", "float32")
    assert code == 1
    assert found["n_rows_differing"] > 0
    assert found["first"]


def test_a_report_is_gone_on_with(prompts: list[str], tmp_path: Path) -> None:
    """Two halves with a file between them are the whole; a report of something else is refused."""
    kept = tmp_path / "kept.json"
    flags = ["--dtype", "float32", "--onto", str(kept)]
    once = report(prompts, "--dtype", "float32", "--identity", "100")[1]
    half = report(prompts, *flags, "--identity", "1")[1]
    assert json.loads(kept.read_text()) == half
    assert 0 < half["n_compared"] < once["n_compared"]
    code, whole = report(prompts, *flags, "--identity", "100")
    assert code == 0
    assert [whole[key] for key in ("methods", "n_compared", "n_rows")] == [
        once[key] for key in ("methods", "n_compared", "n_rows")
    ]
    assert len(whole["commits"]) == 1
    other = CliRunner().invoke(command, [*_FEW, *prompts, *flags, "--methods", "ngram"])
    assert "that report is of the methods ngram,tree, this one ngram" in str(other.exception)
    kept.write_text("[]")
    assert "no report of --identity" in str(CliRunner().invoke(command, [*_FEW, *prompts, *flags]).exception)
    alone = CliRunner().invoke(command, ["--onto", str(kept)])
    assert "--onto keeps a report of --identity" in str(alone.exception)
