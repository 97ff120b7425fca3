"""Does memory stay flat? Decode a stream for minutes, record it, watch the recording grow, and sample what both take.

    python -m tools.soak [--minutes 60] [--every 60] [--method draft] [--level full] [--look]
                         [--target FOLDER --draft FOLDER] [--out TABLE.json] [--feed TRACE --rate 50]

Three processes: `specviz run --stream .. --record ..` over the bundled prompts again and again; the terminal front-end
without a terminal (Textual's pilot) on the trace that grows; this one, which prints a line every `--every` seconds: the
resident memory of both (MB), rounds so far, the size of the trace. At the end, per column: the slope in kB per 1,000
rounds over the second half (the first warms up), by least squares, and what that makes of an hour.

`--feed`: nothing is decoded; the rounds of a recording are recorded again and again as queries of a stream, `--rate`
a second. So an hour's rounds come in minutes, also on a machine with other work; column core is the recorder alone.

`--look`: the front-end also goes through all of its screens, back to the first round and to the newest again, all the
time. What may grow: 128 bytes a round for the numbers of the time line, 10 for its bars, a few for queries; the file
cache of the spool is the system's. Exit code 1 when a slope is above `--most` kB per 1,000 rounds (default 300).

Linux and macOS (`ps` tells the memory). The recording lies in a temporary folder, and goes with it.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

import click
import numpy as np

_PROMPTS = 20_000  # more than an hour decodes
_ROUND = b'"ev":"round_end"'
_KEYS = ("1", "2", "3", "4", "5", "1", "home", "right", "n", "end")


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of the table."""

    minutes: float
    rounds: int
    trace_mb: float
    core_mb: float | None  # None: the process has ended
    tui_mb: float | None


@click.command()
@click.option("--minutes", default=60.0, show_default=True)
@click.option("--every", default=60.0, show_default=True, help="Seconds between lines.")
@click.option("--method", default="draft", show_default=True)
@click.option("--level", default="full", show_default=True)
@click.option("--target")
@click.option("--draft")
@click.option("--look", is_flag=True, help="The front-end walks through its screens all the time.")
@click.option("--most", default=300.0, show_default=True, help="Largest slope, kB per 1,000 rounds.")
@click.option("--out", type=click.Path(path_type=Path), help="Also write the samples here.")
@click.option("--feed", type=click.Path(exists=True, path_type=Path), help="Record this again and again.")
@click.option("--rate", default=50.0, show_default=True, help="With --feed: rounds a second.")
@click.option("--into", type=click.Path(path_type=Path), hidden=True, help="Be the process that feeds this trace.")
@click.option("--watch", type=click.Path(path_type=Path), hidden=True, help="Be the front-end on this trace.")
def main(
    minutes: float,
    every: float,
    method: str,
    level: str,
    target: str | None,
    draft: str | None,
    look: bool,
    most: float,
    out: Path | None,
    feed: Path | None,
    rate: float,
    into: Path | None,
    watch: Path | None,
) -> None:
    """Sample the memory of a long run and of a screen on it."""
    if watch is not None:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_watch(watch, look))
        return
    if into is not None and feed is not None:
        with contextlib.suppress(KeyboardInterrupt):
            _record_again(feed, into, rate)
        return
    models = [word for flag, name in (("--target", target), ("--draft", draft)) if name for word in (flag, name)]
    with tempfile.TemporaryDirectory(prefix="specviz-soak-") as folder:
        trace, prompts = Path(folder) / "soak.sv.jsonl", Path(folder) / "prompts.jsonl"
        words = ["specviz", "run", "-q", "--stream", str(prompts), "--record", str(trace), *models]
        words += ["--method", method, "--level", level]
        if feed is not None:
            words = ["tools.soak", "--feed", str(feed), "--rate", str(rate), "--into", str(trace)]
        else:
            prompts.write_text("".join(json.dumps(line) + "\n" for line in _bundled()))
        samples = _soak(trace, words, minutes, every, look)
    slopes = {name: slope(samples, name) for name in ("core_mb", "tui_mb")}
    for name, kb in slopes.items():
        told = "too few samples" if kb is None else f"{kb:+.1f} kB per 1,000 rounds{_hour(samples, kb)}"
        print(f"{name.removesuffix('_mb'):5} {told}")
    if out is not None:
        out.write_text(json.dumps({"samples": [asdict(s) for s in samples], "slopes": slopes}, indent=1))
    sys.exit(int(any(kb is not None and kb > most for kb in slopes.values())))


