"""Flags made from the knob tables, and the prompt: everything that can be refused before a model is loaded."""

from pathlib import Path

import pytest

from cli.conftest import Cli
from cli.scripted import Script
from specviz.cli import request
from specviz.knobs import SAMPLING
from specviz.methods import all_methods


@pytest.fixture(autouse=True)
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    """The engine's stand-in."""
    return Script().install(monkeypatch)


def _flat(text: str) -> str:
    return " ".join(text.split())


def test_every_knob_of_every_method_is_a_flag_with_range_and_default(cli: Cli) -> None:
    text = _flat(cli("run", "--help").out)
    for method in all_methods().values():
        for spec in method.table.specs:
            assert f"{spec.flag} " in text
            assert spec.range in text
            assert spec.help in text


def test_values_reach_the_run_in_their_own_types(cli: Cli, script: Script) -> None:
    flags = ("--gamma", "7", "--shape", "chain", "--temperature", ".5", "--stop", "a", "--stop", "b c", "--seed", "3")
    assert cli("run", "--prompt", "x", *flags).code == 0
    assert script.start is not None
    assert script.start.knobs == {"gamma": 7, "shape": "chain", "temperature": 0.5, "stop": ["a", "b c"], "seed": 3}


def test_what_is_not_given_is_left_to_the_method(cli: Cli, script: Script) -> None:
    cli("run", "--prompt", "x")
    assert script.start is not None
    assert (script.start.knobs, script.start.verifier, script.start.chat) == ({}, None, None)
    assert script.loaded == (None, None, True, None, None, None, None)


def test_a_knob_the_method_lacks_names_the_methods_that_have_it(cli: Cli) -> None:
    line = cli("run", "--prompt", "x", "--method", "ngram", "--k-max", "3").line
    named, _, holders = line.partition("; methods that have it: ")
    assert named == "method ngram has no knob --k-max"
    assert "draft" in holders.split(", ")
    assert "ngram" not in holders


def test_every_knob_of_every_method_is_a_flag(cli: Cli) -> None:
    """A method brings its flags with its table; nothing is listed by hand."""
    help_ = cli("run", "--help").out
    for flag in ("--epsilon", "--k-max", "--branch-len", "--alpha", "--exit-layers"):
        assert f"  {flag} " in help_


def test_lanes_and_the_place_of_the_draft_model(cli: Cli, script: Script) -> None:
    cli("run", "--prompt", "x", "--lanes", "threads", "--draft-device", "cuda:1")
    assert script.start is not None
    assert script.start.lanes == "threads"
    assert script.loaded == (None, None, True, None, None, None, "cuda:1")
    assert cli("run", "--prompt", "x", "--lanes", "thread").line == "no lanes 'thread'; did you mean 'threads'?"
    assert cli("run", "--prompt", "x", "--draft-device", "gpu").line.startswith("no device 'gpu'")


def test_knobs_without_effect_are_told_on_one_line(cli: Cli) -> None:
    """What was typed, and what it would need; nothing when all of it counts."""
    done = cli("run", "--prompt", "x", "--candidates", "3", "--k-max", "4", "--gamma", "2")
    lines = [line for line in done.err.splitlines() if "without effect" in line]
    assert lines == [
        "specviz: warning: without effect here: --candidates (needs --shape chains or caterpillar or drawn_tree), "
        "--k-max (needs --shape tree or drawn_tree)"
    ]
    for flags in (("--shape", "chains", "--candidates", "3"), ("--gamma", "2"), ("--k-max", "4", "--quiet")):
        assert "without effect" not in cli("run", "--prompt", "x", *flags).err


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--gamma", "65"), "knob gamma: '65' is not a whole number in 0..64 (default 4)"),
        (("--gamma", "2.5"), "knob gamma: '2.5' is not a whole number in 0..64 (default 4)"),
        (("--top-p", "0"), "knob top_p: '0' is not a number in above 0..1 (default 1.0)"),
        (("--replacement", "maybe"), "knob replacement: 'maybe' is not a value in on, off (default on)"),
        (("--seed", "-1"), f"knob seed: '-1' is not a whole number in 0..{2**53 - 1} (default 0)"),
        (("--stop", ""), "knob stop: [''] is no text; give one or more, none of them empty"),
        (("--temperature", "nan"), "knob temperature: 'nan' is not a number"),
        (("--shape", "chian"), "knob shape: no value 'chian'; did you mean 'chain'?"),
        (("--method", "drafft"), "no method 'drafft'; did you mean 'draft'?"),
        (("--verifier", "tokenwize"), "method draft takes no verifier 'tokenwize'; did you mean 'tokenwise'?"),
        (("--method", "ar", "--verifier", "tokenwise"), "method ar takes no verifier 'tokenwise'; known: walk"),
        (("--device", "gpu"), "no device 'gpu'"),
        (("--device", "cuda:x"), "no device 'cuda:x'; did you mean 'cuda:0'?"),
        (("--dtype", "flaot32"), "no dtype 'flaot32'; did you mean 'float32'?"),
        (("--level", "ful"), "no level 'ful'; did you mean 'full'?"),
        (("--threads", "0"), "invalid value for '--threads'"),
        (("--stop", ""), "knob stop: "),
    ],
)
def test_bad_values(flags: tuple[str, ...], says: str, cli: Cli) -> None:
    assert cli("run", "--prompt", "x", *flags).line.startswith(says)


