"""What people have of an engine, read line by line: a sample of every kind, what stands in front of lines, and lines
that are broken in every way."""

import gzip
import io
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.cli import main
from specviz.engines.texts import history as history_module
from specviz.engines.texts import lines as lines_module
from specviz.engines.texts.history import MOST_WINDOWS, CountHistory, CountWindow
from specviz.engines.texts.kinds import scrape as scrape_module
from specviz.engines.texts.lines import ReadText, read_lines, read_text, text_kinds
from specviz.engines.texts.own_line import own_line
from specviz.engines.texts.signs import SignSearch
from specviz.engines.watch import WatchPicture, picture_of, read_history
from specviz.engines.watch.history import write_history
from specviz.errors import SpecvizError
from specviz.events import Counted
from specviz.judge import Evidence, judge


def vllm_line(pid: int, rounds: int, kept: list[int], at: str = "05-12 09:10:02") -> str:
    """vLLM's line of a window in which so many rounds kept a token at each position."""
    accepted, drafted = sum(kept), rounds * len(kept)
    rates = ", ".join(f"{n / rounds:.3f}" for n in kept)
    return (
        f"(APIServer pid={pid}) INFO {at} [metrics.py:101] SpecDecoding metrics: Mean acceptance length: "
        f"{1 + accepted / rounds:.2f}, Accepted throughput: 1.00 tokens/s, Drafted throughput: 3.00 tokens/s, "
        f"Accepted: {accepted} tokens, Drafted: {drafted} tokens, Per-position acceptance rate: {rates}, "
        f"Avg Draft acceptance rate: {accepted / drafted:.1%}\n"
    )


def _engine(pid: int, number: int) -> str:
    return f"(APIServer pid={pid}) INFO 05-12 09:10:01 [loggers.py:271] Engine {number:03}: Running: 1 reqs\n"


FOLDER = Path(__file__).parent / "samples"
# by sample: rounds, drafted and accepted tokens, tokens written; rounds that kept a token at each position
SAMPLES: dict[str, tuple[tuple[int | None, ...], list[int]]] = {
    "vllm": ((300, 900, 430, None), [220, 150, 60]),
    "old-vllm": ((300, 1500, 100, 400), []),
    "printed": ((400, 800, 300, 700), [200, 100]),
    "served": ((400, 800, 300, 700), [200, 100]),
    "sglang": ((None, None, None, None), []),
    "llama": ((100, 200, 100, 250), [60, 40]),
    "old-llama": ((281, 560, 461, 192), []),
    "speculative": ((371 - 313, 912, 313, 371), []),
    "table": ((2 * 191 - 139 - 113, 207 + 290, 139 + 113, 2 * 192), []),
    "timings": ((134, 347, 65, 200), []),
    "mlx": ((4, None, 4, 8), [3, 1]),
    "meta_info": ((60, 180, 66, 126), [38, 20, 8]),
    "bench": ((400, 800, 300, 700), [200, 100]),
    "serving": ((None, None, None, 20000), []),
    "spec-bench": ((6, None, 6, 12), [3, 2, 1]),
    "tensorrt": ((6, 18, 6, 12), []),
    "scrape": ((100, 300, 150, None), []),
    "aiperf": ((None, None, None, None), []),
    "sglang-printed": ((None, None, None, 20000), []),
    "spec-bench-table": ((None, None, None, None), []),
}
TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in sorted(FOLDER.iterdir())}
VLLM, SGLANG, OLD_LLAMA, SPECULATIVE = (TEXTS[name] for name in ("vllm", "sglang", "old-llama", "speculative"))
BENCH: dict[str, Any] = json.loads(TEXTS["bench"])


def read(text: str) -> ReadText:
    return read_text(io.StringIO(text, newline=""))


def looks_of(text: str) -> list[Counted]:
    (part,) = read(text).parts
    return part.history.looks()


def picture(text: str) -> WatchPicture:
    return picture_of(looks_of(text))


