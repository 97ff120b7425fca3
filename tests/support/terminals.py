"""A program on a terminal of its own: in tmux where it is installed, which draws what the program sends as a person's
terminal does; else on a bare pseudo-terminal. Both are asked alike."""

import contextlib
import fcntl
import os
import pty
import re
import select
import shlex
import shutil
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path
from typing import Protocol

PATIENCE = 120.0  # seconds until a screen that shows nothing counts as blank
SIZE = (120, 36)


class Terminal(Protocol):
    """One program on one terminal of `SIZE`. `folder`: for what it writes and leaves."""

    def __init__(self, argv: list[str], env: dict[str, str], folder: Path) -> None:
        """Start it."""

    def sent(self) -> bytes:
        """All that the program has drawn so far."""

    def screen(self) -> str:
        """What a person sees now, as near as this terminal can tell."""

    def press(self, key: str) -> None:
        """A key: a letter, `Home` or `Space`."""

    @property
    def ended(self) -> bool:
        """Whether the program has gone."""

    def close(self) -> None:
        """End the program, if it goes on, and the terminal."""


def real_terminal() -> type[Terminal]:
    """tmux, where it is."""
    return InTmux if shutil.which("tmux") else OnPty


def wait_for(terminal: Terminal, *words: str, since: int = 0) -> None:
    """Until all of these were drawn at some time, in any order; `since`: bytes that had been sent before."""
    deadline = time.monotonic() + PATIENCE
    while missing := [word for word in words if word.encode() not in terminal.sent()[since:]]:
        assert not terminal.ended, f"never drawn, and the program has ended: {missing}; {terminal.screen()}"
        assert time.monotonic() < deadline, f"never drawn: {missing}; {terminal.screen()}"
        time.sleep(0.1)


def plain(sent: bytes) -> str:
    """What was sent without the sequences that place and colour it."""
    return re.sub(r"(?:\x1b\[[0-9;?<>]*[A-Za-z]|\s)+", " ", sent.decode(errors="replace"))


class InTmux:
    """A server of its own, without anybody's settings. What the program sends is also copied to a file: a frame that
    stood for a moment is not missed."""

    def __init__(self, argv: list[str], env: dict[str, str], folder: Path) -> None:
        self._socket, self._copy = folder / "tmux", folder / "drawn"
        self._env = env
        width, height = (str(n) for n in SIZE)
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", width, "-y", height, "sh")
        self._tmux("pipe-pane", f"cat >> {shlex.quote(str(self._copy))}")  # before anything is drawn
        self._tmux("send-keys", "-l", f"exec {shlex.join(argv)}")
        self._tmux("send-keys", "Enter")

    def _tmux(self, *argv: str, check: bool = True) -> str:
        command = ["tmux", "-u", "-S", str(self._socket), *argv]
        return subprocess.run(command, env=self._env, check=check, capture_output=True, text=True).stdout

    def sent(self) -> bytes:
        return self._copy.read_bytes() if self._copy.exists() else b""

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p", check=False)

    def press(self, key: str) -> None:
        self._tmux("send-keys", key)

    @property
    def ended(self) -> bool:
        return not self._tmux("list-panes", check=False)

    def close(self) -> None:
        self._tmux("kill-server", check=False)


class OnPty:
    """What the program sends is kept; nothing draws it."""

    _KEYS = {"Home": b"\x1b[H", "Space": b" "}

    def __init__(self, argv: list[str], env: dict[str, str], folder: Path) -> None:
        self._master, slave = pty.openpty()
        width, height = SIZE
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        self._process = subprocess.Popen(
            argv, env=env, stdin=slave, stdout=slave, stderr=slave, cwd=folder, start_new_session=True
        )
        os.close(slave)
        self._sent = b""

    def sent(self) -> bytes:
        with contextlib.suppress(OSError):  # the program has gone, and its end of the terminal with it
            while select.select([self._master], [], [], 0)[0] and (read := os.read(self._master, 1 << 16)):
                self._sent += read
        return self._sent

    def screen(self) -> str:
        return plain(self.sent()[-6000:])

    def press(self, key: str) -> None:
        os.write(self._master, self._KEYS.get(key, key.encode()))

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):  # it leads a group of its own
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._master)
