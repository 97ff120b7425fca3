"""The worker process over its real pipe: runs, knobs, pause and step, refusals, and every way to end."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import pytest

from specviz.commands import (
    MAX_LINE,
    Command,
    Pause,
    Prompt,
    Resume,
    SetKnob,
    Shutdown,
    Start,
    StepRounds,
    Stop,
    encode_command,
)
from specviz.engine.run.worker import lines
from specviz.events import Beat, Catalogue, Commit, End, Event, Header, Knob, Prefill, Refused, RoundEnd, State, decode
from support.models import blurred, build, save

PATIENCE = 120.0  # seconds until a silent worker counts as dead; far above any honest answer


class Client:
    """A worker's other end: sends commands, collects events."""

    def __init__(self, *args: str) -> None:
        env = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        env["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "specviz.engine.run", "--threads", "1", *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
        )
        self.events: SimpleQueue[Event | None] = SimpleQueue()
        self.seen: list[Event] = []
        self.leaving = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def close_output(self) -> None:
        """Read no more, and say so: the reading thread closes the pipe at the next line."""
        self.leaving.set()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            if self.leaving.is_set():
                self.process.stdout.close()
                return
            event = decode(line)
            assert event is not None
            self.events.put(event)
        self.events.put(None)

    def send(self, command: Command) -> None:
        assert self.process.stdin
        self.process.stdin.write(encode_command(command) + b"\n")
        self.process.stdin.flush()

    def until(self, kind: type[Event], **fields: Any) -> Any:
        """Collect events until one of that kind with those fields."""
        while True:
            try:
                event = self.events.get(timeout=PATIENCE)
            except Empty:
                raise AssertionError(f"no {kind.__name__} {fields}; last: {self.seen[-3:]}") from None
            if event is None:
                raise AssertionError(f"worker ended before {kind.__name__}: {self.stderr()}")
            self.seen.append(event)
            if isinstance(event, kind) and all(getattr(event, k) == v for k, v in fields.items()):
                return event

    def stderr(self) -> str:
        self.process.kill()
        assert self.process.stderr
        return self.process.stderr.read().decode()[-800:]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A pair on disk."""
    root = tmp_path_factory.mktemp("pair")
    return save(build("llama", seed=1), root / "target"), save(blurred(build("llama", seed=1)), root / "draft")


def serve(folders: tuple[str, str]) -> Iterator[Client]:
    """A running worker that has said its catalogue."""
    client = Client("--target", folders[0], "--draft", folders[1])
    client.until(Catalogue)
    yield client
    client.process.kill()
    client.process.wait()
    for pipe in (client.process.stdin, client.process.stdout, client.process.stderr):
        assert pipe
        pipe.close()


@pytest.fixture(scope="module")
def shared(folders: tuple[str, str]) -> Iterator[Client]:
    """One worker for the tests that leave it alive and idle: loading takes seconds."""
    yield from serve(folders)


@pytest.fixture
def client(shared: Client) -> Client:
    """The shared worker with nothing collected."""
    shared.seen.clear()
    return shared


@pytest.fixture
def fresh(folders: tuple[str, str]) -> Iterator[Client]:
    """A worker of one's own, to be ended."""
    yield from serve(folders)


def start(**fields: Any) -> Start:
    """A short run; ends by its limit."""
    knobs = {"max_new_tokens": 30, **fields.pop("knobs", {})}
    return Start(prompt="ab ab ab", knobs=knobs, **fields)


def test_two_runs_without_reloading(client: Client) -> None:
    """Catalogue, idle, whole runs one after the other; the same request gives the same tokens."""
    texts = []
    for _ in range(2):
        client.send(start())
        client.until(Header)
        client.until(End, reason="done")
        commits = [e for e in client.seen if isinstance(e, Commit)]
        texts.append([t for c in commits for t in c.tokens])
        client.seen.clear()
    assert texts[0] == texts[1]
    assert len(texts[0]) == 30


def test_shutdown_ends_the_run_in_hand(fresh: Client) -> None:
    """The trace is ended, then the process."""
    fresh.send(start(knobs={"max_new_tokens": 150}))
    fresh.until(RoundEnd, r=1)
    fresh.send(Shutdown())
    fresh.until(End, reason="stopped")
    assert fresh.process.wait(PATIENCE) == 0