def judged(text: str) -> str:
    return " ".join(finding.text for finding in judge(Evidence.of_looks(looks_of(text))))


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_gives_what_stands_in_it(name: str) -> None:
    text, (counts, kept) = TEXTS[name], SAMPLES[name]
    last = looks_of(text)[-1]
    assert (last.n_rounds, last.n_drafted, last.n_accepted, last.n_generated) == counts
    assert last.per_position == kept


def test_every_kind_has_a_sample() -> None:
    assert set(SAMPLES) == set(TEXTS)
    kinds = {part.kind for text in TEXTS.values() for part in read(text).parts}
    assert kinds == {kind.name for kind in text_kinds()}


def test_means_without_counts_are_averaged_over_their_windows() -> None:
    seen = picture(SGLANG)
    assert seen.length == pytest.approx(3.2)
    assert seen.length_ends is not None
    assert seen.length_ends[0] < 3.2 < seen.length_ends[1]
    assert seen.n_rounds is None


def test_a_table_of_means_is_read_by_its_columns() -> None:
    """AIPerf's pooled numbers are taken before those of its requests; rows of a benchmark count alike."""
    pooled = picture(TEXTS["aiperf"])
    assert (pooled.length, pooled.acceptance) == (2.25, pytest.approx(0.417))
    assert pooled.notes[:2] == (
        "steps by kept tokens: 35 % 0, 25 % 1, 20 % 2, 20 % 3",
        "the mean of its requests is 2.10",
    )
    tasks = picture(TEXTS["spec-bench-table"])
    assert tasks.length == pytest.approx((3.7 + 3.73 + 2.38) / 3)
    assert tasks.acceptance == pytest.approx((0.9 + 0.91 + 0.46) / 3)
    assert tasks.length_ends is None
    assert "story, mtp: 2.38 tokens a round, 46.00% kept, 18.00 tok/s" in tasks.notes
    printed = picture(TEXTS["sglang-printed"])
    assert (printed.length, printed.tokens_per_s) == (2.4, pytest.approx(20_000 / 60))


@pytest.mark.parametrize("width", [0, 60, 90])
def test_vllms_line_of_2025_says_the_rate_first(width: int) -> None:
    """And the first one of the new engine two counts alone: rounds are then not known, no number stands for them."""
    line = (
        "INFO 09-09 11:51:35 [metrics.py:96] SpecDecoding metrics: Draft acceptance rate: 60.0%, Mean acceptance "
        "length: 2.80, Accepted throughput: 4.00 tokens/s, Drafted throughput: 5.00 tokens/s, Accepted: 180 tokens, "
        "Drafted: 300 tokens, Per-position acceptance rate: 0.900, 0.600, 0.300\n"
    )
    text = line if not width else "".join(line[k : k + width] + "\n" for k in range(0, len(line) - 1, width))
    (look,) = looks_of(text)[-1:]
    assert (look.n_rounds, look.n_drafted, look.n_accepted, look.per_position) == (100, 300, 180, [90, 60, 30])
    for words in (
        "SpecDecoding metrics: Draft acceptance rate: 50.0%, Accepted: 40 tokens, Drafted: 80 tokens\n",
        "Speculative metrics: Draft acceptance rate: 0.500, Number of accepted tokens: 40, "
        "Number of draft tokens: 80, \n",
    ):
        (first,) = looks_of(f"INFO 04-01 10:00:15 [metrics.py:41] {words}")[-1:]
        assert (first.n_rounds, first.n_drafted, first.n_accepted) == (None, 80, 40)
        assert "rounds are not counted there" in picture_of([first]).headline


def test_the_old_engine_named_its_counts_in_two_ways() -> None:
    once = TEXTS["old-vllm"].replace("tokens tokens:", "tokens:")
    assert looks_of(once) == looks_of(TEXTS["old-vllm"])


