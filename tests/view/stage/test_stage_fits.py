"""Nothing of the stage lies over anything else of it, and none of it outside the window: sizes x recordings x states."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright", reason="playwright is not installed (extra dev)")
from specviz.sources.bundled import bundled_traces
from support.stage_pages import STATES, stage_page
from tools.chromium import chromium, executable

pytestmark = pytest.mark.skipif(
    executable() is None, reason="no chromium on this machine: apt-get install chromium, or name one in CHROMIUM"
)
SIZES = ((1024, 768), (1280, 720), (1280, 800), (1366, 768), (1440, 900), (1536, 730), (1920, 1080))
NAMES = ("explain-draft", "explain-tree", "explain-eagle3", "explain-specblock", "code-lookahead", "code-specbranch")
SOME = ("explain-tree", "code-specbound")  # in the ordinary suite
_SMALLEST = 8.0  # px of a letter in the tree

# What is seen of every part: its box, cut by those around it that scroll or clip. A part inside another is no fault.
_LOOK = """() => {
  const parts = ".name > *, .metrics div, .tools > *, .talk h2, .scroll, .composer, .phases, .said, .iff, .canvas, .legend > *, .test, .counts, "
    + ".knob, summary, .last, .both, .lacks, .wrong, .buttons > *, .livebar > *, .track, .why, .tabs button";
  const shown = (one) => one.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  const cut = (one) => {
    let { left, top, right, bottom } = one.getBoundingClientRect();
    for (let each = one.parentElement; each; each = each.parentElement) {
      const style = getComputedStyle(each), edge = each.getBoundingClientRect();
      if (style.overflowX !== "visible") [left, right] = [Math.max(left, edge.left), Math.min(right, edge.right)];
      if (style.overflowY !== "visible") [top, bottom] = [Math.max(top, edge.top), Math.min(bottom, edge.bottom)];
    }
    return { one, name: `${one.className || one.tagName} ${one.textContent.slice(0, 24)}`, left, top, right, bottom };
  };
  const around = document.querySelector(".stage-around");
  const seen = [...around.querySelectorAll(parts)].filter(shown).map(cut).filter((box) => box.right - box.left > 1 && box.bottom - box.top > 1);
  const faults = [];
  seen.forEach((a, n) => seen.slice(n + 1).forEach((b) => {
    if (a.one.contains(b.one) || b.one.contains(a.one)) return;
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left), high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (wide > 1 && high > 1) faults.push(`'${a.name}' over '${b.name}' by ${wide.toFixed(0)} x ${high.toFixed(0)}`);
  }));
  for (const { one, name } of seen) {
    const { left, top, right, bottom } = one.getBoundingClientRect(), scrolls = one.closest(".turns, .why, .scroll, .tabs");
    if (left < -1 || right > innerWidth + 1) faults.push(`'${name}' leaves the window at its side`);
    if (!scrolls && (top < -1 || bottom > innerHeight + 1)) faults.push(`'${name}' leaves the window at ${bottom.toFixed(0)} of ${innerHeight}`);
  }
  for (const name of [".middle", ".stage > header"]) {
    const one = around.querySelector(name);
    if (one.scrollHeight > one.clientHeight + 1) faults.push(`${name} holds ${one.scrollHeight} in ${one.clientHeight}`);
  }
  const letters = [...around.querySelectorAll("svg.tree .node text")].filter((one) => one.textContent.trim());
  const least = Math.min(...letters.map((one) => parseFloat(getComputedStyle(one).fontSize) * one.getScreenCTM().a));
  return { faults, least, n: seen.length, canvas: around.querySelector(".canvas").clientHeight };
}"""
_TEST = "() => { const { moments } = stage.page; return stage.go(stage.index, moments.findLastIndex((m) => m.phase === 4)); }"
_ASK = "() => { stage.change = { knobs: {}, uniforms: {}, ...told.changed }; return stage.decide(); }"


@pytest.fixture(scope="module")
def look(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., dict[tuple[int, int], Any]]]:
    """What is found in each window, with one page of one browser."""
    folder = tmp_path_factory.mktemp("stages")
    with chromium() as browser:
        page = browser.new_context(reduced_motion="reduce").new_page()

        def looked(name: str, state: str, sizes: tuple[tuple[int, int], ...]) -> dict[tuple[int, int], Any]:
            page.goto(stage_page(bundled_traces()[name], folder, state == "live").as_uri())
            page.locator(".node").first.wait_for()
            if state != "live":
                page.locator(".whatif .knob").first.wait_for()
            if state in ("test", "what if"):
                page.evaluate(_TEST if state == "test" else _ASK)
            found = {}
            for width, height in sizes:
                page.set_viewport_size({"width": width, "height": height})
                page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
                page.wait_for_timeout(60)  # observers of sizes answer one another
                found[width, height] = page.evaluate(_LOOK)
            return found

        yield looked


def _faults(found: dict[tuple[int, int], Any]) -> list[str]:
    told = [f"{width}x{height}: {fault}" for (width, height), seen in found.items() for fault in seen["faults"]]
    small = [
        f"{width}x{height}: letters of {seen['least']:.1f} px"
        for (width, height), seen in found.items()
        if seen["least"] < _SMALLEST - 0.05
    ]
    return told + small


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", SOME)
def test_nothing_lies_over_anything(name: str, state: str, look: Callable[..., dict[tuple[int, int], Any]]) -> None:
    found = look(name, state, SIZES)
    assert min(seen["n"] for seen in found.values()) > 20, "the page is empty"
    assert _faults(found) == []


@pytest.mark.audit
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_lies_over_anything_of_other_methods(
    name: str, state: str, look: Callable[..., dict[tuple[int, int], Any]]
) -> None:
    assert _faults(look(name, state, SIZES)) == []
