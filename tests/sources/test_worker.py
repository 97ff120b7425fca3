"""The worker source against a worker that misbehaves in every way a process can."""

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from specviz.commands import Shutdown, Start, Stop
from specviz.errors import SpecvizError, TraceError
from specviz.events import Beat, Catalogue, End, Event, Note, Refused, RoundEnd, Warn, encode
from specviz.events.run import At
from specviz.sources import Worker
from specviz.sources.pipe import Pipe
from specviz.trace import Trace, read_events
from support.traces import make_events

FAKE = Path(__file__).with_name("fake_worker.py")
EVENTS = make_events(temperature=1.0)
Spawn = Callable[..., Worker]


@pytest.fixture
def spawn(tmp_path: Path) -> Iterator[Spawn]:
    lines = tmp_path / "lines"
    lines.write_bytes(b"".join(encode(event) + b"\n" for event in EVENTS))
    workers: list[Worker] = []

    def start(manner: str, **options: object) -> Worker:
        worker = Worker(command=[sys.executable, str(FAKE), manner, str(lines)], **options)  # type: ignore[arg-type]
        workers.append(worker)
        return worker

    yield start
    for worker in workers:
        worker.close(0.2)


def drain(worker: Worker, until: Callable[[list[Event]], bool] | None = None) -> list[Event]:
    """Polls until the source has ended (or `until` holds), at most 20 s."""
    events: list[Event] = []
    deadline = time.monotonic() + 20
    while not (until(events) if until else worker.ended):
        assert time.monotonic() < deadline, f"waited 20 s; so far: {events[-3:]}; {worker.stderr_tail}"
        events += worker.poll()
        time.sleep(0.005)
    return events + worker.poll()


def within(holds: Callable[[], bool]) -> None:
    """Waits until it holds: at most 5 s, in which every kind of loss must be seen."""
    deadline = time.monotonic() + 5
    while not holds():
        assert time.monotonic() < deadline, "not seen within 5 s"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_whole_run_arrives_in_order_behind_the_catalogue(spawn: Spawn) -> None:
    worker = spawn("whole")
    events = drain(worker)
    assert isinstance(events[0], Catalogue)
    assert events[1:] == EVENTS
    assert worker.catalogue == events[0]
    assert not worker.live


def test_the_recording_holds_what_was_polled(spawn: Spawn, tmp_path: Path) -> None:
    worker = spawn("whole", record=tmp_path / "run")
    drain(worker)
    assert worker.recorded == [tmp_path / "run.sv.jsonl.gz"]
    recorded = read_events(worker.recorded[0], check=True)
    assert recorded[:-1] == EVENTS[:-1]
    assert isinstance(recorded[-1], End)
    assert recorded[-1].reason == "done"


@pytest.mark.parametrize(
    ("manner", "message"),
    [("sigkill", "SIGKILL - probably out of memory"), ("exit3", "exit code 3"), ("torn", "SIGKILL")],
)
def test_a_core_that_dies_leaves_core_lost_on_screen_and_in_the_file(
    spawn: Spawn, tmp_path: Path, manner: str, message: str
) -> None:
    worker = spawn(manner, record=tmp_path / "run")
    polled = drain(worker)
    recorded = read_events(worker.recorded[0], check=True)
    for last in (polled[-1], recorded[-1]):
        assert isinstance(last, End)
        assert last.reason == "core_lost"
        assert last.message is not None
        assert message in last.message
        assert "allocating the last byte" in last.message
    half = len(EVENTS) // 2
    assert [e for e in polled if not isinstance(e, Catalogue | Warn)][:half] == EVENTS[:half]
    assert polled[-1].r == EVENTS[half - 1].r


@pytest.mark.parametrize(
    ("manner", "message"),
    [("shut", "it closed its output"), ("deaf", "it closed its input"), ("orphan", "SIGKILL - probably out of memory")],
)
def test_a_core_that_cannot_be_heard_or_told_anything_is_lost(
    spawn: Spawn, tmp_path: Path, manner: str, message: str
) -> None:
    """It lives (or its child does) and holds a pipe open: the run gets its end, and no process stays."""
    worker = spawn(manner, record=tmp_path / "run")
    last = drain(worker)[-1]
    assert isinstance(last, End)
    assert last.reason == "core_lost"
    assert last.message is not None
    assert message in last.message
    assert not alive(worker.pid)
    with pytest.raises(SpecvizError, match="cannot 'stop': the core has ended"):
        worker.send(Stop())