def test_a_rank_that_keeps_less_is_named() -> None:
    """SGLang tells means by data parallel rank: no counts, so they stand in a note."""

    def lines(ill: float) -> str:
        batch = (
            "Decode batch. #running-req: 8, #token: 9, token usage: 0.21, accept len: {}, gen throughput (token/s): 6"
        )
        ranks = ((k, ill if k == 2 else 2.0) for _ in range(3) for k in range(4))
        return "".join(f"2025-10-20 03:02:22 INFO 7 [DP{k} TP{k} EP{k} x.py:2] {batch.format(n)}\n" for k, n in ranks)

    assert (
        "tokens a round by data parallel rank, 4 of them: rank 2 at 1.10, the middle one at 2.00"
        in picture(lines(1.1)).notes
    )
    assert any("from 1.80 to 2.00" in words for words in picture(lines(1.8)).notes)


def test_rates_without_counts_are_averaged_as_lengths_are() -> None:
    line = "[2026-01-02 03:04:0{}] Decode batch, accept len: 2.00, accept rate: {}, gen throughput (token/s): 6.0\n"
    assert picture(line.format(5, 0.4) + line.format(9, 0.6)).acceptance == pytest.approx(0.5)


def test_sglangs_log_of_requests_holds_its_answers() -> None:
    """As Python writes it, with a text in it that quotes another count."""
    line = (
        "[2026-02-06 23:42:16] Finish: obj=GenerateReqInput(rid='a1'), out={'text': \"'spec_verify_ct': 9\""
        ", 'meta_info': {'id': 'a1', 'completion_tokens': 64, 'spec_accept_rate': 0.4, 'spec_verify_ct': 30, "
        "'spec_accept_token_num': 34, 'spec_draft_token_num': 90, 'spec_accept_histogram': [10, 8, 10, 2], "
        "'e2e_latency': 1.5}}\n"
    )
    (look,) = looks_of(line)[-1:]
    assert (look.n_rounds, look.n_drafted, look.n_accepted, look.n_generated) == (30, 90, 34, 64)
    assert look.per_position == [20, 12, 2]


@pytest.mark.parametrize(("mean", "drafting"), [("3.13", 15), ("5.00", 8), ("4.20", 10)])
def test_rounds_of_a_request_are_counted_from_its_tokens(mean: str, drafting: int) -> None:
    """The first token is the prompt's pass's; shares by position are of the rounds that drafted."""
    lines = (
        "slot print_timing: id  0 | task 0 |        eval time =      16.49 ms /    48 tokens (    0.35 ms per token)\n"
        "slot print_timing: id  0 | task 0 | draft acceptance = 0.55172 (   32 accepted /    58 generated), "
        f"mean len = {mean}, acceptance rate per position = (1.000, 0.200)\n"
    )
    (look,) = looks_of(lines)[-1:]
    assert (look.n_rounds, look.per_position) == (48 - 32 - 1, [drafting, round(drafting * 0.2)])


def test_an_answer_whose_text_has_a_bar_in_it_is_read() -> None:
    answer = {"content": "a|b", "timings": {"predicted_n": 101, "draft_n": 90, "draft_n_accepted": 71}}
    for front in ("", "> ", "web-1  | "):
        assert looks_of(front + json.dumps(answer, separators=(",", ":")))[-1].n_drafted == 90


def test_rounds_that_an_answer_tells_are_not_counted_from_its_tokens() -> None:
    timings = {"predicted_n": 101, "predicted_ms": 2000.0, "draft_n": 90, "draft_n_accepted": 71}
    look = looks_of(json.dumps({"timings": {**timings, "draft_rounds": 31}}))[-1]
    counted = looks_of(json.dumps({"timings": timings}))[-1]
    assert (look.engine, look.n_rounds, look.notes) == ("mlx-vlm", 31, [])
    assert (counted.engine, counted.n_rounds, len(counted.notes)) == ("llama.cpp", 100 - 71, 1)


def test_rounds_of_a_verbose_llama_log_are_added_up() -> None:
    """Builds that logged no drafted tokens said 0: then none are told."""
    line = "slot update_slots: id  3 | task 0 | accepted {}/{} draft tokens, new n_tokens = 661\n"
    counts = [(1, 4), (3, 4), (0, 2)]
    look = looks_of("".join(line.format(*pair) for pair in counts))[-1]
    assert (look.n_rounds, look.n_drafted, look.n_accepted, look.per_position) == (3, 10, 4, [2, 1, 1])
    broken = looks_of("".join(line.format(n, 0) for n, _ in counts))[-1]
    assert (broken.n_rounds, broken.n_drafted, broken.n_accepted) == (3, None, 4)
    assert "logs no drafted tokens" in broken.notes[0]


