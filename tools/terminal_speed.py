"""What a step of the terminal costs: `python tools/terminal_speed.py [--nodes 256] [--size 120x36] [--steps 200]`.

The application runs on a pseudo-terminal and replays a recording whose trees were filled up to so many nodes; each step
is timed from the key to the last byte that is drawn. Then rounds are walked at 200 a second for some seconds: the
largest gap between two paintings is said, and how many rounds a second of processor time paints. A card for people on
standard error, one line of JSON on standard output.
"""

import argparse
import asyncio
import contextlib
import fcntl
import json
import os
import pty
import statistics
import struct
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path
from typing import Any

import msgspec

from specviz import events as ev
from specviz.sources import TraceFile
from specviz.sources.bundled import bundled_traces
from specviz_tui.app import SpecvizApp
from specviz_tui.screens.library import Library
from specviz_tui.screens.main import MainScreen

SOURCE = "explain-eagle3"
PER_SECOND, SECONDS = 200, 4


def filled(n_nodes: int) -> list[ev.Event]:
    """The recording with trees as large as asked: nodes that were pruned are sent to the target, and not reached."""
    source = TraceFile(bundled_traces()[SOURCE])
    out: list[ev.Event] = []
    kept: set[int] = set()
    for event in source.poll():
        if isinstance(event, ev.RoundStart):
            kept = set()
        if isinstance(event, ev.Node):
            room = len(kept) < n_nodes and (event.parent in kept or event.depth == 1)
            if event.kept or room:
                kept.add(event.node)
                event.kept = event.fed = True
        if isinstance(event, ev.Verify) and event.status == "pruned" and event.node in kept:
            event.status, event.why = "untested", "sibling_kept"
        out.append(event)
    source.close()
    return out


class Probe:
    """Walks through the recording by itself, and writes down what each step took."""

    def __init__(self, app: SpecvizApp, steps: int) -> None:
        self.app, self._steps = app, steps
        self.found: dict[str, Any] = {}

    async def walk(self, _pilot: object) -> None:
        """Measure once everything is on screen."""
        screen = self.app.screen_stack[0]
        assert isinstance(screen, MainScreen)
        player = self.app.feed.player
        while screen.frame is None:
            await asyncio.sleep(0.1)
        player.pause()
        player.first()
        await asyncio.sleep(1.0)
        self.found["steps"] = [await self._timed(screen) for _ in range(self._steps)]
        self.found["replay"] = await self._replayed(screen)
        self.app.exit()

    async def _timed(self, screen: MainScreen) -> tuple[float, float]:
        wall, cpu = time.perf_counter(), time.process_time()
        screen.action_step(1)
        await self._painted(screen)
        return time.perf_counter() - wall, time.process_time() - cpu

    async def _painted(self, screen: MainScreen) -> None:
        done = asyncio.Event()
        screen.call_later(lambda: screen.call_after_refresh(done.set))  # behind the painting that is due
        with contextlib.suppress(TimeoutError):  # where a step changes nothing on screen nobody says so
            await asyncio.wait_for(done.wait(), 0.5)

    async def _replayed(self, screen: MainScreen) -> dict[str, float]:
        player, gaps, n = self.app.feed.player, [], 0
        n_rounds = len(player.run.rounds)
        began, cpu = time.perf_counter(), time.process_time()
        last = began
        while (now := time.perf_counter()) - began < SECONDS:
            due = int((now - began) * PER_SECOND)
            if due > n:
                n = due
                screen.go(player.seek_index(due % n_rounds))
                await self._painted(screen)
                gaps.append(time.perf_counter() - last)
                last = time.perf_counter()
            await asyncio.sleep(0.001)
        return {
            "frames_per_second": len(gaps) / SECONDS,
            "longest_gap_ms": 1e3 * max(gaps),
            "rounds": n,
            "rounds_per_cpu_second": len(gaps) / (time.process_time() - cpu),
        }


def measured(path: Path, size: tuple[int, int], steps: int) -> dict[str, Any]:
    """On a terminal of this size, whose output is read and thrown away."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
    before = os.dup(2)
    threading.Thread(target=_drain, args=(ours,), daemon=True).start()
    os.dup2(theirs, 0)
    os.dup2(theirs, 2)
    os.environ |= {"COLUMNS": str(size[0]), "LINES": str(size[1]), "COLORTERM": "truecolor", "TERM": "xterm-256color"}
    library = Library()
    probe = Probe(SpecvizApp(library, library.trace(path)), steps)
    try:
        probe.app.run(auto_pilot=probe.walk)
    finally:
        os.dup2(before, 2)
    if "replay" not in probe.found:
        raise SystemExit(_said.decode(errors="replace"))
    return probe.found


_said = bytearray()  # the end of what was drawn: an error stands there


def _drain(fd: int) -> None:
    while read := os.read(fd, 1 << 16):
        _said.extend(read)
        del _said[:-8000]


def _share(values: list[float], at: float) -> float:
    return sorted(values)[min(len(values) - 1, int(at * len(values)))]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=256)
    parser.add_argument("--size", default="120x36")
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    width, _, height = options.size.partition("x")
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "filled.sv.jsonl"
        path.write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in filled(options.nodes)))
        found = measured(path, (int(width), int(height)), options.steps)
    walls, cpus = ([1e3 * pair[k] for pair in found["steps"]] for k in (0, 1))
    card = {
        "nodes": options.nodes,
        "size": options.size,
        "steps": len(walls),
        "step_ms": {"median": statistics.median(walls), "p95": _share(walls, 0.95), "max": max(walls)},
        "step_cpu_ms": {"median": statistics.median(cpus), "p95": _share(cpus, 0.95), "max": max(cpus)},
        "replay": found["replay"],
        "load": load,
    }
    for name in ("step_ms", "step_cpu_ms", "replay"):
        print(f"{name:12} " + "  ".join(f"{k} {v:.1f}" for k, v in card[name].items()), file=sys.stderr)
    print(json.dumps(card))
    return 0


if __name__ == "__main__":
    sys.exit(main())
