"""A server of the dashboard in a process of its own, ended by the signal a person would send."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_SCRIPT = Path(__file__).with_name("serve.py")


@dataclass(frozen=True)
class Served:
    """Where it is, and the token its pages are given."""

    url: str
    token: str
    process: "subprocess.Popen[str]"

    def interrupt(self) -> int:
        """Ctrl-C; the exit code. Raises TimeoutExpired when it does not go within 20 s."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(20)


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def served(replay: Path | None = None, port: int = 0, *manner: str) -> Iterator[Served]:
    """Start one on the port (0: a free one); it is gone afterwards. `manner`: of the scripted core."""
    port = port or free_port()
    words = [sys.executable, str(_SCRIPT), str(port), *([str(replay)] if replay else []), *manner]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(str(_ROOT / name) for name in ("", "app", "assets", "tests"))}
    env |= dict.fromkeys(("SPECVIZ_MODELS", "HF_HUB_CACHE", "OLLAMA_MODELS"), "/nowhere")
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stdout
            token = process.stdout.readline().strip()
            assert token, "the server did not start"
            yield Served(f"http://127.0.0.1:{port}", token, process)
        finally:
            if process.poll() is None:
                process.kill()