def test_answers_for_which_nothing_was_drafted_are_said() -> None:
    time = "       eval time =    4000.00 ms /   200 tokens (   20.00 ms per token,    50.00 tokens per second)\n"
    kept = "draft acceptance rate = 0.75000 (   48 accepted /    64 generated)\n"
    assert "in 2 of 3 answers nothing was drafted" in looks_of(time + kept + time + time)[-1].notes
    assert looks_of(time + kept)[-1].notes == []


def test_long_drafts_that_keep_little_are_said_where_no_positions_are_told() -> None:
    line = "draft acceptance = 0.07 (   {} accepted /  1400 generated)\n"
    time = "eval time =    3000.00 ms /   {} tokens (   25.00 ms per token,    40.00 tokens per second)\n"
    assert "63.6 tokens are drafted a round to keep 4.5" in judged(time.format(121) + line.format(98))
    assert judged(time.format(821) + line.format(798)) == ""


def test_the_first_summary_of_llama_speculative_says_generated() -> None:
    assert looks_of(SPECULATIVE.replace("decoded", "generated")) == looks_of(SPECULATIVE)


def test_engines_are_told_apart_by_their_process() -> None:
    lines = [_engine(70 + k, k) + vllm_line(70 + k, 100, [10, 1] if k == 5 else [80, 60]) for k in range(8)]
    seen = picture("".join(lines))
    assert [part.name for part in seen.engines] == [str(k) for k in range(8)]
    assert "engine 5 at 1.11, the others at 2.40" in seen.headline


def test_drafters_and_prompts_are_told_one_by_one() -> None:
    drafters = picture(OLD_LLAMA).engines
    assert drafters[0].words == "drafter ngram-map-k: nothing drafted in 282 calls"
    assert drafters[1].words == "drafter draft-mtp: 2.64 tokens a round over 281, 461 of 560 drafted kept"
    assert [part.words.split(":")[0] for part in picture(TEXTS["table"]).engines] == [
        "prompts code_python",
        "prompts creative_short",
    ]


def test_what_a_round_cost_is_said_where_times_are_told() -> None:
    (note,) = picture(SPECULATIVE).notes
    round_ms, plain_ms = 34.412e3 / 58, 2406.6 / 27
    assert f"{round_ms:.0f} ms, as long as {round_ms / plain_ms:.1f} plain tokens" in note
    assert f"{371 / 58 * plain_ms / round_ms:.2f} times plain decoding" in note


FRONTS = {
    "quote": "> ",
    "quotes": "> > ",
    "pid": "[53409] ",
    "compose": "web-1  | ",
    "compose with pid": "vllm-0 | [7] ",
    "colour": "\x1b[32m",
    "journald": "Nov  7 07:24:36 gpu1 engine[8123]: ",
    "journald, iso": "2026-11-27T07:24:36+0000 gpu1 engine[8123]: ",
    "docker": "2026-11-27T07:24:36.123456789Z ",
    "kubernetes": "2026-11-27T07:24:36.123456789Z stdout F ",
}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("front", FRONTS.values(), ids=FRONTS)
def test_what_stands_in_front_of_a_line_is_no_part_of_it(name: str, front: str) -> None:
    end = "\x1b[0m\r\n" if front.startswith("\x1b") else "\r\n"
    _is_read_as(name, "".join(front + line + end for line in TEXTS[name].splitlines()))


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", SAMPLES)
def test_lines_that_a_terminal_wrapped_are_put_together(name: str, width: int) -> None:
    lines = TEXTS[name].splitlines()
    _is_read_as(name, "".join(line[k : k + width] + "\n" for line in lines for k in range(0, len(line), width)))


