"""`specviz run --tensor-parallel N`: one process decodes, the others hold their parts of the target and follow.

The others are started here, or were by torchrun: then every process comes this way, and all but the first follow.
"""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from specviz.cli import BAD_INPUT
from specviz.cli.printing import narrate
from specviz.cli.request import RunRequest, checked_device, checked_dtype
from specviz.text import running

if TYPE_CHECKING:
    from specviz.engine.model.files.loading import Loaded

Decoded = Callable[[RunRequest, "Loaded"], None]


def run_parted(given: Mapping[str, Any], decoded: Decoded) -> None:
    """This process's part in a run. Raises SpecvizError for what the user can mend."""
    from specviz.engine.model.parted.loading import check_heads, follow, leading, load_parted, ranks

    models = (given["target"], checked_device(given["device"]), checked_dtype(given["dtype"]))
    n = given["tensor_parallel"]
    if os.environ.get("RANK", "0") != "0":
        follow(load_parted(*models, ranks(n)))
        return
    request = RunRequest.of(given)
    check_heads(given["target"], n)
    with _others(n, models) as loading:
        loaded = load_parted(*models, ranks(n))
        loading.set()
        with leading(loaded) as target:
            decoded(request, target)


@contextmanager
def _others(n: int, models: tuple[str | None, ...]) -> Iterator[threading.Event]:
    """The other processes, unless torchrun started them; ended with the block. The event: they have loaded."""
    loaded = threading.Event()
    if "WORLD_SIZE" in os.environ:
        yield loaded
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(n)}
    os.environ.update(shared, RANK="0", LOCAL_RANK="0")
    words = [sys.executable, "-m", "specviz", "run", "--tensor-parallel", str(n)]
    for option, value in zip(("--target", "--device", "--dtype"), models, strict=True):
        words += [] if value is None else [option, value]
    started = [
        subprocess.Popen(
            words,
            env={**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # an interrupt is for the process that decodes
        )
        for rank in range(1, n)
    ]
    for process in started:
        threading.Thread(target=_watch, args=(process, loaded), daemon=True).start()
    try:
        yield loaded
        for process in started:
            process.wait(30)
    finally:
        loaded.set()
        for process in started:
            process.kill()
        for name in (*shared, "RANK", "LOCAL_RANK"):
            os.environ.pop(name, None)


def _watch(process: "subprocess.Popen[str]", loaded: threading.Event) -> None:
    """End the run when a process ends while the models are loaded: the others would wait for it for hours.

    Nothing is lost by that, for no trace is open yet. Later the broken connection tells.
    """
    assert process.stderr is not None
    said = process.stderr.read().strip().splitlines()
    if process.wait() != 0 and not loaded.is_set():
        narrate(running(said[-1]) if said else f"specviz: a process of the parted target ended ({process.returncode})")
        os._exit(BAD_INPUT)
