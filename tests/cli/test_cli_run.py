"""`specviz run` with a scripted engine: what goes to which stream, and how a run ends, whatever ends it."""

import errno
import gzip
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from cli.conftest import Cli, Done
from cli.scripted import Script
from specviz import events
from specviz.metrics import Tally
from specviz.trace import Recorder, Trace
from support.traces import make_events, write_trace


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
    report = json.loads(done.out)
    assert done.out.count("\n") == 1
    assert report["text"] == script.text
    assert report["tokens"] == script.tokens
    assert (report["method"], report["verifier"], report["lossless"]) == ("draft", "walk", True)
    assert report["rounds"] == sum(isinstance(e, events.RoundEnd) for e in script.events)
    assert report["trace"] == str(tmp_path / "a.sv.jsonl.gz")
    metrics = Tally().add_all(script.events).summary()
    assert report["metrics"] == json.loads(msgspec.json.encode(metrics.as_dict()))
    spent = [e.stage_ns for e in script.events if isinstance(e, events.RoundEnd)]
    assert report["timings"]["target"] == pytest.approx(sum(ns["target"] for ns in spent) / 1e6, abs=1e-3)
    assert {"prefill", "draft", "target", "verdict", "commit", "adapt", "other"} <= report["timings"].keys()


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
    cli("run", "--prompt", "x", "--record", tmp_path / "b", "--level", "summary")
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
    [
        ("no/such/folder/a", "there is no folder 'no/such/folder'"),
        (".", "it is a folder; name a file in it"),
        ("/dev/null", "it is no regular file; name one"),
    ],
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
    assert cli("run", "--prompt", "x", "--record", tmp_path / "a", "--force").line == "no such model"
    assert (tmp_path / "a.sv.jsonl.gz").read_bytes() == before
    assert list(tmp_path.iterdir()) == [tmp_path / "a.sv.jsonl.gz"]


