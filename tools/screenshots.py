"""Take the pictures of the documents again: the terminal's screens as SVG, the dashboard's pages as PNG.

    python -m tools.screenshots [--out DIR] [--trace CHAIN --tree TREE --scan CHAIN --exits RUN --lanes RUN]
                                [--ranks RUN --stream RUN] [--target FOLDER --draft FOLDER]

Needs chromium for the dashboard. Bundled traces are shown unless others are named; the live stage answers a message
with SmolLM2, which must be here, or with the chat model that is named.
"""

import asyncio
import io
import os
import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
from PIL import Image

from specviz.cli import main as command_line
from specviz.trace.bundled import all_bundled
from specviz.view.stage.chromium import chromium, executable
from specviz_tui.app import SpecvizApp
from specviz_tui.screens.library import Library
from tools.measure import dashboard

WIDE = (120, 36)
DESK, PHONE = (1280, 900), (390, 844)
COLOURS = 256  # enough for screens, a third of the size; an octree keeps the colours of small marks


_BUNDLED = {  # what is looked at
    "trace": "explain-draft",
    "tree": "explain-tree",
    "scan": "story-hsd",
    "exits": "code-specbound",
    "lanes": "story-specbranch",
    "ranks": "sum-specblock",
    "stream": "stream-specblock",
}
_FILE = click.Path(exists=True, path_type=Path)


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default=Path("docs/screenshots"), show_default=True)
@click.option("--trace", type=_FILE, help="a sampled chain [default: bundled]")
@click.option("--tree", type=_FILE, help="a draft tree [default: bundled]")
@click.option("--scan", type=_FILE, help="a chain judged by hsd [default: bundled]")
@click.option("--exits", type=_FILE, help="a swept run of specbound")
@click.option("--lanes", type=_FILE, help="a run of specbranch")
@click.option("--ranks", type=_FILE, help="a run of specblock")
@click.option("--stream", type=_FILE, help="a stream of prompts through specblock that learns")
@click.option("--target", default="smollm2", show_default=True, help="a chat model, for the live stage")
@click.option("--draft", help="for the live stage [default: what comes with the target]")
def main(out: Path, target: str, draft: str | None, **named: Path | None) -> None:
    """Take all pictures."""
    out.mkdir(parents=True, exist_ok=True)
    traces = SimpleNamespace(**{kind: named[kind] or _bundled(name) for kind, name in _BUNDLED.items()})
    _all(out, traces, ["--target", target, *(["--draft", draft] if draft else [])])
    for path in sorted(out.iterdir()):
        click.echo(f"{path}: {path.stat().st_size >> 10} kB")


def _terminals(out: Path, traces: SimpleNamespace) -> None:
    """Screens of the terminal, in all colours whatever this one shows."""
    os.environ["COLORTERM"] = "truecolor"
    screens = (
        ("tui-chain", traces.trace, "}"),
        ("tui-tree", traces.tree, "}"),
        ("tui-hsd", traces.scan, "5]"),
        ("tui-layers", traces.exits, "2]]]]]"),
        ("tui-lanes", traces.lanes, "3c]]]]"),
        ("tui-ranks", traces.ranks, "4]]]"),
    )
    for name, path, keys in screens:
        (out / f"{name}.svg").write_text(asyncio.run(_terminal(path, keys)), encoding="utf-8")


def _all(out: Path, traces: SimpleNamespace, models: Sequence[str]) -> None:
    _terminals(out, traces)
    if command_line(["export", str(traces.tree), "--gif", "r6", "-o", str(out / "round.gif"), "--force"]):
        raise click.ClickException("no film of a round was made")
    if executable() is None:
        raise click.ClickException("no chromium here: apt-get install chromium, or name one in CHROMIUM")
    with chromium() as browser:
        with dashboard("--replay", str(traces.trace)) as (url, _):
            _page(browser, out / "web-overview.png", f"{url}/overview?at=r3", DESK)
            _stage(browser, out / "web-phone.png", url, dark=True, size=PHONE)
        with dashboard("--replay", str(traces.tree)) as (url, _):
            _stage(browser, out / "web-stage.png", url)
            _stage(browser, out / "web-stage-dark.png", url, dark=True)
            _lesson(browser, out / "web-lesson.png", url)
            _case(browser, out / "web-clinic.png", url)
        with dashboard("--replay", str(traces.scan)) as (url, _):
            _what_if(browser, out / "web-what-if.png", url)
            _panel(browser, out / "web-panel.png", url)
            _page(browser, out / "web-verification.png", f"{url}/verification?at=r2", (1280, 1500))
        _methods(browser, out, traces)
        with dashboard("--temperature", "0.7", "--method", "draft", *models) as (url, _):
            _stage_live(browser, out / "web-stage-live.png", url)


