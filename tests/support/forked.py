"""Processes of the package that need not import it: forked from one that has, and to their tests no other than spawned.

`command(MODULE, *args)` is what to give `Popen` in place of `[python, "-m", MODULE, *args]`. What it starts is a small
process that hands its standard streams to the fork, passes signals on, and ends with its exit code. Each kind of
process is spawned for real by some test as well.
"""

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from select import select
from tempfile import mkdtemp

_BEFORE = ("specviz.engine.run.worker", "specviz.cli", "transformers.models.llama.modeling_llama")
_STUB = """
import os, signal, socket, sys
link = socket.socket(socket.AF_UNIX)
link.connect(sys.argv[1])
socket.send_fds(link, ["\\0".join(sys.argv[2:]).encode()], [0, 1, 2])
pid = int(link.recv(20))
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: os.kill(pid, number))
link.sendall(b"go")
os.closerange(0, 3)
os._exit(int(link.recv(20) or b"1"))
"""


def command(module: str, *args: str) -> list[str]:
    """For `Popen`: the `main` of a module with these arguments."""
    return [sys.executable, "-I", "-S", "-c", _STUB, _parent(), module, *args]


@cache
def _parent() -> str:
    """Where the process listens that has imported everything; it goes when this one does."""
    path = str(Path(mkdtemp()) / "parent")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-c", f"from support import forked; forked.serve({path!r}, {os.getpid()})"]
    process = subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert process.stdout
    assert process.stdout.readline() == b"ready\n"
    process.stdout.close()
    _kept.append(process)
    return path


_kept: list["subprocess.Popen[bytes]"] = []


def serve(path: str, owner: int) -> None:
    """Fork for whoever asks until the owner is gone. In the fork this returns, and the module's `main` ends it."""
    for name in _BEFORE:
        import_module(name)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen(16)
    listening.settimeout(1)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.write(1, b"ready\n")
    while os.getppid() == owner:
        try:
            link, _ = listening.accept()
        except TimeoutError:
            continue
        if os.fork() == 0:
            listening.close()
            return _begin(link)
        link.close()
    os.unlink(path)
    os.rmdir(os.path.dirname(path))
    os._exit(0)


def _begin(link: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    link.setblocking(True)
    said, streams, _, _ = socket.recv_fds(link, 1 << 16, 3)
    if pid := os.fork():
        for stream in streams:
            os.close(stream)
        _watch(link, pid)
    for at, stream in enumerate(streams):
        os.dup2(stream, at)
        os.close(stream)
    link.close()
    module, *args = said.decode().split("\0")
    sys.argv = [module, *args]
    sys.exit(import_module(module).main())


def _watch(link: socket.socket, pid: int) -> None:
    """Tell the one who asked the number of the process and how it ended; when that one is killed, so is this."""
    link.sendall(str(pid).encode())
    link.recv(2)
    ended = 0
    while ended == 0:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if not ended and select([link], [], [], 0.01)[0]:
            os.kill(pid, signal.SIGKILL)
            ended, status = os.waitpid(pid, 0)
    with suppress(OSError):
        link.sendall(str(os.waitstatus_to_exitcode(status) % 256).encode())
    os._exit(0)
