"""`specviz lab bench` as it is typed: a card, one JSON line last, a page, and errors in one line."""

import json
from pathlib import Path

import msgspec
import pytest

from specviz.cli import main
from specviz_lab.bench.results import Report

Captured = pytest.CaptureFixture[str]
SMALL = ("--max-new-tokens", "8", "--repeats", "1", "--limit", "2", "--threads", "1")


def call(capsys: Captured, *args: object) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(["lab", "bench", *map(str, args)])
    return code, *capsys.readouterr()


def models(pair: tuple[str, str]) -> tuple[str, ...]:
    return "--target", pair[0], "--draft", pair[1]


def test_the_last_line_is_the_report_and_the_card_shows_its_numbers(
    pair: tuple[str, str], tmp_path: Path, capsys: Captured
) -> None:
    html = tmp_path / "report.html"
    prompts = tmp_path / "mine.jsonl"
    prompts.write_text('{"question": "abc"}\n{"question": "<b>"}\n')
    methods = ("--methods", "ar,hf-generate,ar+full", "--prompts", prompts, "--html", html)
    code, out, err = call(capsys, *SMALL, *models(pair), *methods)
    assert code == 0
    assert "repeat 1 of 1, prompt 2 of 2" in err
    *card, last = out.splitlines()
    report = msgspec.json.decode(last, type=Report)
    assert [arm.name for arm in report.arms] == ["ar", "hf-generate", "ar+full"]
    shown = "\n".join(card)
    for word in ("Speed", "Round", "Ratios", "Equality", "Bars", f"{report.ratios[0].value:.3f}"):
        assert word in shown
    assert str(tmp_path) not in out
    assert "--prompts mine.jsonl" in report.command
    text = html.read_text()
    assert f"{report.ratios[0].value:.3f}" in text
    assert "<h2>Ratios</h2>" in text
    assert " src=" not in text.partition("<h2>")[2]  # nothing is fetched


def test_json_alone(pair: tuple[str, str], capsys: Captured) -> None:
    code, out, err = call(capsys, *SMALL, *models(pair), "--methods", "ar", "--json", "-q")
    assert (code, err) == (0, "")
    assert json.loads(out)["schema"] == "specviz.bench/1"


def test_a_method_that_these_models_refuse_ends_no_other(pair: tuple[str, str], capsys: Captured) -> None:
    """Nothing was trained for this pair: the method says so in the report and the others are measured."""
    args = (*SMALL, *models(pair), "--json")
    code, out, err = call(capsys, *args, "--methods", "ar,eagle3")
    assert code == 0
    report = json.loads(out)
    assert [arm["name"] for arm in report["arms"]] == report["settings"]["methods"] == ["ar"]
    (note,) = [note for note in report["notes"] if note.startswith("eagle3 was not measured: ")]
    assert note in err
    code, out, err = call(capsys, *args, "--methods", "eagle3")
    assert (code, out) == (2, "")
    assert "nothing is left to measure: eagle3 was not measured: " in err


def test_a_report_names_no_folder_of_the_machine(pair: tuple[str, str], tmp_path: Path, capsys: Captured) -> None:
    """It is there to be given to others, and so is what it says of a drafter that was not there."""
    knob = f"eagle3.drafter={tmp_path / 'mine'}"
    code, out, _ = call(capsys, *SMALL, *models(pair), "--json", "--methods", "ar,eagle3", "--knob", knob)
    assert code == 0
    report = json.loads(out)
    assert report["settings"]["knobs"]["eagle3"]["drafter"] == ["mine"]
    assert "eagle3 was not measured: " in " ".join(report["notes"])
    assert str(tmp_path) not in out


def test_threads_are_probed_when_not_given(pair: tuple[str, str], capsys: Captured) -> None:
    args = (*SMALL[:-2], *models(pair), "--methods", "ar,hf-generate", "--json")
    _, out, _ = call(capsys, *args)
    report = json.loads(out)
    probed = {int(n): ms for n, ms in report["thread_probe_ms"].items()}
    assert report["machine"]["threads"] == min(probed, key=lambda n: probed[n])


def test_words_from_outside_cannot_break_out_of_the_page(
    pair: tuple[str, str], tmp_path: Path, capsys: Captured
) -> None:
    prompts = tmp_path / "<script>x.jsonl"
    prompts.write_text('{"prompt": "ab"}\n')
    args = (*SMALL, *models(pair), "--methods", "ar", "--json", "--prompts", prompts)
    call(capsys, *args, "--html", tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script>x" not in text
    assert "&lt;script&gt;x.jsonl" in text


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--minutes", "nan"), "--minutes nan is no time"),
        (("--methods", "chian"), "did you mean 'chain'"),
        (("--threads", "many"), "or auto"),
        (("--prompts", "none.jsonl"), "cannot read the prompts"),
        (("--html", "no/where.html"), "there is no folder"),
        (("--knob", "tree.node_budgt=3"), "did you mean 'node_budget'"),
        (("--dtype", "float31"), "'float32'"),
        (("--target", "x"), "needs its --draft"),
        (("--device", "cude"), "'cuda'"),
        (("--gamma", "0"), "not in the range"),
        (("--temperature", "nan"), "nan"),
        (("--minutes", "0"), "not in the range"),
        (("--target", "./none", "--draft", "./none"), "no such folder"),
    ],
)
def test_bad_input_is_one_line_and_code_two(args: tuple[str, ...], message: str, capsys: Captured) -> None:
    code, out, err = call(capsys, *args, "-q")
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert message in err
