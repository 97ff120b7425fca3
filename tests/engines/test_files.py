"""Files of other programs: what they say is what the trace says, and what they do not say is asked for."""

import json
from pathlib import Path
from typing import Any

import pytest

from specviz.cli import main
from specviz.cli.look.stats import measure_file
from specviz.events import Node, RoundEnd, Verify
from specviz.runlog.fold import fold
from specviz.trace import read_events

Captured = pytest.CaptureFixture[str]


def _lines(path: Path, values: list[Any]) -> str:
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return str(path)


def _counts(path: Path) -> list[tuple[int, int, int]]:
    run = fold(read_events(path))
    return [(e.n_drafted, e.n_accepted, e.n_emitted) for record in run.rounds for e in record.every(RoundEnd)]


def test_answers_of_vllm_by_step_and_by_totals(tmp_path: Path) -> None:
    record = {
        "engine": "vllm",
        "num_spec_steps": 3,
        "num_draft_tokens": 12,
        "num_accepted_draft_tokens": 5,
        "acceptance_histogram": {"0": 1, "1": 1, "4": 1},
        "completion_tokens": 9,
    }
    steps = {"per_step_accepted": [4, 0, 1], "per_step_drafted": [4, 4, 4]}
    lines = [{"metrics": {**record, **more}} for more in (steps, {})]
    file = _lines(tmp_path / "profile_export.jsonl", [*lines, {"metadata": {}}])
    assert main(["import", file, "-o", str(tmp_path / "a"), "--rule", "one-hot"]) == 0
    assert _counts(tmp_path / "a") == [(0, 0, 1), (4, 4, 5), (4, 0, 1), (4, 1, 2)]
    card = measure_file(tmp_path / "a").judgement.card
    assert card is not None
    assert not card.violations
    assert card.title == "vLLM"


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ({"traceEvents": []}, "a Chrome trace"),
        ({"metadata": {}, "spec_decode_acceptance": {}}, "an export of AIPerf"),
    ],
)
def test_a_file_that_is_not_read_any_more_says_what_to_do_in_a_line(
    tmp_path: Path, capsys: Captured, content: dict[str, Any], what: str
) -> None:
    assert main(["import", _lines(tmp_path / "file.json", [content]), "-o", str(tmp_path / "a")]) == 2
    error = capsys.readouterr().err
    assert f"is {what}, which is not read any more: " in error
    assert error.count("\n") == 1
    assert not list(tmp_path.glob("a.*"))


def test_the_report_of_a_benchmark_has_no_rounds_and_says_what_it_counted(tmp_path: Path, capsys: Captured) -> None:
    report = {
        "completed": 8,
        "total_output_tokens": 90,
        "spec_decode_num_drafts": 40,
        "spec_decode_draft_tokens": 80,
        "spec_decode_accepted_tokens": 50,
        "spec_decode_acceptance_length": 2.25,
        "spec_decode_per_position_acceptance_rates": [0.75, 0.5],
    }
    (tmp_path / "bench.json").write_text(json.dumps(report, indent=2))
    assert main(["import", str(tmp_path / "bench.json"), "-o", str(tmp_path / "a")]) == 0
    assert main(["stats", str(tmp_path / "a")]) == 0
    assert "40 rounds · 80 drafted · 50 accepted" in capsys.readouterr().out


def _draft(texts: list[str]) -> str:
    """Two drafted tokens of llama-speculative; the text of the run stands before the first line of the log."""
    rows = [
        f" - draft candidate   {k} for seq   0, pos   {i}: {10 * i + k + 3:6d} ({chance:8.3f}) '{text}'\n"
        for i, text in enumerate(texts)
        for k, chance in enumerate((0.8, 0.15))
    ]
    return "some text" + "".join(rows)


def _closed(token: int) -> str:
    return f"the sampled target token ({token}, ' x') did not match, or we ran out of drafted tokens\n"


