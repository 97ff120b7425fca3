"""How smoothly does the stage move? Frames a second while it plays trees of 64 and of 256 nodes.

    python -m tools.frames [--nodes N ..] [--seconds 20] [--speed 1] [--size 1440x900] [--slow 1] [--json] [--phases]

The embedded pair decodes a few rounds of trees with so many nodes (`--trace FILE` takes a recording of yours instead);
the page that is saved of them is opened in chromium and played from its second round on. Frames are counted by the
browser's own clock: the times that `requestAnimationFrame` hands out. The first line is of an empty page, which is
what this machine and this chromium can give at most: without a screen that is 60.

Of each: the processor time that the page's own thread took for a frame (which other work on the machine leaves as it
is: below 16.7 ms there can be 60 frames a second), frames a second, the time that 95 of 100 frames came within, the longest, and the shares of frames that came
late (more than a frame and a half after the one before). `--phases`: the same of every phase. `--slow 4` makes the
processor four times slower. Exit code 1 where a bar is missed: 60 frames a second with 64 nodes, 30 with 256, less one
in twenty, for the machine has other work.
"""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

import specviz
from specviz.sources.bundled import bundled_prompts
from specviz.view.words.palette import Phase
from tools.chromium import chromium, executable

BARS = {64: 60.0, 256: 30.0}
_SLACK = 0.95
_FRAME_MS = 1000 / 60
_MEASURE = """(seconds) => new Promise((done) => {
  const box = document.querySelector('.stage'), times = [];
  const begun = performance.now();
  const frame = (time) => {
    times.push([time, Number(box?.dataset.phase ?? 0)]);
    if (performance.now() - begun < seconds * 1000) requestAnimationFrame(frame);
    else done(times);
  };
  requestAnimationFrame(frame);
})"""


@dataclass(frozen=True, slots=True)
class Smooth:
    """What was counted. Times in ms between frames; `late` is a share of them."""

    what: str
    frames_per_second: float
    cpu_ms: float | None  # of the page's thread, a frame; None: not measured
    p95_ms: float
    longest_ms: float
    late: float
    n_frames: int

    @property
    def line(self) -> str:
        cpu = "" if self.cpu_ms is None else f"{self.cpu_ms:.1f} ms a frame"
        return (
            f"{self.what:<24} {self.frames_per_second:5.1f} frames/s   {cpu:>14}   95 % within {self.p95_ms:5.1f} ms   "
            f"longest {self.longest_ms:6.1f} ms   late {100 * self.late:4.1f} %   ({self.n_frames} frames)"
        )


def smooth(what: str, gaps: np.ndarray, busy_s: float | None = None) -> Smooth:
    """`gaps`: ms between frames, [frames - 1]; `busy_s`: seconds of processor time that they took in all."""
    late = float((gaps > 1.5 * _FRAME_MS).mean())
    p95, longest = float(np.percentile(gaps, 95)), float(gaps.max())
    cpu = None if busy_s is None else 1000 * busy_s / len(gaps)
    return Smooth(what, 1000 / float(gaps.mean()), cpu, p95, longest, late, len(gaps) + 1)


def recorded(folder: Path, n_nodes: int, rounds: int) -> Path:
    """A run of the embedded pair in trees of so many nodes."""
    from specviz import LocalRun, Start, load_pair
    from specviz.trace import Recorder

    wide = {"d_max": 8, "w_max": 8, "k_max": 20} if n_nodes > 100 else {"d_max": 6, "w_max": 4, "k_max": 12}
    knobs = {"shape": "tree", "node_budget": n_nodes, "temperature": 0.8, "seed": 1, **wide}
    start = Start(prompt=next(iter(bundled_prompts().values())), method="draft", knobs=knobs)
    recorder = Recorder(folder / f"{n_nodes}.sv.jsonl")
    for k, _ in enumerate(LocalRun(load_pair(), start, recorder.write).rounds()):
        if k + 1 >= rounds:
            break
    recorder.close()
    return recorder.path


@contextmanager
def page_of(browser: Any, address: str, size: tuple[int, int], slow: float) -> Iterator[Any]:
    page = browser.new_page(viewport={"width": size[0], "height": size[1]})
    try:
        if slow > 1:
            page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": slow})
        page.goto(address)
        yield page
    finally:
        page.close()


