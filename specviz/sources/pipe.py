"""`Pipe`: a child process that talks in lines. Three threads, so that nobody ever waits for anybody.

Standard output is drained into a callback line by line, standard error into a short tail, standard input is fed from a
queue. The child gets a session of its own: Ctrl-C reaches the front-end alone, which then asks the child to stop.
"""

import contextlib
import queue
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import IO

_TAIL = 50


class Pipe:
    """Starts `command`; `start()` begins to listen.

    `on_line` gets every line of output, `on_close` the exit code once the output has ended, each from a thread.
    """

    def __init__(
        self,
        command: Sequence[str],
        on_line: Callable[[bytes], None],
        on_close: Callable[[int], None],
        on_narration: Callable[[str], None] | None = None,
    ) -> None:
        self.tail: deque[str] = deque(maxlen=_TAIL)
        self._on_line, self._on_close, self._on_narration = on_line, on_close, on_narration
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
        """The child's process id."""
        return self._process.pid

    def send(self, line: bytes) -> None:
        """Queues one line for the child; never waits, and a child that is gone swallows it."""
        self._orders.put(line + b"\n")

    def close(self, grace: float) -> None:
        """Ends the child: closed input, then SIGTERM after `grace` seconds, then SIGKILL."""
        self._orders.put(None)
        for stop in (self._process.terminate, self._process.kill):
            try:
                self._process.wait(grace)
                break
            except subprocess.TimeoutExpired:
                stop()
        self._process.wait()
        for thread in self._threads:
            thread.join(1.0)  # a grandchild may keep a pipe open; its words are nobody's business any more

    def _feed(self, stdin: IO[bytes]) -> None:
        with contextlib.suppress(OSError):
            while (line := self._orders.get()) is not None:
                stdin.write(line)
                stdin.flush()
        with contextlib.suppress(OSError):
            stdin.close()

    def _listen(self, stderr: IO[bytes]) -> None:
        with stderr:
            for raw in stderr:
                line = raw.decode(errors="replace").rstrip()
                if line:
                    self.tail.append(line)
                if self._on_narration:
                    self._on_narration(line)

    def _drain(self, stdout: IO[bytes]) -> None:
        with stdout:
            for line in stdout:
                self._on_line(line)
        code = self._process.wait()
        self._threads[1].join(1.0)  # the last words on stderr say why
        self._orders.put(None)
        self._on_close(code)


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
