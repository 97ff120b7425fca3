"""How long a person waits, and what a long recording costs: a table for people, `--json` for programs.

    python -m tools.measure start                    # `--help`, and `tui --replay` until its first frame
    python -m tools.measure terminal TRACE           # a step of the terminal, without a terminal
    python -m tools.measure stage TRACE              # frames a second while the saved page plays
    python -m tools.measure pages TRACE              # pages of the dashboard and panels below the stage
    python -m tools.measure long TRACE               # first frame, jumps and memory
    python -m tools.measure soak TRACE               # memory while that recording is read again and again
    python -m tools.measure make OUT --rounds 5000   # a long recording out of a short one

Times are the clock's, with processor time in brackets: on a machine with other work that is the number to compare.
"""

import asyncio
import fcntl
import json
import os
import pty
import random
import resource
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import msgspec

import specviz
from specviz.events import Commit, End, Event, Header, Note, Prefill, RoundStart
from specviz.sources.big_trace import BigTrace
from specviz.sources.live_run import IdleWords, LiveRun
from specviz.trace import Recorder, read_events
from specviz.trace.bundled import all_bundled, bundled_traces
from specviz.view.stage.chromium import chromium

SIZE = (36, 120)
COMMAND = [sys.executable, "-m", "specviz"]
_FRAMES = """(seconds) => new Promise((done) => {
  const times = [], begun = performance.now();
  const frame = (time) => {
    times.push(time);
    if (performance.now() - begun < seconds * 1000) requestAnimationFrame(frame); else done(times);
  };
  requestAnimationFrame(frame);
})"""
_GO = """async (path) => {
  const app = () => document.querySelector('[data-test-script-state]');
  const link = [...document.querySelectorAll('a')].find((each) => new URL(each.href).pathname === path);
  const begun = performance.now();
  link.click();
  let since = null;
  while (performance.now() - begun < 120000) {
    await new Promise((done) => requestAnimationFrame(done));
    const waits = app().dataset.testScriptState === 'running' || location.pathname !== path
      || performance.now() - begun < 400 || document.querySelector('[data-testid=stSkeleton], [data-stale=true]');
    if (waits) since = null; else since ??= performance.now();
    if (since !== null && performance.now() - since > 250) return since - begun;
  }
  return 120000;
}"""
_TABS = """[...document.querySelectorAll('*')].flatMap(
  (each) => [...(each.shadowRoot?.querySelectorAll('[data-panel]') ?? [])])"""
_PANELS = f"() => {_TABS}.filter((tab) => !tab.classList.contains('closed')).map((tab) => tab.dataset.panel)"
_OPEN = (
    f"async (id) => {{ const tab = () => {_TABS}.find((tab) => tab.dataset.panel === id);"
    + """
  const app = () => document.querySelector('[data-test-script-state]');
  const drawn = () => {
    const panel = document.querySelector('.st-key-panel');
    const charts = [...(panel?.querySelectorAll('[data-testid=stPlotlyChart]') ?? [])];
    return panel && panel.childElementCount && charts.every((chart) => chart.querySelector('.main-svg'))
      && !panel.querySelector('[data-testid=stSkeleton]');
  };
  const begun = performance.now();
  tab().click();
  let since = null;
  while (performance.now() - begun < 60000) {
    await new Promise((done) => requestAnimationFrame(done));
    const is = tab()?.getAttribute('aria-selected') === 'true' && app().dataset.testScriptState !== 'running';
    if (is && drawn()) since ??= performance.now(); else since = null;
    if (since !== null && performance.now() - since > 250) return since - begun;
  }
  return 60000;
}"""
)
_LINKS = "() => [...document.querySelectorAll('a[data-testid=stTopNavLink]')].map((a) => new URL(a.href).pathname)"


def timing_row(
    name: str, seconds: list[float], cpu: list[float] | None = None, bar: float | None = None
) -> dict[str, Any]:
    """One line of the table, in milliseconds."""
    row = {
        "what": name,
        "median_ms": 1e3 * statistics.median(seconds),
        "worst_ms": 1e3 * max(seconds),
        "n": len(seconds),
    }
    row |= {"cpu_ms": 1e3 * statistics.median(cpu)} if cpu else {}
    return row | ({"bar_ms": 1e3 * bar} if bar else {})


def put(rows: list[dict[str, Any]], as_json: bool) -> None:
    """Print; exit code 1 where a median is above its bar."""
    for row in rows:
        words = "  ".join(
            f"{k} {v:,.1f}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items() if k != "what"
        )
        click.echo(json.dumps(row) if as_json else f"{row['what']:24} {words}")
    if any(row["median_ms"] > row["bar_ms"] for row in rows if "bar_ms" in row):
        sys.exit(1)


def trace_of(name: str) -> Path:
    """A file, or a bundled recording by its name."""
    return all_bundled().get(name) or Path(name)


