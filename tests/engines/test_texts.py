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
from specviz.engines.texts.lines import ReadText, read_lines, read_text, text_kinds
from specviz.engines.texts.own_line import own_line
from specviz.engines.watch import WatchPicture, picture_of, read_history
from specviz.errors import SpecvizError
from specviz.events import Counted


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
    "table": ((2 * 192 - 139 - 113, 207 + 290, 139 + 113, 2 * 192), []),
    "timings": ((135, 347, 65, 200), []),
    "meta_info": ((60, 180, 66, 126), [38, 20, 8]),
    "bench": ((400, 800, 300, 700), [200, 100]),
    "serving": ((None, None, None, 20000), []),
    "spec-bench": ((6, None, 6, 12), [3, 2, 1]),
    "tensorrt": ((6, 18, 6, 12), []),
    "scrape": ((100, 300, 150, None), []),
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


@pytest.mark.parametrize("name", ["vllm", "sglang", "llama", "table", "bench", "scrape"])
@pytest.mark.parametrize(
    "front",
    ["> ", "[53409] ", "> > ", "web-1  | ", "\x1b[32m", "vllm-0 | [7] "],
    ids=["quote", "pid", "quotes", "compose", "colour", "both"],
)
def test_what_stands_in_front_of_a_line_is_no_part_of_it(name: str, front: str) -> None:
    text, (counts, kept) = TEXTS[name], SAMPLES[name]
    end = "\x1b[0m\r\n" if front.startswith("\x1b") else "\r\n"
    fronted = "".join(front + line + end for line in text.splitlines())
    last = looks_of(fronted)[-1]
    assert (last.n_rounds, last.n_drafted, last.n_accepted, last.n_generated) == counts
    assert last.per_position == kept


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", ["vllm", "old-vllm", "sglang"])
def test_lines_that_a_terminal_wrapped_are_put_together(name: str, width: int) -> None:
    text, (counts, kept) = TEXTS[name], SAMPLES[name]
    wrapped = "".join(line[k : k + width] + "\n" for line in text.splitlines() for k in range(0, len(line), width))
    last = looks_of(wrapped)[-1]
    assert (last.n_rounds, last.n_drafted, last.n_accepted, last.n_generated) == counts
    assert last.per_position == kept


def test_several_kinds_in_one_text_are_several_parts_in_their_order() -> None:
    text = f"It got slow.\n\n```\n{SGLANG}```\n\nand with the other engine\n\n```\n{VLLM}```\n"
    found = read(text)
    assert [part.kind for part in found.parts] == ["SGLang's Decode batch", "vLLM's SpecDecoding metrics"]
    assert found.n_left == len(text.splitlines()) - 5


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
    assert main(["compare", *runs, "--fail-if", "survival@1 drops 0.05"]) == 2
    assert "holds counts alone" in capsys.readouterr().err


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


def test_a_long_log_is_read_in_little_memory(tmp_path: Path) -> None:
    """Lines of other things are not kept, and windows are few."""
    with (tmp_path / "server.log").open("w") as file:
        for k in range(200_000):
            file.write(VLLM.splitlines(keepends=True)[1] if k % 20_000 == 0 else f"INFO line {k} of something else\n")
    with (tmp_path / "server.log").open() as file:
        tracemalloc.start()
        found = read_text(file)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert found.parts[0].n_lines == 10
    assert (found.n_lines, found.n_left) == (200_000, 200_000 - 10)
    assert most < 16 << 20