def test_a_full_disk_is_told_and_the_run_goes_on(
    cli: Cli, script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_fd: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    done = cli("run", "--prompt", "x", "--json", "--record", tmp_path / "a.sv.jsonl")
    report = json.loads(done.out)
    assert (done.code, report["text"], report["trace"]) == (1, script.text, None)
    assert done.err.count("specviz: warning: ") == 1
    assert done.err.count(os.strerror(errno.ENOSPC)) == 2  # at once, and as the reason of the exit code
    assert done.err.splitlines()[-1].endswith(f"was not written whole: {os.strerror(errno.ENOSPC)}")


def test_output_that_cannot_be_written_is_said_as_everywhere(
    cli: Cli, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: object, event: events.Event) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("specviz.cli.printing.TextPrinter.__call__", full)
    done = cli("run", "--prompt", "x", "--quiet")
    assert done == (1, "", f"specviz: cannot write the output: {os.strerror(errno.ENOSPC)}\n")


def test_a_name_that_another_run_took_meanwhile_is_told_before_anything_is_decoded(
    cli: Cli, script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several begin at the same time, and find nobody there."""
    monkeypatch.setattr("specviz.trace.recorder.refuse_foreign", lambda path: None)
    other = Recorder(tmp_path / "a")
    other.write(script.events[0])
    done = cli("run", "--prompt", "x", "--quiet", "--force", "--record", tmp_path / "a")
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "another run is recording there; choose another name" in done.err
    assert done.out == ""
    other.close("done")
    assert [path.name for path in tmp_path.iterdir()] == ["a.sv.jsonl.gz"]


def test_a_redacted_recording_holds_no_text_and_says_so(cli: Cli, script: Script, tmp_path: Path) -> None:
    plain, ids = tmp_path / "plain", tmp_path / "ids"
    words = ("run", "--prompt", "x", "--record")
    script.events = [
        msgspec.structs.replace(e, text="a s3cr3t prompt") if isinstance(e, events.Prefill) else e
        for e in script.events
    ]
    err = cli(*words, plain).err
    assert "prompt, new text and settings" in err
    assert "--redact" in err
    assert "token ids in place of text: reversible" in cli(*words, ids, "--redact").err
    for path, holds in ((plain, True), (ids, False)):
        recorded = next(tmp_path.glob(f"{path.name}*"))
        data = gzip.decompress(recorded.read_bytes()) if recorded.suffix == ".gz" else recorded.read_bytes()
        assert (b"s3cr3t" in data) is holds
        assert recorded.stat().st_mode & 0o077 == 0


def test_redacting_without_a_recording_is_one_line(cli: Cli, script: Script) -> None:
    assert "name its file with --record" in cli("run", "--prompt", "x", "--redact").line


@pytest.mark.parametrize("flags", [[], ["--quiet"], ["--json", "--quiet"]], ids=str)
@pytest.mark.parametrize("room", [0, 12_000], ids=["no room", "room for some"])
def test_a_full_disk_is_exit_code_1_however_quiet(
    cli: Cli, script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str], room: int
) -> None:
    real, left = os.write, [room]

    def full(fd: int, data: bytes) -> int:
        count = min(left[0], len(data))
        if count == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left[0] -= count
        return real(fd, bytes(data[:count]))

    monkeypatch.setattr(os, "write", full)
    path = tmp_path / "a.sv.jsonl"
    done = cli("run", "--prompt", "x", "--record", path, *flags)
    assert done.code == 1
    assert script.text in (json.loads(done.out)["text"] if "--json" in flags else done.out)
    last = f"specviz: the trace {path} was not written whole: {os.strerror(errno.ENOSPC)}"
    assert done.err.splitlines()[-1] == last
    assert done.err == last + "\n" or "--quiet" not in flags
    assert path.exists() == (room > 0)


def _meanwhile(monkeypatch: pytest.MonkeyPatch, path: Path, happens: Callable[[], object]) -> None:
    """Something happens to the file that is recorded after its first line."""
    real, left = os.write, [happens]

    def write(fd: int, data: bytes) -> int:
        if path.exists() and left:
            left.pop()()
        return real(fd, data)

    monkeypatch.setattr(os, "write", write)


def test_a_trace_that_was_removed_meanwhile_is_not_announced(
    cli: Cli, script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.sv.jsonl"
    _meanwhile(monkeypatch, path, path.unlink)
    done = cli("run", "--prompt", "x", "--json", "--record", path)
    assert (done.code, json.loads(done.out)["trace"]) == (1, None)
    assert done.err.splitlines()[-1] == f"specviz: the trace {path} was not written whole: it was removed"
    assert list(tmp_path.iterdir()) == []


def test_a_file_put_in_the_trace_s_place_is_left_alone(
    cli: Cli, script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = tmp_path / "a.sv.jsonl", tmp_path / "thesis"
    other.write_text("years of work")
    _meanwhile(monkeypatch, path, lambda: other.rename(path))
    done = cli("run", "--prompt", "x", "--quiet", "--record", path)
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert "another file was put in its place, which is left alone" in done.err
    assert [(p, p.read_text()) for p in tmp_path.iterdir()] == [(path, "years of work")]


@pytest.mark.parametrize("packed", [True, False], ids=["zipped", "plain"])
def test_an_existing_trace_goes_by_force_only(cli: Cli, script: Script, tmp_path: Path, packed: bool) -> None:
    older = write_trace(tmp_path / "a", make_events(new_tokens=30))
    if not packed:
        older = _unzipped(older)
    before = older.read_bytes()
    for name in ("a", "a.sv.jsonl", "a.sv.jsonl.gz"):
        line = cli("run", "--prompt", "x", "--record", tmp_path / name).line
        assert line == (
            f"cannot record to '{tmp_path / name}': {older} is there; give --force to record over it, or another name"
        )
    assert (script.loaded, older.read_bytes()) == (None, before)
    assert cli("run", "--prompt", "x", "--record", tmp_path / "a", "--force").code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["a.sv.jsonl.gz"]
    assert (tmp_path / "a.sv.jsonl.gz").read_bytes() != before


def _unzipped(path: Path) -> Path:
    plain = path.with_name(path.name.removesuffix(".gz"))
    plain.write_bytes(gzip.decompress(path.read_bytes()))
    path.unlink()
    return plain


@pytest.mark.parametrize("command", ["run", "tui", "web"])
def test_what_force_would_not_help_with_is_told_first(cli: Cli, script: Script, tmp_path: Path, command: str) -> None:
    """A file that is no trace is never gone over; other bad input is told before an older trace is."""
    (tmp_path / "b.sv.jsonl").write_text("years of work")
    for force in ([], ["--force"]):
        line = cli(command, "--prompt", "x", "--record", tmp_path / "b.sv.jsonl", *force).line
        assert "it exists and is not a trace" in line
    assert (tmp_path / "b.sv.jsonl").read_text() == "years of work"
    write_trace(tmp_path / "a", make_events())
    assert "--force" not in cli(command, "--prompt", "x", "--record", tmp_path / "a", "--gamma", "-3").line
    assert "--force" in cli(command, "--prompt", "x", "--record", tmp_path / "a").line
