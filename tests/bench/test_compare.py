"""`specviz compare`: paired arithmetic on numbers, and the command on a planted pair."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from specviz.cli import main
from specviz.comparison import measured as run
from specviz.comparison.measured import ALL, PromptKind, RunCounts, domains
from specviz.metrics import measure
from specviz.metrics.differences import RatioOfSums, difference_of
from specviz.sources.prompts import PromptSet, load_prompts
from specviz.trace import read_events
from specviz.verifiers import get_verifier
from support.estimates import ratio

Captured = pytest.CaptureFixture[str]
COUNTS = arrays.arrays(float, 12, elements=st.integers(1, 40))
SMALL = ("--max-new-tokens", "8", "--gamma", "3")


def call(capsys: Captured, *args: object) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(["compare", *map(str, args)])
    return code, *capsys.readouterr()


@given(COUNTS, COUNTS)
def test_a_ratio_has_the_delta_interval_widened_to_student_s(top: Any, bottom: Any) -> None:
    estimate, plain = RatioOfSums(top, bottom).estimate(), ratio(top, bottom, np.arange(12))
    assert plain is not None
    assert estimate.value == pytest.approx(plain.value)
    assert estimate.interval is not None
    half = (estimate.interval[1] - estimate.interval[0]) / 2
    spread = ((top - estimate.value * bottom) ** 2).sum() * 12 / 11
    assert half == pytest.approx(2.20099 * np.sqrt(spread) / bottom.sum(), rel=1e-4)


@given(COUNTS, COUNTS)
def test_what_moves_both_alike_cancels(top: Any, bottom: Any) -> None:
    counts = difference_of(RatioOfSums(top, bottom), RatioOfSums(top, bottom))
    assert counts.value == 0
    assert counts.interval == (0, 0)


def test_pairs_are_narrower_than_two_lots_of_prompts() -> None:
    """Prompts differ far more from one another than the two verifiers do on any of them."""
    calls = np.full(20, 10.0)
    base = np.linspace(10, 40, 20)
    gain = 1 + 0.1 * np.tile([0, 1], 10)
    paired = difference_of(RatioOfSums(base + gain, calls), RatioOfSums(base, calls))
    alone = RatioOfSums(base, calls).estimate()
    assert paired.interval is not None
    assert alone.interval is not None
    assert paired.interval[0] > 0
    assert paired.interval[1] - paired.interval[0] < (alone.interval[1] - alone.interval[0]) / 10


def _counted(verifier: str, prompt: int, emitted: int, calls: int) -> RunCounts:
    return RunCounts(verifier, prompt, emitted, calls, emitted - calls, 3 * calls, calls, ())


def test_domains_come_by_name_and_all_last() -> None:
    verifiers = [get_verifier(name) for name in ("tokenwise", "hsd_ref")]
    prompts = PromptSet("x", "0", 3, ("a", "b", "c"), ("sums", "code", "sums"))
    counts = [_counted(v.name, prompt, 6 + 2 * k, 4) for prompt in range(3) for k, v in enumerate(verifiers)]
    code, sums, whole = domains(verifiers, counts, prompts)
    assert (code.name, sums.name, whole.name) == ("code", "sums", ALL)
    assert [domain.n_prompts for domain in (code, sums, whole)] == [1, 2, 3]
    first, second = whole.lines
    assert (first.block_efficiency.value, second.block_efficiency.value) == (1.5, 2.0)
    assert first.difference is None
    assert second.difference is not None
    assert second.difference.value == 0.5
    assert (first.lossless, second.lossless) == (True, False)
    assert code.lines[0].block_efficiency.interval is None  # one prompt says nothing of others


def test_one_kind_of_prompt_is_shown_once() -> None:
    counts = [_counted("tokenwise", prompt, 6, 4) for prompt in range(2)]
    (only,) = domains([get_verifier("tokenwise")], counts, PromptSet("x", "0", 2, ("a", "b"), ("x", "x")))
    assert only.name == ALL


def test_prompts_know_their_kind(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text('{"turns": ["a"], "category": "maths"}\n{"prompt": "b", "domain": "code"}\n{"question": "c"}\n')
    assert load_prompts(file).domains == ("maths", "code", "mine")
    bundled = load_prompts(None)
    assert set(bundled.domains) == {"code", "prose", "sums"}
    assert len(bundled.domains) == len(bundled.texts)


@pytest.fixture(scope="module")
def recordings(pair: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Options for two prompts of the planted pair."""
    prompts = tmp_path_factory.mktemp("prompts") / "two.jsonl"
    prompts.write_text('{"prompt": "abc", "domain": "x"}\n{"prompt": "ba", "domain": "y"}\n')
    return "--target", pair[0], "--draft", pair[1], "--prompts", str(prompts)