def test_the_prompt_comes_from_one_of_four_places(cli: Cli, script: Script, tmp_path: Path) -> None:
    file = tmp_path / "prompt.txt"
    file.write_bytes("Grüße\r\n 世界 ".encode())
    cli("run", "--prompt-file", file)
    assert script.start is not None
    assert script.start.prompt == "Grüße\r\n 世界 "
    for source in (("-",), ("--prompt-file", "-")):
        cli("run", *source, stdin=b"from a pipe\n")
        assert script.start.prompt == "from a pipe\n"
    cli("run", "--prompt", "-")
    assert script.start.prompt == "-"
    cli("run", "--example", "sums")
    assert script.start.prompt == request.example_file("sums-running").read_text("utf-8")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((), "no prompt: give one of --prompt TEXT"),
        (("--prompt", "a", "--prompt-file", "b"), "--prompt and --prompt-file both give a prompt"),
        (("-", "--example", "code"), "- and --example both give a prompt"),
        (("--prompt", ""), "the prompt from --prompt is empty"),
        (("-",), "the prompt from - is empty"),
        (("--prompt", "a\udcff"), "the prompt from --prompt is not UTF-8: byte 0xff at offset 1"),
        (("--prompt-file", "no/such/file"), "cannot read the prompt file 'no/such/file': No such file or directory"),
        (("--prompt-file", "."), "cannot read the prompt file '.': Is a directory"),
        (("--example", "cod"), "no example 'cod'; did you mean 'code'?"),
        (("hello",), "'hello' is neither an option nor -; a prompt is given as --prompt 'hello'"),
    ],
)
def test_bad_prompts(args: tuple[str, ...], says: str, cli: Cli) -> None:
    assert cli("run", *args).line.startswith(says)


def test_a_prompt_file_that_is_not_utf8_says_where(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "latin.txt"
    file.write_bytes("Grüße".encode("latin-1"))
    assert "not UTF-8: byte 0xfc at offset 2" in cli("run", "--prompt-file", file).line


def test_bundled_prompts_cover_three_domains_and_are_short() -> None:
    known = request.examples()
    assert {"code", "prose", "sums"} <= known.keys()
    for name, file in known.items():
        text = file.read_bytes().decode("utf-8")
        assert 0 < len(text) < 600, name


def test_sampling_flags_need_no_method_of_their_own(cli: Cli) -> None:
    for method in all_methods():
        for spec in SAMPLING:
            assert cli("run", "--prompt", "x", "--method", method, spec.flag, spec.default).code == 0


def test_a_target_over_several_processes_is_sent_to_a_server(cli: Cli, script: Script) -> None:
    done = cli("run", "--prompt", "x", "--tensor-parallel", "2")
    assert done.code == 2
    assert done.line.startswith("--tensor-parallel: ")
    assert "vLLM or SGLang" in done.line
    assert "specviz attach" in done.line
    assert script.loaded is None
    assert "tensor-parallel" not in cli("run", "--help").out