@click.group()
@click.option("--json", "as_json", is_flag=True)
@click.pass_context
def main(ctx: click.Context, as_json: bool) -> None:
    """Measure one thing."""
    ctx.obj = as_json


@main.command()
@click.option("--runs", default=7, show_default=True)
@click.pass_obj
def start(as_json: bool, runs: int) -> None:
    """The first run of each warms the caches and is not counted."""
    trace = next(iter(bundled_traces().values()))

    def asked() -> None:
        subprocess.run([*COMMAND, "--help"], check=True, stdout=subprocess.DEVNULL)

    rows = []
    for name, run, bar in (("--help", asked, 0.3), ("tui --replay", lambda: _first_frame(trace), 1.0)):
        rows.append(timing_row(name, [_timed(run)[0] for _ in range(runs + 1)][1:], bar=bar))
    put(rows, as_json)


def _timed(run: Callable[[], object]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - wall, time.process_time() - cpu


def _first_frame(trace: Path) -> None:
    """Until the draft tree's frame has been written to a terminal of 120x36."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
    environment, seen = {**os.environ, "TERM": "xterm-256color"}, b""
    replay = [*COMMAND, "tui", "--replay", str(trace)]
    with subprocess.Popen(replay, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        try:
            while b"Draft tree" not in seen:
                if not select.select([ours], [], [], 30)[0]:
                    raise SystemExit(f"no frame within 30 s; the terminal got: {seen[-400:]!r}")
                seen += os.read(ours, 1 << 16)
        finally:
            process.kill()
            os.close(ours)
            os.close(theirs)


@main.command()
@click.argument("trace")
@click.option("--steps", default=200, show_default=True)
@click.pass_obj
def terminal(as_json: bool, trace: str, steps: int) -> None:
    """From the key to the painted screen."""
    from specviz_tui.app import SpecvizApp
    from specviz_tui.screens.library import Library

    async def walked() -> list[tuple[float, float]]:
        library = Library()
        app = SpecvizApp(library, library.trace(trace_of(trace)))
        async with app.run_test(size=SIZE[::-1]) as pilot:
            await pilot.pause(2)
            await pilot.press("home")
            taken = []
            for _ in range(steps):
                wall, cpu = time.perf_counter(), time.process_time()
                await pilot.press(".")
                taken.append((time.perf_counter() - wall, time.process_time() - cpu))
            return taken

    step_times = asyncio.run(walked())
    put([timing_row("a step", [wall for wall, _ in step_times], [cpu for _, cpu in step_times])], as_json)


@main.command()
@click.argument("trace")
@click.option("--seconds", default=20.0, show_default=True)
@click.option("--slow", default=1.0, show_default=True, help="Make the processor so many times slower.")
@click.pass_obj
def stage(as_json: bool, trace: str, seconds: float, slow: float) -> None:
    """Times between frames of an empty page, and of the saved page of TRACE while it plays."""
    rows = []
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        saved = specviz.show(trace_of(trace)).save(Path(folder) / "stage.html")
        for name, address in (("an empty page", "about:blank"), ("the stage plays", f"file://{saved}#at=r1")):
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.set_default_timeout(1000 * seconds + 60_000)
            page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": slow})
            page.goto(address)
            if saved.name in address:
                page.locator(".node").first.wait_for()
                page.keyboard.press(" ")
            times = page.evaluate(_FRAMES, seconds)
            gaps = [(b - a) / 1e3 for a, b in pairwise(times)]
            rows.append(timing_row(name, gaps) | {"frames_per_second": len(gaps) / sum(gaps)})
            page.close()
    put(rows, as_json)


@contextmanager
def dashboard(*words: str) -> Iterator[tuple[str, int]]:
    """Address and process id of `specviz web` with these words, on a free port."""
    line = [*COMMAND, "web", "--no-open", "--port", "0", *words]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            address = next(
                (w.rstrip("/.,") for line_read in process.stdout for w in line_read.split() if "http://" in w), None
            )
            if address is None:
                raise SystemExit(f"the dashboard did not start: {' '.join(line)}")
            yield address.partition("?")[0], process.pid
        finally:
            process.kill()


@main.command()
@click.argument("trace")
@click.option("--runs", default=2, show_default=True)
@click.pass_obj
def pages(as_json: bool, trace: str, runs: int) -> None:
    """From the click until the script has run and nothing waits for data; first visits of pages and panels apart."""
    with dashboard("--replay", str(trace_of(trace).absolute())) as (url, pid), chromium() as browser:
        page = browser.new_page(viewport={"width": 2400, "height": 1000})
        page.set_default_timeout(180_000)
        seconds, _ = _timed(lambda: (page.goto(f"{url}/stage"), page.locator(".stage svg.tree .node").first.wait_for()))
        rows = [timing_row("first round on the stage", [seconds])]
        page.wait_for_timeout(3000)
        visits: dict[str, list[float]] = {}
        for _ in range(runs + 1):
            for path in dict.fromkeys(path for path in page.evaluate(_LINKS) if path not in ("/live", "/stage")):
                visits.setdefault(path, []).append(page.evaluate(_GO, path) / 1e3)
        for path, taken in visits.items():
            rows += [timing_row(f"{path} first", taken[:1]), timing_row(f"{path} again", taken[1:])]
        page.goto(f"{url}/stage")
        page.locator(".stage svg.tree .node").first.wait_for()
        page.wait_for_timeout(3000)
        opened: dict[str, list[float]] = {}
        for _ in range(runs + 1):
            for panel in page.evaluate(_PANELS):
                opened.setdefault(panel, []).append(page.evaluate(_OPEN, panel) / 1e3)
        for panel, taken in opened.items():
            rows += [timing_row(f"panel {panel} first", taken[:1]), timing_row(f"panel {panel} again", taken[1:])]
        resident_pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    put(rows, as_json)
    click.echo(f"memory of the server: {int(resident_pages) * os.sysconf('SC_PAGE_SIZE') / 1e6:.0f} MB", err=True)


@main.command()
@click.argument("trace")
@click.option("--jumps", default=200, show_default=True)
@click.pass_obj
def long(as_json: bool, trace: str, jumps: int) -> None:
    """The first line of each is without an index (made meanwhile in a process of its own), the second with it."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for what in ("first time", "with index"):
            rows += _looked(what, trace_of(trace), Path(folder) / "one.index", jumps)
    put(rows, as_json)


def _looked(what: str, path: Path, index: Path, jumps: int) -> list[dict[str, Any]]:
    begin, cpu = time.perf_counter(), time.process_time()
    live = LiveRun(BigTrace(path, index), IdleWords("", ""), animate=False)
    live.tick(0.0)
    live.live_player.seek_index(0)
    live.live_player.frame()
    first = time.perf_counter() - begin, time.process_time() - cpu
    while live.filling is not None:
        time.sleep(0.2)
        live.tick(time.monotonic())
    places = random.Random(0)

    def jump() -> None:
        live.live_player.seek_index(places.randrange(len(live.run.rounds)))
        live.live_player.frame()

    taken = [_timed(jump) for _ in range(jumps)]
    live.close()
    jumped = timing_row(f"{what}: jumps", [wall for wall, _ in taken], [cpu for _, cpu in taken])
    return [timing_row(f"{what}: first frame", [first[0]], [first[1]]), jumped | {"rss_mb": _resident()}]


def _resident() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@main.command()
@click.argument("trace")
@click.option("--minutes", default=10.0, show_default=True)
def soak(trace: str, minutes: float) -> None:
    """Record the rounds of TRACE again and again while a screen's controller follows; memory a minute."""
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(Path(folder) / "soak.sv.jsonl")
        events = _again(read_events(trace_of(trace)))
        for _ in range(100):
            recorder.write(next(events))
        live = LiveRun(BigTrace(recorder.path, Path(folder) / "one.index"), IdleWords("", ""), animate=False)
        began, last_report = time.monotonic(), 0.0
        while (now := time.monotonic()) - began < 60 * minutes:
            for _ in range(100):
                recorder.write(next(events))
            live.tick(now)
            live.live_player.frame()
            if now - last_report >= 60:
                last_report = now
                click.echo(
                    f"{(now - began) / 60:5.1f} min  {len(live.run.rounds):,} rounds  {_resident():.0f} MB at most"
                )
        live.close()
        recorder.close()


@main.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--like", default="explain-tree", show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=5000, show_default=True)
def make(out: Path, like: str, rounds: int) -> None:
    """The rounds of a recording's first prompt, one copy a query, until there are so many."""
    recorder, n = Recorder(out), 0
    for event in _again(read_events(trace_of(like))):
        n += isinstance(event, RoundStart)
        if n > rounds:
            break
        recorder.write(event)
    recorder.write(End(reason="done"))
    recorder.close()
    click.echo(f"{recorder.path}: {rounds:,} rounds, {recorder.path.stat().st_size / 1e6:.1f} MB")


def _again(events: list[Event]) -> Iterator[Event]:
    """The header, then the first query for ever, under new numbers of query and moments that count on."""
    yield from (event for event in events if isinstance(event, Header))
    first = next(event for event in events if isinstance(event, Prefill))
    body = [event for event in events if event.q == first.q and not isinstance(event, Header | End | Note)]
    q, span = 0, body[-1].t - body[0].t
    while True:
        for event in body:
            new: dict[str, Any] = {"q": q, "t": event.t + q * span}
            yield msgspec.structs.replace(event, **new, **({"finish": "length"} if _ends(event, body) else {}))
        q += 1


def _ends(event: Event, body: list[Event]) -> bool:
    return isinstance(event, Commit) and event is next(
        record for record in reversed(body) if isinstance(record, Commit)
    )


if __name__ == "__main__":
    main()
