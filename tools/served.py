"""`specviz web` in a process of its own, for measurements: its address, its memory, and how it ends."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Dashboard:
    """Where it is, and its process."""

    url: str
    process: "subprocess.Popen[str]"

    @property
    def mb(self) -> float:
        """Its resident memory."""
        return resident_mb(self.process.pid)


def cpu_s(pid: int) -> float:
    """Processor time of a process so far, in seconds: what it worked, however busy the machine is. Linux."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """Of a process; 0 when it has gone."""
    told = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return int(told.stdout) / 1e3 if told.stdout.strip() else 0.0


def children(pid: int) -> list[int]:
    """The processes that one has started."""
    told = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(word) for word in told.stdout.split()]


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def dashboard(
    words: Sequence[str], command: Sequence[str] = ("-m", "specviz", "web", "--no-open")
) -> Iterator[Dashboard]:
    """Start it with these words on a free port; it is gone afterwards. `command`: another program that is told a port.

    Whatever prints the first line on standard error or output is taken for ready.
    """
    port = free_port()
    line = [sys.executable, *command, "--port", str(port), *words]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            for said in process.stdout:
                if "http://" in said:
                    break
            else:
                raise SystemExit(f"the dashboard did not start: {' '.join(line)}")
            threading.Thread(target=_drain, args=(process,), daemon=True).start()
            yield Dashboard(f"http://127.0.0.1:{port}", process)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()


def _drain(process: "subprocess.Popen[str]") -> None:
    """What it says goes on to standard error: a full pipe would hold it up."""
    assert process.stdout is not None
    for line in process.stdout:
        sys.stderr.write(line)
