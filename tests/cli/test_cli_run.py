"""`specviz run` with a scripted engine: what goes to which stream, and how a run ends, whatever ends it."""

import errno
import io
import json
import os
import sys
from pathlib import Path

import msgspec
import pytest

from cli.conftest import Cli, Done
from cli.scripted import Script
from specviz import events
from specviz.cli.printer import Narrator, RoundLines, TextStream, terminal_text
from specviz.metrics import Tally
from specviz.trace import Trace
from trace_factory import make_events


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    """The engine's stand-in."""
    return Script().install(monkeypatch)


def _end(path: Path) -> events.End:
    with Trace(path, check=True) as trace:
        for _ in trace.poll():
            pass
        assert trace.end is not None
        return trace.end


def test_standard_output_is_the_text_alone(cli: Cli, script: Script) -> None:
    done = cli("run", "--prompt", "x")
    assert (done.code, done.out) == (0, script.text)
    assert "\x1b" in done.out  # hostile, and left alone: this is a pipe
    assert "\x1b" not in done.err


def test_narration_tells_setting_speed_and_acceptance(cli: Cli, script: Script) -> None:
    err = cli("run", "--prompt", "x").err
    metrics = Tally().add_all(script.events).summary()
    assert err.startswith("draft · walk (lossless)")
    assert f"{len(script.tokens)} tokens in {metrics.n_rounds} rounds" in err
    assert f"({metrics.n_accepted} of {metrics.n_drafted} drafted tokens kept)" in err
    assert cli("run", "--prompt", "x", "--quiet").err == ""


def test_json_is_one_object_with_the_promised_names(cli: Cli, script: Script, tmp_path: Path) -> None:
    done = cli("run", "--prompt", "x", "--json", "--record", tmp_path / "a.sv.jsonl")
    found = json.loads(done.out)
    assert done.out.count("\n") == 1
    assert found["text"] == script.text
    assert found["tokens"] == script.tokens
    assert (found["method"], found["verifier"], found["lossless"]) == ("draft", "walk", True)
    assert found["rounds"] == sum(isinstance(e, events.RoundEnd) for e in script.events)
    assert found["trace"] == str(tmp_path / "a.sv.jsonl.gz")
    metrics = Tally().add_all(script.events).summary()
    assert found["metrics"] == json.loads(msgspec.json.encode(metrics))
    spent = [e.stage_ns for e in script.events if isinstance(e, events.RoundEnd)]
    assert found["timings"]["target"] == pytest.approx(sum(ns["target"] for ns in spent) / 1e6, abs=1e-3)
    assert {"prefill", "draft", "target", "verdict", "commit", "adapt", "other"} <= found["timings"].keys()


def test_stats_and_run_print_the_same_metrics(cli: Cli, script: Script, tmp_path: Path) -> None:
    ran = cli("run", "--prompt", "x", "--json", "--record", tmp_path / "a.sv.jsonl")
    measured = cli("stats", "--json", tmp_path / "a.sv.jsonl")
    assert json.loads(measured.out)["metrics"] == json.loads(ran.out)["metrics"]


def test_rounds_are_told_on_standard_error_and_the_text_follows(cli: Cli, script: Script) -> None:
    done = cli("run", "--prompt", "x", "--rounds")
    assert done.out == script.text
    assert script.start is not None
    assert script.start.level == "summary"
    rounds = [line for line in done.err.splitlines() if line.startswith("r")]
    assert len(rounds) == sum(isinstance(e, events.RoundEnd) for e in script.events)


def test_level_follows_from_what_is_asked(cli: Cli, script: Script, tmp_path: Path) -> None:
    cli("run", "--prompt", "x")
    assert script.start is not None
    assert script.start.level == "none"
    cli("run", "--prompt", "x", "--record", tmp_path / "a")
    assert script.start.level == "full"
    cli("run", "--prompt", "x", "--record", tmp_path / "a", "--level", "summary")
    assert script.start.level == "summary"


def _interrupted(cli: Cli, script: Script, error: BaseException, path: Path) -> Done:
    script.error = error
    return cli("run", "--prompt", "x", "--record", path)


