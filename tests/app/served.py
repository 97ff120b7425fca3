"""A server of the dashboard in a process of its own, ended by the signal a person would send.

All are forks of one process that has imported what a server needs: that takes longer than all that many tests do there.
"""

import multiprocessing
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Served:
    """Where it is, and the token its pages are given."""

    url: str
    token: str
    process: ForkServerProcess

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def interrupt(self) -> int:
        """Ctrl-C; the exit code. It has 20 s to go."""
        self.signal(signal.SIGINT)
        self.process.join(20)
        assert self.process.exitcode is not None, "it does not go"
        return self.process.exitcode


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@cache
def _forks() -> ForkServerContext:
    """The process they are forks of; it ends with this one."""
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(["pytest", "streamlit", "specviz_app.main", "app.serve"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(str(_ROOT / name) for name in ("", "app", "assets", "tests")))
        for name in ("SPECVIZ_MODELS", "HF_HUB_CACHE", "OLLAMA_MODELS"):
            patch.setenv(name, "/nowhere")
        forkserver.ensure_running()
    return forks


def _serve(*how: Any) -> None:
    from app.serve import main  # in the fork alone: who only collects need not have what it imports

    main(*how)


@contextmanager
def served(replay: Path | None = None, port: int = 0, *manner: str) -> Iterator[Served]:
    """Start one on the port (0: a free one); it is gone afterwards. `manner`: of the scripted core."""
    port = port or free_port()
    token, end = _forks().Pipe(duplex=False)
    process = _forks().Process(target=_serve, args=(port, [*([str(replay)] if replay else []), *manner], end))
    process.start()
    end.close()
    with token:
        try:
            yield Served(f"http://127.0.0.1:{port}", token.recv(), process)
        finally:
            process.kill()
            process.join()
            process.close()