def test_blockwise_and_hsd_write_the_same(recordings: tuple[str, ...], capsys: Captured) -> None:
    """Capped HSD is block verification, through the whole command: same keys, same text, same counts."""
    options = ("--verifiers", "tokenwise,blockwise,hsd,hsd_ref", "--seeds", "2", "--repetition-penalty", "1.5")
    code, out, err = call(capsys, *SMALL, *recordings, *options, "--temperature", "0.7")
    assert (code, err) == (0, "")
    *card, last = out.splitlines()
    report = json.loads(last)
    assert [domain["name"] for domain in report["domains"]] == ["x", "y", "all"]
    whole = report["domains"][-1]
    tokenwise, blockwise, hsd, control = whole["lines"]
    names = ("n_rounds", "n_tokens", "block_efficiency", "mean_accepted", "difference")
    assert {name: blockwise[name] for name in names} == {name: hsd[name] for name in names}
    assert tokenwise["n_runs"] == 4
    assert tokenwise["n_tokens"] == 4 * 8
    assert not control["lossless"]
    same = {drafts["rule"]: drafts for drafts in whole["same_drafts"]}
    estimated = {rule: drafts["estimated_accepted"]["value"] for rule, drafts in same.items()}
    assert estimated["tokenwise"] <= estimated["hsd"] <= estimated["hsd_naive"]
    expected = {rule: drafts["expected_accepted"]["value"] for rule, drafts in same.items()}
    assert expected["tokenwise"] == pytest.approx(estimated["tokenwise"], abs=1e-4)
    gain = expected["hsd"] - expected["tokenwise"]
    assert same["hsd"]["difference"]["value"] == pytest.approx(gain)
    text = "\n".join(card)
    assert "hsd_ref ✗" in text
    assert "NOT LOSSLESS" in " ".join(text.split())
    assert f"{blockwise['block_efficiency']['value']:.3f}" in text
    assert "--prompts two.jsonl" in report["command"]
    assert str(Path(recordings[1]).parent) not in out


def test_several_candidates(recordings: tuple[str, ...], capsys: Captured) -> None:
    """Drafts that are no single chain: measured, with nothing to say of the same drafts."""
    options = ("--verifiers", "multi_tokenwise,multi_hsd", "--shape", "chains", "--candidates", "2", "--json")
    code, out, _ = call(capsys, *SMALL, *recordings, *options)
    assert code == 0
    whole = msgspec.convert(json.loads(out)["domains"][-1], PromptKind)
    assert [line.verifier for line in whole.lines] == ["multi_tokenwise", "multi_hsd"]
    assert whole.same_drafts == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--verifiers", ""), "--verifiers names none"),
        (("--verifiers", "hsd,hsd"), "--verifiers names 'hsd' twice"),
        (("--verifiers", "tokenwise,blockwize"), "blockwize"),
        (("--verifiers", "blockwise", "--shape", "tree"), "does not fit"),
        (("--gamma", "99"), "gamma"),
        (("--prompts", "no-such.jsonl"), "cannot read the prompts"),
        (("--method", "drafft"), "drafft"),
        (("--minutes", "nan"), "--minutes nan is no time"),
        (("--minutes", "inf"), "--minutes inf is no time"),
        (
            ("--seed", str(2**53 - 2), "--seeds", "3"),
            f"--seeds 3 goes up to seed {2**53}; the last there is is {2**53 - 1}",
        ),
        (("--stop", ""), "knob stop: [''] is no text"),
        (("--verifiers", "HSD"), "did you mean 'hsd'?"),
    ],
)
def test_bad_input_is_one_line(options: tuple[str, ...], says: str, capsys: Captured) -> None:
    code, out, err = call(capsys, *options)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert says in err