def test_an_interrupt_leaves_a_whole_trace_with_its_reason(cli: Cli, script: Script, tmp_path: Path) -> None:
    done = _interrupted(cli, script, KeyboardInterrupt(), tmp_path / "a")
    assert done.code == 130
    assert done.out
    assert script.text.startswith(done.out)
    assert _end(tmp_path / "a").reason == "cancelled"
    assert "interrupted" in done.err


def test_a_failing_model_is_one_line_exit_code_1_and_a_trace_with_the_reason(
    cli: Cli, script: Script, tmp_path: Path
) -> None:
    done = _interrupted(cli, script, RuntimeError("out of memory\nsome\nmore"), tmp_path / "a")
    assert done.code == 1
    last = done.err.splitlines()[-1]
    assert last.startswith("specviz: the run failed: RuntimeError: out of memory some more")
    assert "Traceback" not in done.err
    end = _end(tmp_path / "a")
    assert (end.reason, end.message) == ("error", "out of memory\nsome\nmore")


class _Shut(io.StringIO):
    """A pipe whose reader goes away after some rounds."""

    def __init__(self, writes: int) -> None:
        super().__init__()
        self.left = writes

    def write(self, text: str) -> int:
        self.left -= 1
        if self.left < 0:
            raise BrokenPipeError
        return super().write(text)