def test_pause_step_knob_resume(client: Client) -> None:
    """A paused start shows its prompt; a step runs one round; a knob is acknowledged with the round it applied in."""
    client.send(start(paused=True, knobs={"gamma": 2}))
    client.until(State, state="paused")
    client.send(StepRounds(n=2))
    client.until(RoundEnd, r=2)
    client.send(SetKnob(id=7, name="gamma", value=5))
    client.send(SetKnob(id=8, name="gama", value=5))
    assert "did you mean 'gamma'" in client.until(Refused, id=8).message
    client.send(StepRounds())
    assert client.until(RoundEnd, r=3).n_drafted == 5
    (ack,) = [e for e in client.seen if isinstance(e, Knob)]
    assert (ack.name, ack.old, ack.new, ack.requested_r, ack.applied_r) == ("gamma", 2, 5, 2, 3)
    client.send(Resume())
    client.until(End, reason="done")


def test_stop_ends_the_run_and_not_the_worker(client: Client) -> None:
    """Stop while paused, while running; then another prompt."""
    client.send(start(paused=True))
    client.until(State, state="paused")
    client.send(Stop())
    client.until(End, reason="stopped")
    client.send(start(knobs={"max_new_tokens": 150}))
    client.until(RoundEnd, r=2)
    client.send(Pause())
    client.send(Stop())
    client.until(End, reason="stopped")
    client.send(start())
    client.until(End, reason="done")


def test_refusals_keep_the_worker_alive(client: Client) -> None:
    """Nonsense, commands out of place, a bad method, an empty prompt."""
    assert client.process.stdin
    client.process.stdin.write(b'{"cmd": "fly", "id": 3}\nnot json\n')
    client.process.stdin.flush()
    assert client.until(Refused).id == 3
    assert "bad command" in client.until(Refused).message
    client.send(Resume(id=4))
    assert "nothing is running" in client.until(Refused, id=4).message
    client.send(start(method="draght", id=5))
    assert "did you mean 'draft'" in client.until(Refused, id=5).message
    client.send(Start(prompt="", id=6))
    assert "empty" in client.until(Refused, id=6).message
    client.send(start(verifier="tokenwise", knobs={"gamma": 99}, id=9))
    assert "0..64" in client.until(Refused, id=9).message
    client.send(start())
    client.until(End, reason="done")


def test_a_line_nested_too_deeply_is_refused_and_the_next_is_heard(client: Client) -> None:
    """Whatever a line holds: one line of refusal with its id, and the worker listens on."""
    assert client.process.stdin
    deep = b"[" * 100_000 + b"]" * 100_000
    for line in (
        b'{"id":3,"x":' + deep + b"}",
        b'{"cmd":"start","id":4,"knobs":{"gamma":' + deep + b"}}",
        deep,
        b"\xff",
    ):
        client.process.stdin.write(line + b"\n")
    client.process.stdin.flush()
    assert client.until(Refused, id=3).message == "bad command: nested too deeply"
    assert client.until(Refused, id=4).message == "bad command: nested too deeply"
    assert client.until(Refused, id=None).message == "bad command: Expected `object`, got `array`"
    assert "\n" not in client.until(Refused, id=None).message
    client.send(start())
    client.until(End, reason="done")


def test_a_knob_value_nobody_thought_of_does_not_end_the_run(client: Client) -> None:
    """Nested just deeply enough to be read."""
    client.send(start(paused=True))
    client.until(State, state="paused")
    value: Any = 3
    for _ in range(900):
        value = [value]
    client.send(SetKnob(id=7, name="gamma", value=value))
    assert "\n" not in client.until(Refused, id=7).message
    client.send(Resume())
    client.until(End, reason="done")


def test_a_line_that_is_too_long_is_passed_over(client: Client) -> None:
    """40 MB in one line: refused with its id and the limit, without a copy for every chunk."""
    assert client.process.stdin
    client.process.stdin.write(b'{"cmd":"start","id":5,"prompt":"' + b"x" * 40_000_000 + b'"}\n')
    client.process.stdin.flush()
    assert client.until(Refused, id=5).message == "bad command: the line is longer than 16 MiB"
    client.send(start())
    client.until(End, reason="done")


