"""`--timings`: what the time to the first token of a cold start went into, on standard error.

Seconds by the wall and of the processor: on a busy machine the wall waits for others, the processor's time does not.
The interpreter's own start, before the first line of this package, is told by the process's clock alone.
"""

import time
from dataclasses import dataclass, field

from specviz.cli.printing import narrate
from specviz.events import Commit, Event, Prefill
from specviz.text import pad

_WHAT = {
    "start": "the interpreter and the command line",
    "imports": "torch, transformers and the engine",
    "models": "weights, tokenizers, self-test, proof of exact rows",
    "session": "drafter, caches, lanes",
    "prefill": "the prompt through the models",
    "first round": "draft, pass and verdict, to the first token",
}


@dataclass
class Timings:
    """Stretches in order; `mark(name)` ends the one of that name. A sink of events ends the last two by itself."""

    wall: float = field(default_factory=time.perf_counter)
    cpu: float = 0.0  # the process began with 0
    found: dict[str, tuple[float | None, float]] = field(default_factory=dict)

    def mark(self, name: str) -> None:
        """The stretch since the last mark."""
        wall, cpu = time.perf_counter(), time.process_time()
        self.found[name] = (None if name == "start" else wall - self.wall, cpu - self.cpu)
        self.wall, self.cpu = wall, cpu

    def sink(self, event: Event) -> None:
        """Watches a run until its first token."""
        if isinstance(event, Prefill) and "prefill" not in self.found:
            self.mark("prefill")
        elif isinstance(event, Commit) and "first round" not in self.found:
            self.mark("first round")

    def tell(self) -> None:
        """A line a stretch; nothing where no token came."""
        if "first round" not in self.found:
            return
        narrate(f"{'to the first token':<14} {'wall':>9} {'processor':>10}")
        for name, (wall, cpu) in self.found.items():
            narrate(f"  {pad(name, 14)}  {_seconds(wall):>9} {_seconds(cpu):>9}  {_WHAT[name]}")
        walls, cpus = zip(*self.found.values(), strict=True)
        whole = sum(wall or 0.0 for wall in walls)
        narrate(f"  {'all':<14}  {_seconds(whole):>9} {_seconds(sum(cpus)):>9}")


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} s"
