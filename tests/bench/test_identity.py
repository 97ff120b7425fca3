"""`specviz lab bench --identity N`: what it counts, and that it fails when a bit differs."""

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from specviz.engine.model.pair import load_pair
from specviz.errors import ModelError
from specviz.knobs import whole
from specviz_lab.bench import identity as module
from specviz_lab.bench.identity import _value
from specviz_lab.bench.settings import OURS, BenchSettings, contestants
from specviz_lab.commands import shared
from specviz_lab.commands.bench import command

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
    code, summary = report(prompts, "--dtype", "float32")
    assert code == 0
    assert summary["exact"] == "bitwise"
    assert (summary["n_differing"], summary["n_rows_differing"]) == (0, 0)
    assert summary["n_tokens"] >= 60
    assert summary["n_rows"] == summary["n_tokens"] == sum(method["n_tokens"] for method in summary["methods"])
    assert [method["name"] for method in summary["methods"]] == ["ngram", "tree"]
    assert all(method["n_rounds"] < method["n_tokens"] for method in summary["methods"])


def test_rows_that_round_as_they_stand_together_are_caught(prompts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """By torch, and without the widths of exact passes, the tokens may agree, the bits do not."""
    right = load_pair

    def inexact(*knobs: Any) -> Any:
        pair = right(*knobs)
        adapter = pair.target.adapter
        return replace(pair, target=replace(pair.target, adapter=adapter.with_backend(adapter.backend.plain)))

    monkeypatch.setattr(module, "load_pair", inexact)
    code, summary = report(prompts, "--dtype", "float32")
    assert code == 1
    assert summary["n_rows_differing"] > 0
    assert summary["first"]


def test_a_method_that_cannot_be_run_ends_no_other(prompts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left out with what it says; where none is left that is the error."""
    make = module.prepare.make_drafter

    def refusing(method: Any, *knobs: Any) -> Any:
        if method.name in refused:
            raise ModelError("layers of type X cannot be run in part")
        return make(method, *knobs)

    monkeypatch.setattr(module.prepare, "make_drafter", refusing)
    refused = {"ngram"}
    code, summary = report(prompts)
    assert code == 0
    assert summary["left_out"] == ["ngram: layers of type X cannot be run in part"]
    assert {method["name"]: method["n_tokens"] > 0 for method in summary["methods"]} == {"ngram": False, "tree": True}
    refused |= {"draft"}
    none = CliRunner().invoke(command, [*_FEW, *prompts])
    assert "--identity: no method could be run: layers of type X" in str(none.exception)


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


def test_a_report_that_cannot_be_kept_is_told_before_anything_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "load_pair", lambda *knobs: pytest.fail("models were loaded"))
    nowhere = tmp_path / "none" / "kept.json"
    done = CliRunner().invoke(command, [*_FEW, "--onto", str(nowhere)])
    assert str(done.exception).startswith(f"--onto {nowhere}: there is no folder")
    monkeypatch.setattr(shared.os, "access", lambda path, how: False)
    done = CliRunner().invoke(command, [*_FEW, "--onto", str(tmp_path / "kept.json")])
    assert "it may not be written" in str(done.exception)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_method_writes_the_bits_of_plain_decoding(dtype: str) -> None:
    """All that the embedded pair has parts for, at every temperature, by either lanes. No method is left out unseen."""
    settings = BenchSettings(contestants(",".join(OURS)), max_new_tokens=24, threads=1, dtype=dtype)
    pair = load_pair(None, None, True, None, dtype, 1)
    kinds, left_out = module._able(settings, pair)
    assert [outcome.partition(":")[0] for outcome in left_out] == ["medusa"]  # tests/engine/test_exact.py has it
    assert {*kinds} == {*OURS} - {"ar", "medusa"}
    soak = module._Soak(pair, settings, kinds)
    prompt = pair.target.tokenizer("def add(a, b):\n    return a + b\n\ndef sub(a, b):\n    return")["input_ids"]
    for seed, temperature in enumerate(module.TEMPERATURES):
        differences = [*soak.compare(prompt, temperature, seed)]
        assert differences == [f"{(seed + 1) * len(kinds) * 24:,} tokens compared, 0 differing"]
    for outcome in soak.found.values():
        assert (outcome.n_tokens, outcome.n_rows) == (72, 72), outcome
        assert (outcome.n_differing, outcome.n_rows_differing) == (0, 0), outcome


def test_what_holds_for_a_whole_run_is_drawn_too() -> None:
    """Sizes that are asked for with the query, ways to draw drafts, lanes; and what goes with nothing is not."""
    settings = BenchSettings(contestants("lookahead,suffix,pearl"), max_new_tokens=4, threads=1, dtype="float32")
    pair = load_pair(None, None, True, None, "float32", 1)
    soak, shared = module._Soak(pair, settings, ["lookahead"]), {"temperature": 0.8, "seed": 1}
    runs = [
        (kind, soak._session(kind, [5, 6, 7], shared, Random(seed)))
        for kind in ("lookahead", "suffix", "pearl")
        for seed in range(30)
    ]

    def values(kind: str, knob: str) -> set[Any]:
        return {session.knobs[knob] for name, session in runs if name == kind}

    assert min(values("lookahead", "window")) == 1
    assert max(values("lookahead", "guesses")) > 30
    assert values("lookahead", "text_ngrams") == {True, False}
    assert values("suffix", "draft_mode") == {"argmax", "sampled", "shared"}
    assert values("pearl", "draft_mode") >= {"sampled", "shared"}
    assert {session.parts.lanes.name for name, session in runs if name == "pearl"} == {"serial", "threads"}
    assert {session.parts.lanes.name for name, session in runs if name != "pearl"} == {"serial"}
    plain = soak._session("ar", [5, 6, 7], shared)
    assert {session.knobs["temperature"] for _, session in runs} == {plain.knobs["temperature"]} == {0.8}


def test_a_knob_that_was_given_stays() -> None:
    """Whether it holds for a round or for a query."""
    knobs = {"lookahead": {"window": 3}, "ngram": {"gamma": 2}}
    settings = BenchSettings(contestants(",".join(knobs)), max_new_tokens=12, threads=1, dtype="float32", knobs=knobs)
    pair = load_pair(None, None, False, None, "float32", 1)
    soak, shared = module._Soak(pair, settings, [*knobs]), {"temperature": 0.0, "seed": 1}
    assert {soak._session("lookahead", [5, 6], shared, Random(k)).knobs["window"] for k in range(9)} == {3}
    for held, gammas in ((knobs["ngram"], {2}), ({}, None)):
        session = soak._session("ngram", [5, 6] * 9, shared, Random(1))
        summary = {session.knobs["gamma"] for _ in module._steered(session, Random(1), held)}
        assert summary == gammas if gammas else len(summary) > 2


def test_sizes_are_drawn_from_the_whole_of_their_range() -> None:
    """The ends too, and small ones more often than large ones."""
    drawn = [_value(whole("gamma", -1, 256, 4, "tokens"), Random(seed)) for seed in range(4000)]
    assert (min(drawn), max(drawn)) == (-1, 256)
    assert 0.4 < sum(size < 16 for size in drawn) / len(drawn) < 0.6