def _methods(browser: Any, out: Path, traces: SimpleNamespace) -> None:
    """The panels about early exits, lanes and ranks, large."""
    with dashboard("--replay", str(traces.exits)) as (url, _):
        _page(browser, out / "web-early-exit.png", f"{url}/early-exit?at=r7", (1280, 1340))
        _page(browser, out / "web-exit-settings.png", f"{url}/early-exit?at=r7&show=other+settings", (1280, 1740))
    with dashboard("--replay", str(traces.lanes)) as (url, _):
        _page(browser, out / "web-lanes.png", f"{url}/lanes?at=r5&clock=modelled+clock", (1280, 1340))
    with dashboard("--replay", str(traces.ranks)) as (url, _):
        _page(browser, out / "web-ranks.png", f"{url}/ranks?at=r4", (1280, 1980))
        _page(browser, out / "web-ranks-run.png", f"{url}/ranks?at=r4&show=the+run", (1280, 1700))
    with dashboard("--replay", str(traces.stream)) as (url, _):
        _page(browser, out / "web-ranks-bandit.png", f"{url}/learning?at=r4", (1280, 1640))


def _bundled(name: str) -> Path:
    path = all_bundled().get(name)
    if path is None:
        raise click.ClickException(f"there is no bundled trace {name}; name one with its option (see --help)")
    return path


async def _terminal(trace: Path, keys: str) -> str:
    """The main screen on a trace, after some keys."""
    library = Library(animate=False)
    app = SpecvizApp(library, library.trace(trace))
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        for key in keys:
            await pilot.press({"}": "right_curly_bracket", "]": "right_square_bracket"}.get(key, key))
            await pilot.pause()
        picture = app.export_screenshot(title="specviz tui")
        return re.sub(
            r"@font-face \{.*?\}", "", picture, flags=re.DOTALL
        )  # any fixed-width font will do, none is fetched


def _open(browser: Any, url: str, size: tuple[int, int], dark: bool) -> Any:
    width, height = size
    page = browser.new_page(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", device_scale_factor=1
    )
    page.goto(url)
    page.wait_for_selector("[data-test-script-state=notRunning]")
    return page


def _page(browser: Any, path: Path, url: str, size: tuple[int, int]) -> None:
    """A panel that has the window for itself, by its own address."""
    page = _open(browser, url, size, dark=False)
    _still(page, path, ".js-plotly-plot, .sv-bars")


def _stage(browser: Any, path: Path, url: str, dark: bool = False, size: tuple[int, int] = (1440, 900)) -> None:
    """The first test that failed in the third round or later; on a dark ground the end of its round."""
    page = _open(browser, f"{url}/stage?at=r2", size, dark)
    _still(page, path, ".stage .node", "}]" if dark else "}")


def _lesson(browser: Any, path: Path, url: str) -> None:
    """A step that asks, with the picture it is about."""
    page = _open(browser, f"{url}/stage?lesson=4", (1280, 720), False)
    _still(page, path, ".stage .lesson .say", "nnn")


def _case(browser: Any, path: Path, url: str) -> None:
    """A case of the clinic with its first exhibits."""
    page = _open(browser, f"{url}/stage?clinic=2", (1280, 720), False)
    _still(page, path, "[class*=st-key-clinic-fault]")


def _what_if(browser: Any, path: Path, url: str) -> None:
    """A round under another rule, with less of its draft."""
    page = _open(browser, f"{url}/stage?at=r2", (1440, 900), False)
    page.locator(".stage .whatif input").first.wait_for()
    page.locator(".whatif select").select_option("tokenwise")
    slider = page.locator(".whatif input[aria-label*=gamma]")
    slider.focus()
    slider.press("ArrowLeft")
    page.locator(".stage.asks .iff .words", has_text="gamma").wait_for()
    page.wait_for_timeout(1500)
    _save(page, path)


def _panel(browser: Any, path: Path, url: str) -> None:
    """The verdict on the draft, below the picture of its round."""
    page = _open(browser, f"{url}/stage?at=r2&panel=verification", (1440, 1400), True)
    page.locator(".stage .node").first.wait_for()
    _still(page, path, ".st-key-panel .js-plotly-plot")


def _stage_live(browser: Any, path: Path, url: str) -> None:
    """An answer on the stage, some rounds after a knob was moved."""
    page = _open(browser, f"{url}/stage?src=live+run", (1440, 900), False)
    example = page.get_by_role("button", name="explain")
    example.wait_for(timeout=60_000)
    page.wait_for_timeout(1500)
    example.click()
    page.locator(".stage .node").first.wait_for(timeout=60_000)
    page.wait_for_timeout(6000)
    slider = page.get_by_role("slider", name="γ gamma")
    slider.focus()
    slider.press("ArrowRight")
    slider.press("ArrowRight")
    page.locator(".knob.moved", has_text="in force").wait_for()
    page.wait_for_timeout(12_000)
    page.locator(".buttons .main").click()
    page.locator(".livebar .state", has_text="PAUSED").wait_for()
    page.wait_for_timeout(1000)
    _save(page, path)


def _still(page: Any, path: Path, there: str, keys: str = "") -> None:
    """Once that is there, and after these keys: when nothing moves any more."""
    page.locator(there).first.wait_for()
    for key in keys:
        page.wait_for_timeout(800)  # the place goes into the address
        page.keyboard.press(key)
    page.wait_for_timeout(2500)
    _save(page, path)


def _save(page: Any, path: Path) -> None:
    image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    image.quantize(COLOURS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(path, optimize=True)
    page.close()


if __name__ == "__main__":
    main()
