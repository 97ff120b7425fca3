"""`specviz compare RUN RUN ..`: recorded runs side by side; nothing is decoded."""

import json

import pytest

from cli.conftest import Cli
from support.recordings import RECORDINGS

TREE, PLAIN, OTHER = (RECORDINGS[name] for name in ("code-tree", "code-ar", "sums-draft"))


def test_what_is_the_same_is_said_and_what_is_not_is_counted(cli: Cli) -> None:
    done = cli("compare", TREE, PLAIN)
    assert (done.code, done.err) == (0, "")
    assert "A  code-tree" in done.out
    assert "The same text as far as all go, 40 tokens" in done.out
    assert "tokens per target call" in done.out
    assert "set otherwise" in done.out


def test_a_parting_is_shown_with_what_stands_around_it(cli: Cli) -> None:
    done = cli("compare", RECORDINGS["code-hsd"], RECORDINGS["code-draft"])
    assert "around the parting" in done.out
    assert "then A writes" in " ".join(done.out.split())


def test_other_prompts_have_numbers_alone(cli: Cli) -> None:
    done = cli("compare", TREE, OTHER)
    assert "different prompts" in done.out
    assert "around the parting" not in done.out


def test_json_is_one_object(cli: Cli) -> None:
    report = json.loads(cli("compare", TREE, PLAIN, OTHER, "--json").out)
    assert [run["letter"] for run in report["runs"]] == ["A", "B", "C"]
    assert report["metrics"]["block_efficiency"][1]["value"]["value"] == 1.0
    assert len(report["settings"]["method"]) == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([TREE], "name 2 to 6"),
        ([TREE] * 7, "name 2 to 6"),
        ([TREE, "nope"], "no trace nope"),
        ([TREE, PLAIN, "--gamma", "3"], "--gamma says nothing of recorded runs"),
        ([TREE, PLAIN, "--verifiers", "hsd"], "--verifiers says nothing of recorded runs"),
        ([TREE, PLAIN, "--prompt-number", "2"], "no prompt 2 of those the runs share; there are 1"),
    ],
)
def test_what_cannot_be_compared_is_told_in_one_line(words: list[object], message: str, cli: Cli) -> None:
    assert message in cli("compare", *words).line
