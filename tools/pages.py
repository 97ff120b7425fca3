"""How long a person waits for a page of the dashboard: the first round of a trace, then every page by the navigation.

    python -m tools.pages TRACE [--runs 2] [--json FILE]

Opens the trace in `specviz web` and chromium, waits until the first round stands in the stage, then goes to every page
by its link, `--runs` times. The clock is the browser's own: from the click until the script has run, nothing waits for
data, and two frames were painted. `first` is the first time of a page, when it works out what it has to say of the
run; `again` the slowest of the others. Behind each, in brackets, what the server worked for it: on a machine with other
work that is the number to compare. The server's memory, and what the console says, are printed as well.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import click

from tools.chromium import chromium
from tools.served import cpu_s, dashboard

_WIDE = {"width": 2400, "height": 1000}  # every page has its link in the bar
_SWITCH = """async (path) => {
  const app = () => document.querySelector('[data-test-script-state]');
  const frame = () => new Promise((done) => requestAnimationFrame(() => done()));
  const link = [...document.querySelectorAll('a')].find((each) => new URL(each.href).pathname === path);
  if (!link) throw new Error(`no link to ${path}`);
  const begun = performance.now();
  link.click();
  let since = null, ran = false;
  while (performance.now() - begun < 120000) {
    await frame();
    const running = app().dataset.testScriptState === 'running';
    ran ||= running || performance.now() - begun > 400;
    const stale = document.querySelector('[data-testid=stSkeleton], [data-stale=true]');
    const waits = running || location.pathname !== path || stale;
    if (!ran || waits) since = null;
    else since ??= performance.now();
    if (since !== null && performance.now() - since > 250) return since - begun;
  }
  return performance.now() - begun;
}"""
_STILL = """() => {
  const app = document.querySelector('[data-test-script-state]');
  const busy = app.dataset.testScriptState === 'running' || document.body.innerText.includes('Reading the trace');
  if (busy) window.stillSince = null;
  else window.stillSince ??= performance.now();
  return !busy && performance.now() - window.stillSince > 2000;
}"""
_LINKS = "() => [...document.querySelectorAll('a[data-testid=stTopNavLink]')].map((a) => new URL(a.href).pathname)"


@click.command()
@click.argument("trace", type=click.Path(exists=True, path_type=Path))
@click.option("--runs", type=click.IntRange(1), default=2, show_default=True)
@click.option("--json", "out", type=click.Path(path_type=Path), help="Also write the figures here.")
def main(trace: Path, runs: int, out: Path | None) -> None:
    """Measure the pages on TRACE."""
    said: list[str] = []
    with dashboard(["--replay", str(trace.absolute())]) as served, chromium() as browser:
        idle, loaded = served.mb, cpu_s(served.process.pid)
        page = browser.new_page(viewport=_WIDE)
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}") if _tells(message) else None)
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.set_default_timeout(180_000)
        begun = time.monotonic()
        page.goto(f"{served.url}/stage")
        page.locator(".stage svg.tree .node").first.wait_for()
        first, worked = time.monotonic() - begun, cpu_s(served.process.pid) - loaded
        painted = served.mb
        page.wait_for_timeout(500)
        paths = _paths(page)
        _settle(page)
        read = served.mb
        times: dict[str, list[tuple[float, float]]] = {path: [] for path in paths}
        for _ in range(runs):
            for path in paths:
                before = cpu_s(served.process.pid)
                taken = page.evaluate(_SWITCH, path) / 1000
                times[path].append((taken, cpu_s(served.process.pid) - before))
        last = served.mb
    print(f"first round on the stage {first:.2f} s ({worked:.2f})")
    print(
        f"memory: {idle:.0f} MB, {painted:.0f} at the first round, {read:.0f} when all was read, {last:.0f} at the end"
    )
    for path, found in times.items():
        again = max(found[1:], default=None)
        print(f"{path:16} first {_told(found[0])}" + (f"   again {_told(again)}" if again else ""))
    figures = {"first_round": (first, worked), "mb": [idle, painted, read, last], "pages": times, "console": said}
    for line in said:
        print(f"console {line}", file=sys.stderr)
    if out is not None:
        out.write_text(json.dumps(figures, indent=1))


def _told(taken: tuple[float, float]) -> str:
    return f"{taken[0]:6.2f} s ({taken[1]:.2f})"


def _settle(page: Any) -> None:
    """Wait until nothing runs and nothing is said of a trace that is still being read, for two seconds."""
    page.wait_for_function(_STILL, timeout=300_000, polling=100)


def _tells(message: Any) -> bool:
    return message.type in ("error", "warning")


def _paths(page: Any) -> list[str]:
    """The pages that the bar leads to, the one we are on last; `live` loads models, and is left out."""
    links = page.evaluate(_LINKS)
    rest = [path for path in dict.fromkeys(links) if path not in ("/live", "/stage")]
    return [*rest, "/stage"]


if __name__ == "__main__":
    main()