def _test(i: int, token: int, r: float, p: float, text: str, verdict: str) -> str:
    return (
        f"verifying sequence #0 at pos #{i} from 1 active sequence(s)\nr = {r:f}, p_dft = 0.800000, p_tgt = {p:f}\n"
        f"draft token {i} of sequence 0 ({token}, '{text}') {verdict}\n"
    )


_LOADED = "llama_model_loader: loaded meta data with 30 key-value pairs\n" + "load_tensors: more of it\n" * 500
_ENDS = "\nencoded    7 tokens in    0.1 seconds, speed: 70 t/s\nn_drafted = 6\nn_accept  = 2\n"


def test_tests_of_llama_speculative_are_decided_again(tmp_path: Path) -> None:
    rounds = [
        _closed(5),
        _draft(["\na\n", " b"]) + _test(0, 3, 0.5, 0.6, "\na\n", "accepted") + _test(1, 13, 0.9, 0.4, " b", "rejected"),
        _closed(6),
        _draft([" c", " d"]) + _test(0, 3, 0.75, 0.6, " c", "rejected") + _closed(7),  # u = p/q: rounding decides
        _draft(["', '", " f"]) + _test(0, 3, 0.1, 0.9, "', '", "accepted") + _test(1, 13, 0.7, 0.2, " f", "rejected"),
        _closed(8),
    ]
    (tmp_path / "log").write_text(_LOADED + "".join(rounds) + _ENDS)
    assert main(["import", str(tmp_path / "log"), "-o", str(tmp_path / "a")]) == 0
    assert _counts(tmp_path / "a") == [(0, 0, 1), (2, 1, 2), (2, 0, 1), (2, 1, 2)]
    events = list(read_events(tmp_path / "a"))
    tests = [e for e in events if isinstance(e, Verify) and e.order is not None]
    assert [(e.status, e.u) for e in tests] == [
        ("accepted", 0.5),
        ("rejected", 0.9),
        ("rejected", None),
        ("accepted", 0.1),
        ("rejected", 0.7),
    ]
    assert all(e.kind == "test" and e.logp is not None and e.thr is not None for e in tests)
    assert [e.text for e in events if isinstance(e, Node)][:2] == ["\na\n", " b"]
    card = measure_file(tmp_path / "a").judgement.card
    assert card is not None
    assert not card.violations
    assert card.tone == "broken"


def test_llama_speculative_at_temperature_0_and_what_is_not_read(tmp_path: Path, capsys: Captured) -> None:
    match = "the sampled target token matches the 0th drafted token of sequence 0 (3, ' a') - accepted\n"
    log = _closed(5) + _draft([" a", " b"]) + match + _closed(6) + _draft([" c"])
    (tmp_path / "log").write_text(log)
    assert main(["import", str(tmp_path / "log"), "-o", str(tmp_path / "a")]) == 0
    assert _counts(tmp_path / "a") == [(0, 0, 1), (2, 1, 2)]
    card = measure_file(tmp_path / "a").judgement.card
    assert card is not None
    assert card.tone == "kept"
    capsys.readouterr()
    for wrong, words in (("splitting seq   0 into   1\n", "-np 1"), (_test(4, 3, 0.5, 0.6, "", "accepted"), "never")):
        (tmp_path / "log").write_text(log + wrong)
        assert main(["import", str(tmp_path / "log"), "-o", str(tmp_path / "b")]) == 2
        error = capsys.readouterr().err
        assert words in error
        assert error.count("\n") == 1


@pytest.mark.parametrize("content", ["hello\nthere\n", "", '{"a": 1}\n', "<html></html>", "\x00\x01\x02"])
def test_anything_else_is_refused_in_a_line(tmp_path: Path, capsys: Captured, content: str) -> None:
    (tmp_path / "file").write_text(content)
    assert main(["import", str(tmp_path / "file"), "-o", str(tmp_path / "a")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "read are logs, printed summaries and tables" in error or "is empty" in error
    assert not list(tmp_path.glob("a.*"))
