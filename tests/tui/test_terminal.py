"""`specviz tui` on a terminal of its own, with each of its three streams sent elsewhere or closed."""

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.terminals import PATIENCE, plain
from support.traces import make_events, write_trace

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """Both ends of a terminal of 120×36."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 36, 120, 0, 0))
    yield master, slave
    os.close(master)
    os.close(slave)


Starter = Callable[[str, Path, int], "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Starter]:
    """Starts the command; whatever became of the test, its shell and all below it have gone afterwards."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(redirected: str, trace: Path, slave: int) -> subprocess.Popen[bytes]:
        started.append(begun(redirected, trace, slave))
        return started[-1]

    yield begin
    for process in started:
        with contextlib.suppress(ProcessLookupError):  # each leads a group of its own
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def begun(redirected: str, trace: Path, slave: int) -> subprocess.Popen[bytes]:
    """The command as a shell starts it, on the terminal but for what is redirected."""
    roots = [ROOT, *(ROOT / name for name in ("tui", "app", "assets", "train", "lab"))]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, roots)), "TERM": "xterm-256color"}
    line = f'"{sys.executable}" -m specviz tui --replay "{trace}" {redirected}'
    return subprocess.Popen(
        ["sh", "-c", line],
        env=env,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=trace.parent,
        start_new_session=True,
    )


def drawn(master: int, until: bytes, before: bytes = b"", process: "subprocess.Popen[bytes] | None" = None) -> bytes:
    """All that the terminal was sent, `before` included, as soon as it holds these words: wherever a read ends, a word
    that it cuts is whole here. `process`: told of where they never come."""
    sent, deadline = before, time.monotonic() + PATIENCE
    while until not in sent:
        ended = "" if process is None else f" (the program: {process.poll()})"
        assert time.monotonic() < deadline, f"never on the screen: {until!r}{ended}; {plain(sent[-6000:])}"
        if select.select([master], [], [], 0.2)[0]:
            sent += os.read(master, 1 << 16)
    return sent


@pytest.mark.parametrize("redirected", ["2>log", "2>/dev/null", "2>&-", ""])
def test_the_screen_is_drawn_wherever_standard_error_goes(
    terminal: tuple[int, int], start: Starter, tmp_path: Path, redirected: str
) -> None:
    """The library draws on standard error; a log of it must take neither the screen away nor the drawing in."""
    master, slave = terminal
    process = start(redirected, write_trace(tmp_path / "run", make_events(temperature=0.8)), slave)
    drawn(master, b"Draft tree")
    os.write(master, b"q")
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None:
        assert time.monotonic() < deadline
        if select.select([master], [], [], 0.05)[0]:
            os.read(master, 1 << 16)
    assert process.returncode == 0
    if redirected == "2>log":
        assert (tmp_path / "log").read_bytes() == b""


@pytest.mark.parametrize("redirected", ["</dev/null", "<&-", ">out", ">&-"])
def test_no_keyboard_or_no_screen_is_one_line_and_code_2(
    terminal: tuple[int, int], start: Starter, tmp_path: Path, redirected: str
) -> None:
    master, slave = terminal
    process = start(redirected, write_trace(tmp_path / "run", make_events()), slave)
    assert process.wait(PATIENCE) == 2
    assert drawn(master, b"\n").decode().splitlines() == [
        "specviz: no terminal: specviz tui needs one; 'specviz stats FILE' and 'specviz run' work without"
    ]


def test_a_terminal_that_goes_takes_the_program_with_it(start: Starter, tmp_path: Path) -> None:
    """No signal tells it: the terminal is not the one that controls its session."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 36, 120, 0, 0))
    process = start("", write_trace(tmp_path / "run", make_events()), slave)
    drawn(master, b"Draft tree")
    os.close(slave)
    os.close(master)
    process.wait(PATIENCE)
    assert process.returncode in (0, 128 + signal.SIGHUP)
