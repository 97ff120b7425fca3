"""A classroom: several browsers look at one run for minutes, one of them presents and the others follow it.

    python -m tools.classroom [--viewers 5] [--minutes 10] [--every 60] [--replay TRACE] [--out TABLE.json]

Serves a stream of prompts that the embedded pair decodes again and again (or, with `--replay`, a recording), and opens
that many pages of the stage in chromium, each in a context of its own, as different people have them. The first one
presents: it plays on its own, steps, chooses nodes and goes back to live, all the time; the others follow. Every
`--every` seconds a line: the resident memory of the server, the core and all of chromium (MB), the smallest and largest
heap of a page's JavaScript after it was cleaned up (MB), rounds, and how many pages stand where the first one stands.

At the end the slope of each over the second half, in MB an hour, and what any console said. Linux.
"""

import json
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

import click
import numpy as np

from tools.chromium import chromium
from tools.served import children, dashboard, resident_mb

_MOVES = ("ArrowRight", "ArrowRight", "]", "ArrowRight", "{", "End", "[", "ArrowRight", "}", "End")
_PROMPTS = 2_000
_LABEL = ".stage .place"


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of the table."""

    minutes: float
    server_mb: float
    core_mb: float
    chromium_mb: float
    heap_mb: tuple[float, float]
    rounds: str
    together: str


@click.command()
@click.option("--viewers", type=click.IntRange(1), default=5, show_default=True)
@click.option("--minutes", default=10.0, show_default=True)
@click.option("--every", default=60.0, show_default=True, help="Seconds between lines.")
@click.option("--replay", type=click.Path(exists=True, path_type=Path), help="A recording in place of a live run.")
@click.option("--out", type=click.Path(path_type=Path), help="Also write the samples here.")
@click.option("--serve", is_flag=True, hidden=True, help="Be the server.")
@click.option("--port", type=int, default=0, hidden=True)
def main(
    viewers: int, minutes: float, every: float, replay: Path | None, out: Path | None, serve: bool, port: int
) -> None:
    """Sample the memory of a classroom."""
    if serve:
        _serve(port)
        return
    command = ("-m", "tools.classroom", "--serve") if replay is None else ("-m", "specviz", "web", "--no-open")
    words = [] if replay is None else ["--replay", str(replay.absolute())]
    said: list[str] = []
    with dashboard(words, command) as served, chromium() as browser:
        address = f"{served.url}/stage" + ("?src=live+run" if replay is None else "")
        pages = [_open(browser, address + _mode(address, k), said) for k in range(viewers)]
        samples = _watch(served.process.pid, pages, minutes, every)
    for name in ("server_mb", "core_mb", "chromium_mb"):
        slope = _slope(samples, name)
        print(f"{name.removesuffix('_mb'):9} {'too few samples' if slope is None else f'{slope:+.0f} MB an hour'}")
    for line in dict.fromkeys(said):
        print(f"console ({said.count(line)} times) {line}")
    if out is not None:
        out.write_text(json.dumps([asdict(sample) for sample in samples], indent=1))


def _serve(port: int) -> None:
    """The dashboard with a core that decodes the bundled prompts, one after another, as long as anybody looks."""
    from specviz.commands import Start
    from specviz.sources.prompts import load_prompts
    from specviz_app.launcher import serve
    from specviz_app.server.core import Settings
    from specviz_app.server.server import Server

    server = Server(Settings(live=True))
    stream = list(load_prompts(None).stream)
    many = [stream[k % len(stream)] for k in range(_PROMPTS)]

    def begin() -> None:
        while server.core.catalogue is None:
            time.sleep(0.2)
        server.core.start(Start(method="draft", knobs={"temperature": 0.8}, stream=many), paced=True)

    threading.Thread(target=begin, daemon=True).start()
    serve(server, "127.0.0.1", port, False, lambda address: print(address, flush=True))


def _mode(address: str, k: int) -> str:
    return f"{'&' if '?' in address else '?'}mode={'present' if k == 0 else 'follow'}"


def _open(browser: Any, address: str, said: list[str]) -> Any:
    page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    page.on(
        "console", lambda message: said.append(f"{message.type}: {message.text}") if message.type == "error" else None
    )
    page.on("pageerror", lambda error: said.append(f"error: {error}"))
    page.goto(address)
    page.locator(".stage svg.tree .node").first.wait_for(timeout=120_000)
    return page


def _watch(server: int, pages: Sequence[Any], minutes: float, every: float) -> list[Sample]:
    begun, samples = time.monotonic(), list[Sample]()
    print(
        f"{'minute':>6} {'server':>7} {'core':>7} {'chromium':>9} {'heaps':>13} {'together':>9}  first page", flush=True
    )
    for k in count():
        while (left := begun + k * every - time.monotonic()) > 0:
            with suppress(Exception):  # a page that is busy misses a key
                pages[0].keyboard.press(_MOVES[int(time.monotonic() / 3) % len(_MOVES)])
            pages[0].wait_for_timeout(min(3000, left * 1000))
        samples.append(_sample(server, pages, (time.monotonic() - begun) / 60))
        print(_line(samples[-1]), flush=True)
        if samples[-1].minutes >= minutes:
            return samples
    return samples


def _sample(server: int, pages: Sequence[Any], minutes: float) -> Sample:
    pages[0].wait_for_timeout(1500)
    labels = [page.locator(_LABEL).first.inner_text().split("·")[0].strip() for page in pages]
    places = [label.split(" of ")[0] for label in labels]
    heaps = [_heap(page) for page in pages]
    chromiums = [pid for pid in _tree(_driver(server)) if pid]
    return Sample(
        round(minutes, 2),
        resident_mb(server),
        sum(resident_mb(pid) for pid in children(server)),
        sum(resident_mb(pid) for pid in chromiums),
        (min(heaps), max(heaps)),
        labels[0],
        f"{places.count(places[0])}/{len(places)}",
    )


def _heap(page: Any) -> float:
    """What its scripts hold after what nobody holds was collected, in MB."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    used = session.send("Runtime.getHeapUsage")["usedSize"]
    session.detach()
    return float(used) / 1e6


def _driver(server: int) -> list[int]:
    """Our own children but the server: what drives chromium."""
    import os

    return [pid for pid in children(os.getpid()) if pid != server]


def _tree(pids: Sequence[int]) -> list[int]:
    """All that they have started."""
    found = [below for pid in pids for below in children(pid)]
    return [*found, *_tree(found)] if found else []


def _line(sample: Sample) -> str:
    low, high = sample.heap_mb
    return (
        f"{sample.minutes:6.1f} {sample.server_mb:7.0f} {sample.core_mb:7.0f} {sample.chromium_mb:9.0f} "
        f"{f'{low:.1f} .. {high:.1f}':>13} {sample.together:>9}  {sample.rounds}"
    )


def _slope(samples: Sequence[Sample], name: str) -> float | None:
    """MB an hour over the second half, by least squares; None for fewer than three samples there."""
    late = samples[len(samples) // 2 :]
    if len(late) < 3:
        return None
    plain = [asdict(sample) for sample in late]
    minutes, mb = np.array([(each["minutes"], each[name]) for each in plain], float).T
    return float(np.polyfit(minutes, mb, 1)[0]) * 60


if __name__ == "__main__":
    sys.exit(main())