@pytest.mark.parametrize("name", [name for name in SAMPLES if TEXTS[name].startswith("{")])
def test_json_may_be_printed_over_several_lines_of_a_longer_text(name: str) -> None:
    values = [json.dumps(json.loads(line), indent=2) for line in TEXTS[name].splitlines()]
    _is_read_as(name, "".join(f"It answers [so]:\n\n```json\n{value}\n```\n{{ and so on\n" for value in values))


def _is_read_as(name: str, text: str) -> None:
    """The counts of a sample, whatever was done to its lines."""
    counts, kept = SAMPLES[name]
    last = looks_of(text)[-1]
    assert (last.n_rounds, last.n_drafted, last.n_accepted, last.n_generated) == counts
    assert last.per_position == kept


def test_several_kinds_in_one_text_are_several_parts_in_their_order() -> None:
    text = f"It got slow.\n\n```\n{SGLANG}```\n\nand with the other engine\n\n```\n{VLLM}```\n"
    parts = read(text)
    assert [part.kind for part in parts.parts] == ["SGLang's Decode batch", "vLLM's SpecDecoding metrics"]
    assert parts.n_left == len(text.splitlines()) - 5


def test_a_line_of_ones_own(tmp_path: Path) -> None:
    kind = own_line("steps={rounds} proposed={drafted} accepted={kept}")
    text = "t [spec] steps=32 proposed=480 accepted=150 rejected=330\n" * 3 + "steps=none\n"
    (part,) = read_lines(text.splitlines(keepends=True), (kind,)).parts
    last = part.history.looks()[-1]
    assert (last.n_rounds, last.n_drafted, last.n_accepted) == (96, 1440, 450)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("steps={round}", "did you mean 'rounds'"),
        ("steps={rounds}", "name {rounds} and {kept}"),
        ("{kept} {kept} {rounds}", "stands in it twice"),
    ],
)
def test_a_pattern_that_says_nothing_is_refused_in_a_line(pattern: str, words: str) -> None:
    with pytest.raises(SpecvizError) as caught:
        own_line(pattern)
    assert words in str(caught.value)


# Through the command ------------------------------------------------------------------------------------------------


def test_the_command_says_what_it_read_and_what_it_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "server.log").write_text(VLLM + "another line\n" * 5)
    assert main(["import", str(tmp_path / "server.log"), "-o", str(tmp_path / "a")]) == 0
    done = capsys.readouterr()
    assert "read 2 lines of vLLM's SpecDecoding metrics; left 6 others: a history of counts" in done.err
    assert len(read_history(done.out.strip())) == 3
    assert main(["stats", done.out.strip()]) == 0
    printed = capsys.readouterr().out
    assert "300 rounds · 900 drafted · 430 accepted" in printed
    assert " 0 rounds" not in printed


def test_a_pasted_text_and_a_packed_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = tmp_path / "server.log.gz"
    packed.write_bytes(gzip.compress(VLLM.encode()))
    assert main(["import", str(packed), "-o", str(tmp_path / "a")]) == 0

    class Pasted:
        buffer = io.BytesIO((SGLANG + VLLM).encode())

    monkeypatch.setattr("sys.stdin", Pasted())
    assert main(["import", "-", "-o", str(tmp_path / "b")]) == 0
    paths = capsys.readouterr().out.split()
    assert [read_history(path)[-1].engine for path in paths] == ["vLLM", "SGLang", "vLLM"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_log_that_windows_wrote_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str], encoding: str) -> None:
    (tmp_path / "log").write_text(VLLM.replace("\n", "\r\n"), encoding=encoding, newline="")
    assert main(["import", str(tmp_path / "log"), "-o", str(tmp_path / "a")]) == 0
    assert "SpecDecoding metrics" in capsys.readouterr().err


def test_what_is_no_text_is_refused_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model").write_bytes(b"GGUF\3\0\0\0 pred= %/ \n" * 3)
    assert main(["import", str(tmp_path / "model"), "-o", str(tmp_path / "a")]) == 2
    assert "is no text" in capsys.readouterr().err