def _soak(trace: Path, words: Sequence[str], minutes: float, every: float, look: bool) -> list[Sample]:
    python, started = [sys.executable, "-m"], time.monotonic()
    core = subprocess.Popen([*python, *words], stdout=subprocess.DEVNULL)
    tui: subprocess.Popen[bytes] | None = None
    samples: list[Sample] = []
    counted = _Counter(trace)
    print(f"{'minute':>6} {'rounds':>8} {'trace MB':>9} {'core MB':>8} {'tui MB':>8}", flush=True)
    try:
        for k in count():
            time.sleep(max(0.0, started + k * every - time.monotonic()))
            if tui is None and trace.exists():
                looks = ["--look"] if look else []
                tui = subprocess.Popen([*python, "tools.soak", "--watch", str(trace), *looks])
            rounds, size = counted.rounds()
            now = (time.monotonic() - started) / 60
            samples.append(Sample(round(now, 2), rounds, size / 1e6, _resident(core), _resident(tui)))
            print(_line(samples[-1]), flush=True)
            if now >= minutes or core.poll() is not None:
                break
    finally:
        for process in filter(None, (core, tui)):
            process.send_signal(signal.SIGTERM if process is tui else signal.SIGINT)
        for process in filter(None, (core, tui)):
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
    return samples


def _bundled() -> list[dict[str, str]]:
    from specviz.sources.prompts import load_prompts

    found = load_prompts(None)
    pairs = list(zip(found.texts, found.domains, strict=True))
    return [{"prompt": pairs[k % len(pairs)][0], "domain": pairs[k % len(pairs)][1]} for k in range(_PROMPTS)]


class _Counter:
    """Counts rounds in a trace that grows, reading every byte once."""

    def __init__(self, path: Path) -> None:
        self._path, self._at, self._n, self._rest = path, 0, 0, b""

    def rounds(self) -> tuple[int, int]:
        """Rounds and bytes so far."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._at)
                while data := file.read(1 << 20):
                    self._at += len(data)
                    data = self._rest + data
                    self._n += data.count(_ROUND)
                    self._rest = data[-len(_ROUND) + 1 :]
        return self._n, self._at


def _resident(process: "subprocess.Popen[bytes] | None") -> float | None:
    if process is None or process.poll() is not None:
        return None
    told = subprocess.run(["ps", "-o", "rss=", "-p", str(process.pid)], capture_output=True, text=True, check=False)
    return int(told.stdout) / 1e3 if told.stdout.strip() else None


def _line(sample: Sample) -> str:
    core, tui = ("-" if mb is None else f"{mb:.1f}" for mb in (sample.core_mb, sample.tui_mb))
    return f"{sample.minutes:6.1f} {sample.rounds:8} {sample.trace_mb:9.1f} {core:>8} {tui:>8}"


def slope(samples: Sequence[Sample], name: str) -> float | None:
    """kB per 1,000 rounds over the second half of the samples that have a value; None for fewer than three."""
    known = [(s.rounds, mb) for s in samples if (mb := getattr(s, name)) is not None]
    late = known[len(known) // 2 :]
    if len(late) < 3 or late[0][0] == late[-1][0]:
        return None
    rounds, mb = np.array(late, float).T
    return float(np.polyfit(rounds, mb, 1)[0]) * 1e6


def _hour(samples: Sequence[Sample], kb: float) -> str:
    last = samples[-1]
    return f", {kb * last.rounds / 1e6 / last.minutes * 60:+.1f} MB an hour" if last.minutes and last.rounds else ""


def _record_again(feed: Path, into: Path, rate: float) -> None:
    """The first query of a recording as one query after another, until this process is told to stop."""
    import msgspec

    from specviz.events import End, Prefill, RoundEnd
    from specviz.trace import Recorder, read_events

    events = read_events(feed)
    body = [e for e in events if e.q == 0 and (e.r > 0 or isinstance(e, Prefill)) and not isinstance(e, End)]
    recorder, due = Recorder(into), time.monotonic()
    recorder.write(events[0])
    for q in count():
        for event in body:
            recorder.write(msgspec.structs.replace(event, q=q))
            if isinstance(event, RoundEnd):
                due += 1 / rate
                time.sleep(max(0.0, due - time.monotonic()))


async def _watch(trace: Path, look: bool) -> None:
    """The screen on a trace until it ends, or this process is told to."""
    from specviz_tui.app import SpecvizApp
    from specviz_tui.screens.library import Library

    os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
    library = Library(animate=False)
    app = SpecvizApp(library, library.trace(trace))
    async with app.run_test(size=(120, 36)) as pilot:
        for k in count():
            await pilot.pause(1.0)
            if look and k % 3 == 0:
                await pilot.press(_KEYS[k // 3 % len(_KEYS)])


if __name__ == "__main__":
    main()
