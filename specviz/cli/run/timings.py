"""`--timings`: what the time to the first token of a cold start went into, on standard error.

Seconds by the wall and of the processor: on a busy machine the wall waits for others, the processor's time does not.
Stretches follow one another without a gap, so that they sum up to the whole. The interpreter's own start, before the
first line of this package, is known from when the system says that the process began.
"""

import resource
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from specviz import lean
from specviz.cli.printing import narrate
from specviz.events import Commit, Event, Header, Prefill
from specviz.text import byte_size, pad, running

if TYPE_CHECKING:
    from specviz.engine.memory import MemoryPlan
    from specviz.engine.model.rows import PromptChunk

_WHAT = {
    "start": "the interpreter and the command line",
    "imports": "torch, transformers and the engine",
    "target": "its weights and tokenizer, self-test",
    "draft": "its weights, or what is made of the target's",
    "models": "layers in one piece, the kernel, proof of exact rows",
    "session": "drafter, caches, lanes",
    "prefill": "the prompt through the models",
    "first round": "draft, pass and verdict, to the first token",
}


@dataclass
class Timings:
    """Seconds from process start to first token, by stage. `mark(name)` ends a stage; `sink` ends the last two."""

    wall: float = field(default_factory=time.perf_counter)
    cpu: float = 0.0  # the process began with 0
    loaded: float = 0.0  # MiB of the process with its models
    stretches: dict[str, tuple[float | None, float]] = field(default_factory=dict)
    header: Header | None = None  # of the run

    def mark(self, name: str) -> None:
        """End the stretch `name`, which began at the last mark."""
        wall, cpu = time.perf_counter(), time.process_time()
        since = _age() if name == "start" else wall - self.wall
        self.stretches[name] = (since, cpu - self.cpu)
        self.wall, self.cpu = wall, cpu
        if name == "models":
            self.loaded = _high_water()

    def sink(self, event: Event) -> None:
        """Watches a run until its first token."""
        if isinstance(event, Header):
            self.header = event
        elif isinstance(event, Prefill) and "prefill" not in self.stretches:
            self.mark("prefill")
        elif isinstance(event, Commit) and "first round" not in self.stretches:
            self.mark("first round")

    def tell(self, memory: "MemoryPlan | None" = None, chunks: "Sequence[PromptChunk]" = ()) -> None:
        """A line a stretch, a line a chunk of a long prompt, and memory; nothing where no token came."""
        if "first round" not in self.stretches:
            return
        narrate(f"{'to the first token':<14} {'wall':>9} {'processor':>10}")
        for name, (wall, cpu) in self.stretches.items():
            narrate(f"  {pad(name, 14)}  {_seconds(wall):>9} {_seconds(cpu):>9}  {_WHAT[name]}")
        walls, cpus = zip(*self.stretches.values(), strict=True)
        whole = sum(wall or 0.0 for wall in walls)
        narrate(f"  {'all':<14}  {_seconds(whole):>9} {_seconds(sum(cpus)):>9}")
        for line in (*_by_what(self.header), *_by_chunk(chunks), *_held(memory, self.loaded)):
            narrate(line)


def _by_what(header: Header | None) -> list[str]:
    """What computed: threads, products, and the lanes with what a probe of them found, where there was a choice."""
    if header is None:
        return []
    env, own = header.env, [f"lanes {header.lanes}"]
    if isinstance(n := env.get("threads"), int):
        own.insert(0, f"{n} thread{'' if n == 1 else 's'}")
    if env.get("products"):
        why = f" (no kernel: {running(str(env['no_kernel']))})" if env.get("no_kernel") else ""
        torchs = f"products of {running(str(env['products']))}{why}"
        own.insert(-1, "the kernel" if env["products"] == "compiled" else torchs)
    probed = env.get("lanes_ms")
    if isinstance(probed, dict) and probed:
        took = ", ".join(f"{running(name)} {ms:.2f} ms" for name, ms in probed.items())
        own[-1] += f" (a round beside its drafting, probed: {took})"
    if env.get("dtype"):
        own.append(running(str(env["dtype"])))
    return [f"computed by: {' · '.join(own)}"]


def _by_chunk(chunks: "Sequence[PromptChunk]") -> list[str]:
    """What a token of the prompt took, chunk by chunk, and how that grows with the text before it."""
    if len(chunks) < 2:
        return []
    lines = ["prompt, by chunk       wall  processor   a token"]
    for chunk in chunks:
        walls, cpus = (_seconds(ns / 1e9) for ns in (chunk.wall_ns, chunk.cpu_ns))
        span = f"{chunk.before:,} + {chunk.n_rows:,}"
        lines.append(f"  {span:<14}  {walls:>9} {cpus:>9}  {chunk.cpu_ns / chunk.n_rows / 1e6:5.2f} ms")
    first, more = growth(chunks)
    return [*lines, f"  a token: {first:.2f} ms, and {more:.2f} ms for every 1,000 tokens before it (attention)"]


def growth(chunks: "Sequence[PromptChunk]") -> tuple[float, float]:
    """Milliseconds of the processor that a token takes behind nothing, and more for every 1,000 tokens before it: the
    straight line nearest to the chunks, each counted by its tokens."""
    n = sum(chunk.n_rows for chunk in chunks)
    behind = [chunk.before + chunk.n_rows / 2 for chunk in chunks]
    took = [chunk.cpu_ns / chunk.n_rows / 1e6 for chunk in chunks]
    at, mean = (sum(c.n_rows * x for c, x in zip(chunks, xs, strict=True)) / n for xs in (behind, took))
    spread = sum(c.n_rows * (x - at) ** 2 for c, x in zip(chunks, behind, strict=True))
    pull = sum(c.n_rows * (x - at) * (y - mean) for c, x, y in zip(chunks, behind, took, strict=True))
    slope = pull / spread if spread else 0.0
    return mean - slope * at, slope * 1000


def memory_words(plan: Mapping[str, int]) -> str:
    """`weights 269 MB, caches 199 MB (8,640 slots), passes 271 MB`, of what a header tells."""
    weights, caches, passes = (byte_size(plan[name]) for name in ("weights", "caches", "work"))
    return f"weights {weights}, caches {caches} ({plan['slots']:,} slots), passes {passes}"


def _held(memory: "MemoryPlan | None", before: float) -> list[str]:
    """What was predicted to be taken beside the models, and what was: the most held beyond `before` (MiB)."""
    if memory is None:
        return []
    taken = byte_size(round((_high_water() - before) * (1 << 20)))
    words = memory_words(asdict(memory))
    return [f"memory: {words}: {byte_size(memory.needed)} predicted beside the models, {taken} taken"]


def _age() -> float | None:
    """Seconds since this process began; None where it is not our own, or nobody says."""
    if not lean.own_process:
        return None
    import psutil

    return max(0.0, time.time() - float(psutil.Process().create_time()))


def _high_water() -> float:
    """Most resident memory of this process so far, MiB."""
    with suppress(OSError, IndexError, ValueError):
        # Not `ru_maxrss`: on Linux that survives the exec, so a child would start with its parent's peak.
        return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (1 << 20) if sys.platform == "darwin" else most / 1024


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} s"