def counted(page: Any, seconds: float) -> tuple[np.ndarray, float]:
    """Times of frames and the phase they fell into, [frames, 2]; seconds of processor time of the page's thread."""
    page.set_default_timeout(1000 * seconds + 60_000)
    meter = page.context.new_cdp_session(page)
    meter.send("Performance.enable", {"timeDomain": "threadTicks"})
    before = _busy(meter)
    found = np.asarray(page.evaluate(_MEASURE, seconds), dtype=float)
    return found, _busy(meter) - before


def _busy(meter: Any) -> float:
    told = {each["name"]: each["value"] for each in meter.send("Performance.getMetrics")["metrics"]}
    return float(told["TaskDuration"])


def played(
    browser: Any, saved: Path, speed: float, size: tuple[int, int], slow: float, seconds: float
) -> tuple[np.ndarray, float]:
    """The saved page from its second round on."""
    with page_of(browser, f"file://{saved}#at=r2", size, slow) as page:
        page.locator(".node").first.wait_for()
        page.keyboard.press("Home")
        page.wait_for_function("() => document.querySelector('.time .place').innerText.startsWith('r1 ')")
        page.locator(".time select").select_option(f"{speed:g}")
        page.locator(".time select").evaluate("element => element.blur()")
        page.keyboard.press(" ")
        page.wait_for_function(
            "() => document.querySelector('.time .place').innerText.startsWith('r2 ')", timeout=120_000
        )
        return counted(page, seconds)


def by_phase(what: str, found: np.ndarray) -> list[Smooth]:
    gaps, phases = np.diff(found[:, 0]), found[1:, 1]
    every = [(phase, gaps[phases == phase]) for phase in Phase]
    return [smooth(f"{what}, {phase.name.lower()}", own) for phase, own in every if len(own) > 1]


def _size(text: str) -> tuple[int, int]:
    wide, _, high = text.partition("x")
    if not (wide.isdecimal() and high.isdecimal()):
        raise click.BadParameter(f"'{text}' is no size; 1440x900 is one")
    return int(wide), int(high)


@click.command()
@click.option("--nodes", type=click.IntRange(4, 256), multiple=True, default=(64, 256), show_default=True)
@click.option("--trace", type=click.Path(exists=True, path_type=Path), help="play this recording instead")
@click.option("--seconds", default=20.0, show_default=True)
@click.option("--speed", type=click.Choice(["0.25", "0.5", "1", "2", "4", "8"]), default="1", show_default=True)
@click.option("--size", default="1440x900", show_default=True)
@click.option("--slow", default=1.0, show_default=True, help="make the processor so many times slower")
@click.option("--phases", is_flag=True, help="every phase by itself, too")
@click.option("--json", "as_json", is_flag=True)
def main(
    nodes: tuple[int, ...],
    trace: Path | None,
    seconds: float,
    speed: str,
    size: str,
    slow: float,
    phases: bool,
    as_json: bool,
) -> None:
    """Count frames."""
    if executable() is None:
        raise click.ClickException("no chromium here: apt-get install chromium, or name one in CHROMIUM")
    found: list[Smooth] = []
    missed = []
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        with page_of(browser, "about:blank", _size(size), slow) as page:
            times, busy = counted(page, min(5.0, seconds))
            found.append(smooth("an empty page", np.diff(times[:, 0]), busy))
        runs = {trace.name: trace} if trace else {n: recorded(Path(folder), n, 6) for n in nodes}
        for n, path in runs.items():
            saved = specviz.show(path).save(Path(folder) / "stage.html")
            times, busy = played(browser, saved, float(speed), _size(size), slow, seconds)
            what = str(n) if trace else f"{n} nodes"
            found.append(smooth(what, np.diff(times[:, 0]), busy))
            if isinstance(n, int) and found[-1].frames_per_second < _SLACK * BARS.get(n, 0.0):
                missed.append(f"{what}: below {BARS[n]:g} frames/s")
            if phases:
                found += by_phase(what, times)
    for each in found:
        click.echo(json.dumps(asdict(each)) if as_json else each.line)
    if missed:
        raise click.ClickException("; ".join(missed))


if __name__ == "__main__":
    main()