def test_settings_are_compared_each_with_each(recordings: tuple[str, ...], capsys: Captured, tmp_path: Path) -> None:
    folder = tmp_path / "grid"
    grid = ("--vary", "gamma=1,3", "--vary", "temperature=0,0.9")
    code, out, _ = call(capsys, *recordings, "--max-new-tokens", "6", *grid, "--json", "--traces", str(folder))
    report = json.loads(out)
    assert code == 0
    settings = [f"gamma {gamma}, temperature {t}" for gamma in (1, 3) for t in (0.0, 0.9)]
    lines = report["domains"][-1]["lines"]
    assert [line["verifier"] for line in lines] == settings
    assert report["varied"] == {"gamma": [1, 3], "temperature": [0.0, 0.9]}
    assert all(line["unrecorded_tokens_per_second"]["value"] > 0 for line in lines)
    traces = sorted(path.name for path in folder.iterdir())
    assert len(traces) == 8
    assert traces[0] == "p0001-seed-0-gamma-1-temperature-0.0.sv.jsonl.gz"
    written = [measure(read_events(folder / name)).n_emitted for name in traces if "gamma-3-temperature-0.9" in name]
    assert sum(written) == lines[-1]["n_tokens"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--vary", "seed=1,2"), "--vary seed: all settings have the same; give --seeds N"),
        (("--vary", "gamma"), "no knob of draft with values; write --vary gamma=2,4,8"),
        (("--vary", "gama=2"), "did you mean 'gamma'?"),
        (("--vary", "gamma=9..2"), "the range is empty"),
        (("--vary", "gamma=1", "--vary", "gamma=2"), "--vary names 'gamma' twice"),
        (("--vary", "shape=chain,tree", "--verifiers", "blockwise"), "blockwise"),
        (("--traces", "/proc/nowhere"), "--traces /proc/nowhere: No such file or directory; name a folder"),
        (("--onto", "grid"), "--onto: a comparison is made in one go now; --traces FOLDER keeps"),
        (("--fail-if", "text differs"), "--fail-if is of recorded runs: name two or more"),
    ],
)
def test_settings_that_are_none(options: tuple[str, ...], says: str, capsys: Captured) -> None:
    code, out, err = call(capsys, *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err


def test_an_interrupt_reports_the_prompts_that_are_done(
    recordings: tuple[str, ...], capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Minutes of decoding are not thrown away; without one whole prompt there is nothing to report."""
    one_run = run._run

    def until(last: int) -> Callable[..., Any]:
        def run_or_stop(question: Any, verifier: Any, pair: Any, what: tuple[int, str, int]) -> Any:
            if what[0] > last:
                raise KeyboardInterrupt
            return one_run(question, verifier, pair, what)

        return run_or_stop

    monkeypatch.setattr(run, "_run", until(0))
    code, out, _ = call(capsys, *SMALL, *recordings)
    *card, last = out.splitlines()
    report = json.loads(last)
    assert (code, report["interrupted"], report["cut"], report["prompts"]["n_used"]) == (130, True, True, 1)
    assert "1 of 2 (interrupted)" in " ".join(card)
    monkeypatch.setattr(run, "_run", until(-1))
    assert call(capsys, *SMALL, *recordings)[:2] == (130, "")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("[" * 100_000, "line 1 is not JSON"),
        (r'{"prompt": "a\ud800b"}', "line 1 holds half of a character"),
        (r'{"prompt": "a", "domain": "\ud800"}', "line 1 holds half of a character"),
    ],
    ids=["deep", "surrogate", "surrogate-kind"],
)
def test_hostile_prompts_are_one_line(line: str, says: str, tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text(line)
    code, out, err = call(capsys, "--prompts", file)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err


def test_kinds_without_a_name_and_one_called_all(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text('{"prompt": "a", "domain": " ", "task": 3}\n{"prompt": "b", "domain": "all"}\n')
    prompts = load_prompts(file)
    assert prompts.domains == ("mine", "all")
    counts = [_counted("tokenwise", prompt, 6, 4) for prompt in range(2)]
    assert [d.name for d in domains([get_verifier("tokenwise")], counts, prompts)] == ["all (a kind)", "mine", ALL]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ((), ["tokenwise", "blockwise", "hsd", "walk"]),
        (("--draft-mode", "shared"), ["walk"]),
        (("--shape", "chains"), ["tokenwise", "multi_tokenwise", "multi_hsd", "multi_traversal", "walk"]),
        (("--shape", "tree"), ["tokenwise", "multi_tokenwise", "multi_hsd", "multi_traversal", "walk"]),
    ],
    ids=str,
)
def test_without_a_list_those_that_fit(
    options: tuple[str, ...], names: list[str], recordings: tuple[str, ...], capsys: Captured
) -> None:
    """Nobody should be told that a verifier they never named does not fit."""
    code, out, _ = call(capsys, "--max-new-tokens", "8", *recordings, *options, "--json")
    assert code == 0
    report = json.loads(out)
    counts = [line["verifier"] for line in report["domains"][-1]["lines"]]
    assert (counts[0], counts[-1], sorted(counts)) == (names[0], names[-1], sorted(names))
    assert f"--verifiers {','.join(counts)} " in report["command"]
    assert report["knobs"]["shape"] == (options[1] if "--shape" in options else "chain")  # defaults are said too
    assert ("gamma" in report["knobs"], "candidates" in report["knobs"]) == ("tree" not in options, "chains" in options)


def test_a_prompt_without_room_is_left_out_and_counted(pair: tuple[str, str], tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "long.jsonl"
    file.write_text(json.dumps({"prompt": "ab" * 4000}) + "\n" + json.dumps({"prompt": "ab"}) + "\n")
    models = ("--target", pair[0], "--draft", pair[1])
    code, out, _ = call(capsys, *SMALL, *models, "--prompts", file, "--verifiers", "walk", "--json")
    prompts = json.loads(out)["prompts"]
    assert code == 0
    assert (prompts["n_used"], prompts["n_too_long"]) == (1, 1)
    file.write_text(json.dumps({"prompt": "ab" * 4000}) + "\n")
    code, _, err = call(capsys, *SMALL, *models, "--prompts", file)
    assert code == 2
    assert "with 8 new ones the context of" in err
