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
    """Without the widths of exact passes the tokens may agree, the bits do not."""
    right = module.load_pair

    def inexact(*given: Any) -> Any:
        pair = right(*given)
        pair.target.adapter.widths = None
        return pair

    monkeypatch.setattr(module, "load_pair", inexact)
    code, found = report(prompts, "--dtype", "float32")
    assert code == 1
    assert found["n_rows_differing"] > 0
    assert found["first"]
