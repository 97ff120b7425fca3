"""`Pipe`: a child process that talks in lines. Three threads, so that nobody ever waits for anybody.

Standard output is drained into a callback line by line, standard error into a short tail, standard input is fed from a
queue. The child gets a session of its own: Ctrl-C reaches the front-end alone, which then asks the child to stop.

A child is lost in more ways than by dying. One that closes a pipe can no longer be heard or told anything, so it is
ended; one that has died is gone even when a grandchild keeps its output open.
"""

import contextlib
import os
import queue
import select
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import IO

_TAIL = 50
_LOOK_S = 0.5  # seconds between two looks at the child
_GRACE_S = 1.0  # seconds in which a child that closed a pipe may leave by itself, then between the signals
_CHUNK = 1 << 18


class Pipe:
    """Starts `command`; `start()` begins to listen.

    `on_line` gets every line of output, `on_close` the exit code once the output has ended, each from a thread.
    """

    def __init__(
        self,
        command: Sequence[str],
        on_line: Callable[[bytes], None],
        on_close: Callable[[int], None],
    ) -> None:
        self.tail: deque[str] = deque(maxlen=_TAIL)
        self.fault: str | None = None  # why a child that lived had to be ended
        self._on_line, self._on_close = on_line, on_close
        self._closing = False
        self._fed = threading.Event()  # nothing more is written to the child
        self._orders: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._process = subprocess.Popen(
            list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        assert self._process.stdin
        assert self._process.stdout
        assert self._process.stderr
        self._threads = [
            threading.Thread(target=self._feed, args=(self._process.stdin,), daemon=True),
            threading.Thread(target=self._listen, args=(self._process.stderr,), daemon=True),
            threading.Thread(target=self._drain, args=(self._process.stdout,), daemon=True),
        ]

    def start(self) -> None:
        """Begins to listen and to feed."""
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def stopped(self) -> bool:
        """Whether the child stands still by a signal (SIGSTOP); False where the system cannot tell."""
        if not hasattr(os, "waitid"):
            return False
        try:
            status = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        return status is not None

    def send(self, line: bytes) -> None:
        """Queues one line for the child; never waits, and a child that is gone swallows it."""
        self._orders.put(line + b"\n")

    def close(self, grace: float) -> None:
        """Ends the child: closed input, then SIGTERM after `grace` seconds, then SIGKILL."""
        self._closing = True
        self._orders.put(None)
        self._end(grace)
        for thread in self._threads:
            thread.join(1.0)  # a grandchild may keep a pipe open; its output is ignored

    def _end(self, grace: float) -> None:
        for stop in (self._process.terminate, self._process.kill):
            if self.stopped:  # by a signal: it hears no other one
                self._process.kill()
            try:
                self._process.wait(grace)
                break
            except subprocess.TimeoutExpired:
                stop()
        self._process.wait()

    def _feed(self, stdin: IO[bytes]) -> None:
        with contextlib.suppress(OSError):
            while (line := self._orders.get()) is not None:
                stdin.write(line)
                stdin.flush()
        self._fed.set()
        with contextlib.suppress(OSError):
            stdin.close()

    def _listen(self, stderr: IO[bytes]) -> None:
        with stderr:
            for raw in stderr:
                line = raw.decode(errors="replace").rstrip()
                if line:  # Python's last word of a traceback for lack of memory says nothing to most people
                    self.tail.append("out of memory" if line == "MemoryError" else line)

    def _drain(self, stdout: IO[bytes]) -> None:
        with stdout:
            try:
                self._read(stdout.fileno())
            except Exception as error:  # whatever a line did to its reader, the child is not left to itself
                self.fault = f"its output could not be read: {type(error).__name__}: {error}"
            if self._process.poll() is None and not self._closing:
                self._await_exit("closed its output")
        code = self._process.wait()
        self._threads[1].join(1.0)  # the last words on stderr say why
        self._orders.put(None)
        self._on_close(code)

    def _read(self, fd: int) -> None:
        """Read lines until the output ends; check now and then that the child still takes input."""
        watch = select.poll()
        watch.register(fd, select.POLLIN)
        parts: list[bytes] = []
        ending, looked = False, time.monotonic()
        while True:
            ready = watch.poll(_LOOK_S * 1000)
            if not ready and self._process.poll() is not None:
                break  # it has died; a grandchild holds the pipe open
            if time.monotonic() - looked >= _LOOK_S:
                looked = time.monotonic()
                if self._deaf() and not ending:
                    ending = True
                    threading.Thread(target=self._await_exit, args=("closed its input",), daemon=True).start()
            if not ready:
                continue
            if not (chunk := os.read(fd, _CHUNK)):
                break
            *whole, rest = chunk.split(b"\n")
            for piece in whole:
                self._on_line(b"".join((*parts, piece)))
                parts = []
            if rest:
                parts.append(rest)
        if parts:
            self._on_line(b"".join(parts))

    def _deaf(self) -> bool:
        """Whether the child has closed its end of the input."""
        if self._closing or self._process.stdin is None:
            return False
        if self._fed.is_set():
            return True  # a write failed
        watch = select.poll()
        try:
            watch.register(self._process.stdin.fileno(), 0)
        except ValueError:  # just closed, by the other thread
            return False
        return any(what & (select.POLLERR | select.POLLHUP) for _, what in watch.poll(0))

    def _await_exit(self, what: str) -> None:
        """A child that dies closes its pipes a moment before: only one that stays is ended for it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_S)
            return
        self.fault = self.fault or f"it {what}"
        self._process.terminate()
        self._end(_GRACE_S)


def death(code: int) -> str:
    """How a process ended, in words."""
    number = -code if code < 0 else code - 128 if code > 128 else 0
    if not number:
        return f"exit code {code}"
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"exit code {code}"
    return f"{name} - probably out of memory" if name == "SIGKILL" else name
