"""`specviz tui` before it takes over the terminal: everything wrong is one line and exit code 2."""

from pathlib import Path

import pytest

from cli.conftest import Cli
from support.traces import make_events, write_trace


def test_without_a_terminal_it_says_what_works_instead(cli: Cli, tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "a", make_events(new_tokens=8))
    for args in ((), ("--replay", trace)):
        line = cli("tui", *args).line
        assert line.startswith("no terminal")
        assert "specviz stats" in line


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "no trace"),
        (b"", "empty"),
        (b"hello\n", "not a specviz trace"),
        (b'{"a": 1}\n', "not a specviz trace"),
        (b"\x1f\x8b\x08\x00broken", "gzip"),
    ],
    ids=["missing", "empty", "text", "foreign", "torn gzip"],
)
def test_a_bad_trace_is_told_before_a_missing_terminal(
    content: bytes | None, says: str, cli: Cli, tmp_path: Path
) -> None:
    file = tmp_path / "run.sv.jsonl"
    if content is not None:
        file.write_bytes(content)
    line = cli("tui", "--replay", file).line
    assert says in line
    assert str(file) in line


def test_a_newer_trace_is_refused(cli: Cli, tmp_path: Path) -> None:
    trace = tmp_path / "new.sv.jsonl"
    header = '{"ev":"header","i":0,"t":0,"q":0,"r":0,"schema":"specviz.trace","v":[99,0]}\n'
    trace.write_text(header)
    assert "99" in cli("tui", "--replay", trace).line


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--replay", "x", "--method", "ngram"), "--replay shows a recording"),
        (("--method", "ngrma"), "no method 'ngrma'; did you mean 'ngram'?"),
        (("--method", "ngram", "--d-max", "2"), "method ngram has no knob --d-max"),
        (("--gamma", "99"), "knob gamma: '99' is not a whole number in 0..64"),
        (("--prompt", "a", "--prompt-file", "b"), "--prompt and --prompt-file both give a prompt"),
        (("--gama", "3"), "no such option"),
    ],
)
def test_bad_requests(args: tuple[str, ...], says: str, cli: Cli) -> None:
    assert cli("tui", *args).line.lower().startswith(says.lower())
