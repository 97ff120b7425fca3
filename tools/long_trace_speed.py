"""What a long recording costs to look at: its first frame, then many jumps to rounds anywhere, as a screen makes them.

    python -m tools.long_trace_speed TRACE [--jumps 200] [--json]

Processor time beside the clock's, since the machine may have other work. The first line is without an index (which is
made meanwhile in a process of its own, and waited for), the second with it. Memory is what is resident at the end.
"""

import json
import random
import resource
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from specviz.runlog.fold import Run
from specviz.sources.big_trace import BigTrace
from specviz.sources.live_run import IdleWords, LiveRun
from specviz.trace.files import resolve


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds and megabytes of one look."""

    what: str
    rounds: int
    first_s: float
    first_cpu_s: float
    jump_ms: float  # processor, median
    jump_p95_ms: float
    jump_max_ms: float
    rss_mb: float


@click.command()
@click.argument("trace")
@click.option("--jumps", default=200, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def main(trace: str, jumps: int, as_json: bool) -> None:
    """Look twice."""
    path = resolve(trace)
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "one.index"
        costs = [_look("first time", path, index, jumps), _look("with index", path, index, jumps)]
    for cost in costs:
        click.echo(json.dumps(asdict(cost)) if as_json else _words(cost))


def _look(what: str, path: Path, index: Path, jumps: int) -> Cost:
    begin, cpu = time.perf_counter(), time.process_time()
    live = LiveRun(BigTrace(path, index), IdleWords("", ""), animate=False)
    live.tick(0.0)
    live.live_player.seek_index(0)
    live.live_player.frame()
    first, first_cpu = time.perf_counter() - begin, time.process_time() - cpu
    while live.filling is not None:
        time.sleep(0.2)
        live.tick(time.monotonic())
    times = list(_jumps(live.run, live, jumps))
    rounds = len(live.run.rounds)
    live.close()
    p95 = statistics.quantiles(times, n=20)[-1]
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Cost(what, rounds, first, first_cpu, statistics.median(times), p95, max(times), rss)


def _jumps(run: Run, live: LiveRun, jumps: int) -> list[float]:
    """Milliseconds of processor time of this thread for each."""
    found, places = [], random.Random(0)
    for _ in range(jumps):
        begin = time.thread_time()
        live.live_player.seek_index(places.randrange(len(run.rounds)))
        live.live_player.frame()
        found.append((time.thread_time() - begin) * 1e3)
    return found


def _words(cost: Cost) -> str:
    return (
        f"{cost.what}: {cost.rounds:,} rounds; first frame {cost.first_s:.2f} s ({cost.first_cpu_s:.2f} processor); "
        f"jumps {cost.jump_ms:.1f} ms, p95 {cost.jump_p95_ms:.1f}, longest {cost.jump_max_ms:.1f}; "
        f"{cost.rss_mb:.0f} MB"
    )


if __name__ == "__main__":
    main()