def test_a_closed_pipe_is_quiet_and_leaves_a_trace_of_whole_rounds(
    cli: Cli, script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", _Shut(2))
    done = cli("run", "--prompt", "x", "--quiet", "--record", tmp_path / "a")
    assert (done.code, done.err) == (141, "")
    assert _end(tmp_path / "a").reason == "cancelled"
    with Trace(tmp_path / "a") as trace:
        records = list(trace.poll())
    starts, ends = (sum(isinstance(e, kind) for e in records) for kind in (events.RoundStart, events.RoundEnd))
    assert starts == ends == 3


@pytest.mark.parametrize(
    ("path", "says"),
    [("no/such/folder/a", "there is no folder 'no/such/folder'"), (".", "it is a folder; name a file in it")],
)
def test_a_place_that_cannot_be_written_is_refused_before_decoding(
    path: str, says: str, cli: Cli, script: Script
) -> None:
    line = cli("run", "--prompt", "x", "--record", path).line
    assert line.startswith(f"cannot record to '{path}': {says}")
    assert script.loaded is None


def test_a_file_that_is_no_trace_is_not_overwritten(cli: Cli, script: Script, tmp_path: Path) -> None:
    file = tmp_path / "thesis.jsonl"
    file.write_text("years of work")
    assert "it exists and is not a trace" in cli("run", "--prompt", "x", "--record", file).line
    assert file.read_text() == "years of work"


def test_an_object_that_nobody_reads_is_a_closed_pipe(
    cli: Cli, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", _Shut(0))
    assert cli("run", "--prompt", "x", "--json", "--quiet").code == 141


def test_a_draft_model_that_the_method_does_not_use_is_told(cli: Cli, script: Script) -> None:
    done = cli("run", "--prompt", "x", "--method", "ngram", "--draft", "some/where")
    assert done.code == 0
    assert done.err.startswith("specviz: warning: method ngram uses no draft model, --draft is not used\n")


def test_a_model_that_cannot_be_loaded_destroys_no_older_trace(cli: Cli, script: Script, tmp_path: Path) -> None:
    cli("run", "--prompt", "x", "--record", tmp_path / "a")
    before = (tmp_path / "a.sv.jsonl.gz").read_bytes()
    script.refuses = "no such model"
    assert cli("run", "--prompt", "x", "--record", tmp_path / "a").line == "no such model"
    assert (tmp_path / "a.sv.jsonl.gz").read_bytes() == before
    assert list(tmp_path.iterdir()) == [tmp_path / "a.sv.jsonl.gz"]


def test_a_full_disk_is_told_and_the_run_goes_on(
    cli: Cli, script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_fd: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    done = cli("run", "--prompt", "x", "--json", "--record", tmp_path / "a.sv.jsonl")
    found = json.loads(done.out)
    assert (done.code, found["text"], found["trace"]) == (0, script.text, None)
    assert done.err.count("specviz: warning: ") == 1
    assert os.strerror(errno.ENOSPC) in done.err


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_safe_text_and_whole_lines() -> None:
    script, screen = Script(), _Screen()
    stream = TextStream(screen)
    for event in script.events:
        stream(event)
    stream.finish()
    assert "\x1b" in script.text
    assert screen.getvalue() == terminal_text(script.text) + ("" if script.text.endswith("\n") else "\n")
    assert "\x1b" not in screen.getvalue()
    assert screen.getvalue().count("\n") >= script.text.count("\n")


def test_a_round_line_shows_every_token_of_a_chain_and_how_it_fared() -> None:
    out = io.StringIO()
    lines = RoundLines(out)
    recorded = make_events(new_tokens=24, temperature=1.0, seed=2)
    for event in recorded:
        lines(event)
    by_round = dict(line.split(maxsplit=1) for line in out.getvalue().splitlines())
    for end in (e for e in recorded if isinstance(e, events.RoundEnd)):
        tokens, counts = by_round[f"r{end.r}"].rsplit("  ", 1)
        assert counts.startswith(f"{end.n_accepted} of {end.n_drafted} kept, {end.n_emitted} new, ")
        assert tokens.count("✓") == end.n_accepted
        verdicts = [e for e in recorded if isinstance(e, events.Verify) and e.r == end.r]
        assert tokens.count("✗") == sum(v.status == "rejected" for v in verdicts)
    assert {"✗", "↻", "·", "★"} <= set(out.getvalue())  # the run shows every mark of a chain
    assert "\x1b" not in out.getvalue()


def test_a_round_without_a_draft_shows_its_closing_token_once() -> None:
    out = io.StringIO()
    lines = RoundLines(out)
    recorded = make_events(shape="none", new_tokens=8, level="summary")
    for event in recorded:
        lines(event)
    marks = [line.count("★") for line in out.getvalue().splitlines()]
    assert marks == [1] * sum(isinstance(e, events.RoundEnd) for e in recorded)


def test_a_tree_shows_tested_tokens_and_counts_the_others() -> None:
    out = io.StringIO()
    lines = RoundLines(out)
    recorded = make_events(shape="tree", new_tokens=16)
    for event in recorded:
        lines(event)
    first = out.getvalue().splitlines()[0]
    verdicts = [e for e in recorded if isinstance(e, events.Verify) and e.r == 1]
    untested = sum(v.order is None and v.status != "pruned" for v in verdicts)
    assert untested
    assert f"(+{untested} never tested)" in first


def test_verbose_rounds_say_why_and_stay_on_their_line() -> None:
    out = io.StringIO()
    lines = RoundLines(out, verbose=True)
    recorded = make_events(new_tokens=12, temperature=1.0)
    for event in recorded:
        lines(event)
    said = [line for line in out.getvalue().splitlines() if not line.startswith("r")]
    reached = sum(isinstance(e, events.Verify) and e.order is not None for e in recorded)
    closings = sum(isinstance(e, events.Closing) for e in recorded)
    assert len(said) == reached + closings
    assert all(line.startswith("      ") and line.strip() for line in said)


def test_a_stream_without_the_glyphs_gets_ascii() -> None:
    raw = io.BytesIO()
    lines = RoundLines(io.TextIOWrapper(raw, encoding="ascii"), verbose=True)
    for event in make_events(new_tokens=12, temperature=1.0):
        lines(event)
    assert b"+" in raw.getvalue()


def test_level_none_shows_what_was_kept() -> None:
    out = io.StringIO()
    lines = RoundLines(out)
    for event in make_events(new_tokens=12, level="none"):
        lines(event)
    first = out.getvalue().splitlines()[0]
    assert "✓" in first
    assert "✗" not in first


def test_what_is_only_said_while_waiting_is_erased_by_the_next_line() -> None:
    screen, pipe = _Screen(), io.StringIO()
    for stream in (screen, pipe):
        narrator = Narrator(stream)
        narrator.wait("loading")
        narrator.say("ready")
    assert screen.getvalue() == "loading\r\x1b[2Kready\n"
    assert pipe.getvalue() == "ready\n"


def test_the_narrator_shows_a_prompt_safely_and_warnings() -> None:
    err = io.StringIO()
    narrator = Narrator(err, prompt="line")
    narrator(events.Prefill(prompt=[1], text="a\x1b[2J\nb", n_prompt=1, seed=0, dur_ns=1))
    narrator(events.Warn(code="disk_full", message="full\x07"))
    assert err.getvalue() == "prompt  a⟨1B⟩[2J⏎b\nspecviz: warning: full⟨07⟩\n"