def test_a_recording_is_known_whatever_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log").write_text(VLLM, encoding="utf-8")
    assert main(["import", str(tmp_path / "log"), "-o", str(tmp_path / "a.jsonl")]) == 0
    (trace,) = tmp_path.glob("a.*")
    renamed = trace.rename(tmp_path / "counts.gz")
    capsys.readouterr()
    assert main(["diagnose", str(renamed)]) in (0, 1)
    assert "windows of counts" in capsys.readouterr().out
    assert main(["import", str(renamed), "-o", str(tmp_path / "b")]) == 2
    assert "is a recording already" in capsys.readouterr().err


def test_two_totals_are_held_against_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    worse = {**BENCH, "spec_decode_accepted_tokens": 220, "spec_decode_per_position_acceptance_rates": [0.49, 0.06]}
    for name, report in (("before", BENCH), ("after", worse)):
        (tmp_path / f"{name}.json").write_text(json.dumps(report, indent=1))
        assert main(["import", str(tmp_path / f"{name}.json"), "-o", str(tmp_path / name)]) == 0
    runs = [str(tmp_path / "before"), str(tmp_path / "after")]
    capsys.readouterr()
    assert main(["compare", *runs]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "the first position is as in A (49.0% against 50.0%), later ones are not" in printed
    assert main(["compare", *runs, "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    by, (low, high) = rows["position 2"]["differences"][0]
    assert (by, low < by < high) == (pytest.approx(0.06 - 0.25), True)


@pytest.mark.parametrize(
    ("rule", "code", "words"),
    [
        ("survival@1 drops 0.005", 1, "-0.010"),
        ("survival@1 drops 0.005 surely", 0, "passes"),
        ("position_acceptance@2 drops 20% surely", 1, "-75.5%"),
        ("block_efficiency drops 5%; tokens_per_second rises 1%", 1, "-11.4%"),
        ("mean_accepted drops 30%", 0, "passes"),
        ("text differs", 1, "texts are not on record"),
        ("draft_acceptance_rate drops 0.05 surely", 2, "too few units for an interval"),
        ("test_acceptance_rate drops 5%", 2, "counts alone do not tell test_acceptance_rate"),
    ],
)
def test_a_gate_on_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str], rule: str, code: int, words: str) -> None:
    worse = {**BENCH, "spec_decode_accepted_tokens": 220, "spec_decode_per_position_acceptance_rates": [0.49, 0.06]}
    for name, report in (("before", BENCH), ("after", worse)):
        write_history(tmp_path / name, looks_of(json.dumps(report)))
    assert main(["compare", str(tmp_path / "before"), str(tmp_path / "after"), "--fail-if", rule]) == code
    captured = capsys.readouterr()
    assert words in captured.out + captured.err


def test_counts_and_rounds_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bench.json").write_text(json.dumps(BENCH))
    assert main(["import", str(tmp_path / "bench.json"), "-o", str(tmp_path / "a")]) == 0
    capsys.readouterr()
    assert main(["compare", str(tmp_path / "a"), "story-hsd"]) == 2
    assert "compare like with like" in capsys.readouterr().err


# Broken in every way ------------------------------------------------------------------------------------------------


@settings(max_examples=150)
@given(data=st.data())
def test_no_text_breaks_a_reader(data: st.DataObject) -> None:
    """Lines of samples, cut, doubled and with other characters in them."""
    lines = [line for text in TEXTS.values() for line in text.splitlines(keepends=True)]
    text = ""
    for _ in range(data.draw(st.integers(1, 6))):
        line = data.draw(st.sampled_from(lines))
        cut = data.draw(st.integers(0, len(line)))
        text += line[:cut] + data.draw(st.text(max_size=8)) + line[cut + data.draw(st.integers(0, 8)) :]
    for part in read(text).parts:
        looks = part.history.looks()
        assert looks
        picture_of(looks)


@pytest.mark.parametrize("name", SAMPLES)
def test_numbers_without_bounds_break_nothing(name: str) -> None:
    text = TEXTS[name]
    for digit in "0123456789":
        for part in read(text.replace(digit, digit * 30)).parts:
            picture_of(part.history.looks())


def test_windows_of_a_long_log_are_put_together() -> None:
    """By as many each, so the sums stay, and the mean of means."""
    n = 3 * MOST_WINDOWS + 5
    counted, means = CountHistory("vLLM", "over the log"), CountHistory("SGLang", "over the log")
    for k in range(n):
        counted.add(CountWindow(float(k), 10, 20, k % 7, None, [k % 7]), f"{k % 2}")
        means.add(CountWindow(float(k), length=2.0 + k % 2))
    for history in (counted, means):
        assert MOST_WINDOWS / 2 < len(history.windows) <= MOST_WINDOWS
        assert history.looks()[-1].wall == n - 1
    last = counted.looks()[-1]
    assert (last.n_rounds, last.n_accepted) == (10 * n, sum(k % 7 for k in range(n)))
    assert {part.name: part.n_rounds for part in last.engines} == {"0": 10 * -(-n // 2), "1": 10 * (n // 2)}
    assert picture_of(means.looks()).length == pytest.approx(2.5, abs=1 / MOST_WINDOWS)


def test_every_kind_is_held_in_bounded_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three times as long a text of all kinds takes no more of it, once there are as many windows as are kept."""
    monkeypatch.setattr(history_module, "MOST_WINDOWS", 16)
    monkeypatch.setattr(scrape_module, "MOST_WINDOWS", 16)
    monkeypatch.setattr(lines_module, "_SHORT", 1 << 12)

    def peak(times: int) -> int:
        file = io.StringIO("".join(TEXTS.values()) * times)
        tracemalloc.start()
        try:
            assert len({part.kind for part in read_text(file).parts}) == len(text_kinds())
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(240) < 1.2 * peak(80)


def test_a_long_log_is_read_in_little_memory(tmp_path: Path) -> None:
    """Lines of other things are not kept, and windows are few."""
    with (tmp_path / "server.log").open("w") as file:
        for k in range(200_000):
            file.write(VLLM.splitlines(keepends=True)[1] if k % 20_000 == 0 else f"INFO line {k} of something else\n")
    with (tmp_path / "server.log").open() as file:
        tracemalloc.start()
        parts = read_text(file)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert parts.parts[0].n_lines == 10
    assert (parts.n_lines, parts.n_left) == (200_000, 200_000 - 10)
    assert most < 16 << 20


def test_every_sign_is_seen_wherever_it_stands_in_a_block() -> None:
    groups = [kind.signs + kind.beside for kind in text_kinds()]
    search = SignSearch(groups)
    assert search.lines("nothing of any kind\n" * 3) == {}
    for k, signs in enumerate(groups):
        for sign in signs:
            for line in (f"{sign}\n", f"a {sign} {sign}\n", f"drafted {sign}"):
                lines = search.lines(f"first\n{line}")
                assert k in lines[6], sign
                assert len(lines) == 1


@pytest.mark.parametrize("ends", ["", "\n"])
@pytest.mark.parametrize("block", [1, 7, 64, 1 << 16])
def test_blocks_of_any_size_read_the_same(monkeypatch: pytest.MonkeyPatch, block: int, ends: str) -> None:
    monkeypatch.setattr(lines_module, "_SHORT", block)
    monkeypatch.setattr(lines_module, "_BLOCK", block)

    for text in (VLLM, OLD_LLAMA, SGLANG):
        whole = read(text.rstrip("\n") + ends)
        assert whole.n_lines == len(text.rstrip("\n").split("\n"))
        assert [part.n_lines for part in whole.parts] == [part.n_lines for part in read_lines([text]).parts]


def test_a_line_without_an_end_is_read_in_little_memory() -> None:
    class Endless(io.StringIO):
        """A line of 64 million characters that never was in memory."""

        left = 1 << 26

        def read(self, n: int | None = -1) -> str:
            n = min(n or 0, self.left)
            self.left -= n
            return "x" * n

        def readline(self, n: int | None = -1) -> str:  # type: ignore[override]
            return self.read(n if n is not None and n > 0 else self.left)

    tracemalloc.start()
    try:
        result = read_text(Endless())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.n_lines == 1
    assert not result.parts
    assert peak < 1 << 24