def test_a_stopped_core_says_so_until_it_goes_on(spawn: Spawn) -> None:
    """SIGSTOP and SIGCONT: nothing is ended, for it may come back."""
    worker = spawn("beating")
    drain(worker, lambda got: any(isinstance(e, RoundEnd) for e in got))
    assert worker.silence is None
    os.kill(worker.pid, signal.SIGSTOP)
    within(lambda: worker.silence is not None)
    assert worker.silence == f"the core is stopped by a signal; kill -CONT {worker.pid} lets it go on"
    assert worker.live
    os.kill(worker.pid, signal.SIGCONT)
    within(lambda: worker.silence is None)


def test_a_core_without_signs_of_life_is_told_when_it_had_given_some(
    spawn: Spawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silence counts from the last line; a core that never gave a sign (an older one) is not judged by it."""
    monkeypatch.setattr("specviz.sources.worker.SILENT_S", 0.5)
    worker = spawn("beating")
    drain(worker, lambda got: any(isinstance(e, RoundEnd) for e in got))
    within(lambda: worker._beats)
    monkeypatch.setattr(Pipe, "stopped", False)  # where the system does not tell that a process stands still
    os.kill(worker.pid, signal.SIGSTOP)
    within(lambda: worker.silence is not None)
    assert re.fullmatch(r"the core has not answered for \d+ s", worker.silence or "")
    os.kill(worker.pid, signal.SIGCONT)
    within(lambda: worker.silence is None)
    quiet = spawn("silent")
    drain(quiet, lambda _: bool(quiet.stderr_tail))
    quiet._heard -= 60
    assert quiet.silence is None


def test_a_stopped_core_is_not_waited_for_at_the_end(spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> None:
    """It hears neither the command nor SIGTERM."""
    worker = spawn("beating")
    drain(worker, lambda got: any(isinstance(e, RoundEnd) for e in got))
    os.kill(worker.pid, signal.SIGSTOP)
    within(lambda: worker.silence is not None)
    waited: list[float] = []
    process = worker._pipe._process
    wait = process.wait
    monkeypatch.setattr(process, "wait", lambda timeout=None: (waited.append(timeout or 0), wait(timeout))[1])
    worker.close()
    assert not alive(worker.pid)
    assert sum(waited) < 1
    assert process.returncode == -signal.SIGKILL


def test_signs_of_life_are_no_events(spawn: Spawn, tmp_path: Path) -> None:
    worker = spawn("beating", record=tmp_path / "run")
    polled = drain(worker, lambda _: worker._beats)
    assert not [event for event in polled if isinstance(event, Beat)]
    assert worker.n_bad_lines == 0


def test_a_command_that_no_worker_takes_is_refused_before_it_is_sent(spawn: Spawn) -> None:
    worker = spawn("obey")
    drain(worker, lambda _: worker.catalogue is not None)
    with pytest.raises(SpecvizError, match=r"cannot 'start': the command has 17\.0 MiB, the core takes 16"):
        worker.send(Start(prompt="x" * (17 << 20)))
    worker.send(Stop(id=7))
    drain(worker, lambda got: any(isinstance(e, Refused) for e in got))


def test_garbage_is_reported_and_the_run_goes_on(spawn: Spawn) -> None:
    worker = spawn("garbage")
    events = drain(worker)
    warnings = [event for event in events if isinstance(event, Warn)]
    assert (
        worker.n_bad_lines == 3
    )  # two that are no JSON of ours, one round_end without its fields; an unknown record is none
    assert [warning.code for warning in warnings] == ["bad_line"] * 3
    assert "Loading weights" in warnings[0].message
    assert [event for event in events if not isinstance(event, Warn | Catalogue)] == EVENTS


def test_a_worker_that_never_answers_is_given_up(spawn: Spawn) -> None:
    worker = spawn("silent")
    drain(worker, lambda _: bool(worker.stderr_tail))
    assert worker.stderr_tail == ["loading for ever"]
    assert worker.catalogue is None
    assert worker.poll() == []
    assert worker.live
    worker.close(0.1)
    assert worker.ended


def test_a_worker_that_dies_before_it_is_ready_says_why(spawn: Spawn) -> None:
    worker = spawn("unready")
    (end,) = drain(worker)
    assert isinstance(end, End)
    assert end.reason == "core_lost"
    assert end.message is not None
    assert "no such folder: models/x" in end.message
    assert worker.catalogue is None


def test_a_core_without_memory_says_so_in_words(tmp_path: Path) -> None:
    """Python ends its traceback with a bare `MemoryError`."""
    worker = Worker(command=[sys.executable, "-c", "raise MemoryError"])
    (end,) = drain(worker)
    assert isinstance(end, End)
    assert end.message is not None
    assert end.message.endswith("out of memory")
    worker.close(0.2)


def test_commands_go_out_and_answers_come_back(spawn: Spawn) -> None:
    worker = spawn("obey")
    drain(worker, lambda _: worker.catalogue is not None)
    worker.send(Stop(id=7))
    events = drain(worker, lambda got: any(isinstance(e, Refused) for e in got))
    assert [e.id for e in events if isinstance(e, Refused)] == [7]
    worker.send(Start(prompt="x" * 300_000))  # more than a pipe holds: sending never waits
    drain(worker, lambda got: any(isinstance(e, RoundEnd) for e in got))
    assert worker.running
    worker.send(Shutdown())
    last = drain(worker)[-1]
    assert isinstance(last, End)
    assert last.reason == "stopped"
    with pytest.raises(SpecvizError, match="cannot 'start': the core has ended"):
        worker.send(Start(prompt="x"))


def test_closing_asks_first_and_the_trace_is_whole(spawn: Spawn, tmp_path: Path) -> None:
    worker = spawn("obey", record=tmp_path / "run")
    worker.send(Start(prompt="x"))
    drain(worker, lambda got: any(isinstance(e, RoundEnd) for e in got))
    worker.close(20)
    with Trace(worker.recorded[0], check=True) as trace:
        trace.poll()
        assert trace.end is not None
        assert trace.end.reason == "stopped"
        assert trace.intact()


def test_a_worker_that_will_not_leave_is_killed_and_the_run_counts_as_cancelled(spawn: Spawn, tmp_path: Path) -> None:
    worker = spawn("stubborn", record=tmp_path / "run")
    drain(worker, lambda got: any(isinstance(e, RoundEnd) for e in got))
    worker.close(0.1)
    last = drain(worker)[-1]
    assert isinstance(last, End)
    assert last.reason == "cancelled"
    recorded = read_events(worker.recorded[0], check=True)[-1]
    assert isinstance(recorded, End)
    assert (recorded.reason, recorded.message, recorded.i) == (last.reason, last.message, last.i)
    assert recorded.i == len(EVENTS) // 2


def test_a_second_run_is_recorded_beside_the_first(spawn: Spawn, tmp_path: Path) -> None:
    worker = spawn("twice", record=tmp_path / "run.sv.jsonl")
    drain(worker)
    assert [path.name for path in worker.recorded] == ["run.sv.jsonl.gz", "run-2.sv.jsonl.gz"]
    first, second = (read_events(path, check=True) for path in worker.recorded)
    assert first[:-1] == second[:-1] == EVENTS[:-1]


def test_a_note_of_the_front_end_stands_in_stream_and_file(spawn: Spawn, tmp_path: Path) -> None:
    worker = spawn("obey", record=tmp_path / "run")
    worker.send(Start(prompt="x"))
    drain(worker, lambda got: EVENTS[len(EVENTS) // 2 - 1] in got)  # all that comes before the end
    worker.note(Note(text="look here", at=At(r=1)))
    worker.close(20)
    note, end = worker.poll()
    assert isinstance(note, Note)
    assert isinstance(end, End)
    half = len(EVENTS) // 2
    assert (note.text, note.i, note.q, note.r) == ("look here", half, EVENTS[half - 1].q, EVENTS[half - 1].r)
    recorded = read_events(worker.recorded[0], check=True)
    assert recorded[half] == note
    assert len(recorded) == half + 2


def test_a_recording_over_something_else_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "notes.jsonl").write_text("my notes")
    with pytest.raises(TraceError, match="is not a trace; choose another name"):
        Worker(record=tmp_path / "notes.jsonl")


def test_an_unwritable_place_lets_the_run_go_on_and_tells(spawn: Spawn, tmp_path: Path) -> None:
    worker = spawn("whole", record=tmp_path / "nowhere" / "run")
    events = drain(worker)
    (warning,) = [event for event in events if isinstance(event, Warn)]
    assert warning.code == "disk_full"
    assert "No such file or directory" in warning.message
    assert worker.problem == warning.message
    assert [e for e in events if not isinstance(e, Warn | Catalogue)] == EVENTS
    assert worker.recorded == []


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(SpecvizError, match=r"cannot start the core \(no-such-program\): No such file"):
        Worker(command=["no-such-program"])