def test_lines_are_cut_at_the_limit_and_kept_whole_below(tmp_path: Path) -> None:
    """Whatever a read returns: the end of the last line needs no newline, an empty line is one."""
    path = tmp_path / "lines"
    whole = b"y" * MAX_LINE
    path.write_bytes(b"x" * (MAX_LINE + 70_000) + b"\nab\n\n" + whole + b"\ncd")
    fd = os.open(path, os.O_RDONLY)
    cut = list(lines(fd))
    os.close(fd)
    assert [len(line) for line in cut] == [MAX_LINE + 1, 2, 0, MAX_LINE, 2]
    assert cut[1:] == [b"ab", b"", whole, b"cd"]


def test_it_gives_signs_of_life_also_while_nothing_runs(client: Client) -> None:
    client.until(Beat)
    client.seen.clear()
    client.until(Beat)


def test_a_reader_that_goes_away_ends_the_worker(fresh: Client) -> None:
    """Output closed in the middle of a run, input left open: it finds out and leaves, also when it holds."""
    fresh.send(start(paused=True))
    fresh.until(State, state="paused")
    fresh.close_output()
    assert fresh.process.wait(PATIENCE) == 0


def test_a_reader_that_goes_away_ends_an_idle_worker(fresh: Client) -> None:
    fresh.until(State, state="idle")
    fresh.close_output()
    assert fresh.process.wait(PATIENCE) == 0


def test_closed_stdin_behind_a_bad_line_ends_the_worker(fresh: Client) -> None:
    assert fresh.process.stdin
    fresh.process.stdin.write(b'{"id":3,"x":' + b"[" * 3000 + b"]" * 3000 + b"}\n")
    fresh.process.stdin.close()
    assert fresh.process.wait(PATIENCE) == 0


def test_closed_stdin_ends_run_and_worker(fresh: Client) -> None:
    """The reader that goes away leaves a trace that ends, and no process behind."""
    fresh.send(start(paused=True))
    fresh.until(State, state="paused")
    assert fresh.process.stdin
    fresh.process.stdin.close()
    fresh.until(End, reason="stopped")
    assert fresh.process.wait(PATIENCE) == 0


def test_interrupt_is_cancelled(fresh: Client) -> None:
    """Ctrl-C reaches the worker too: the run in hand ends as cancelled."""
    fresh.send(start(knobs={"max_new_tokens": 150}))
    fresh.until(RoundEnd, r=1)
    fresh.process.send_signal(signal.SIGINT)
    fresh.until(End, reason="cancelled")


def test_a_bad_pair_is_one_line_and_exit_2(folders: tuple[str, str], tmp_path: Path) -> None:
    """Nothing is said on stdout, one line on stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "specviz.engine.run", "--target", str(tmp_path), "--draft", folders[1]],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert "no config.json" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_stream_is_one_run_of_many_queries(client: Client) -> None:
    """Over the wire: a knob of queries waits for the next one, and is refused once none follows."""
    stream = [Prompt(text=text, domain=text[:1]) for text in ("ab ab ab", "xyz", "12 1")]
    client.send(Start(stream=stream, knobs={"max_new_tokens": 6}, paused=True))
    client.until(State, state="paused")
    client.send(SetKnob(name="max_new_tokens", value=9))
    client.send(Resume())
    changed = client.until(Knob)
    assert (changed.name, changed.q, changed.applied_r) == ("max_new_tokens", 1, 1)
    end = client.until(End)
    assert end.reason == "done"
    prefills = [event for event in client.seen if isinstance(event, Prefill)]
    assert [(event.q, event.domain, event.text) for event in prefills] == [
        (q, prompt.domain, prompt.text) for q, prompt in enumerate(stream)
    ]
    lengths = [sum(e.n_emitted for e in client.seen if isinstance(e, RoundEnd) and e.q == q) for q in range(3)]
    assert lengths == [6, 9, 9]
    client.until(State, state="idle")
    client.send(Start(id=9, stream=[Prompt(text="ab"), Prompt(text="", where="p line 2")]))
    assert client.until(Refused).message.startswith("p line 2: the prompt is empty")
