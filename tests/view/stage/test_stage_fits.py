"""Nothing of the stage lies over anything else of it or outside the window, and the tree has half of the window's
height: sizes x recordings x states.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright", reason="playwright is not installed (extra dev)")
from specviz.trace.bundled import all_bundled
from specviz.view.stage.chromium import chromium, executable
from support.stage_pages import STATES, stage_page

pytestmark = pytest.mark.skipif(
    executable() is None, reason="no chromium on this machine: apt-get install chromium, or name one in CHROMIUM"
)
_LOWEST = 720
SIZES = ((1024, 768), (1280, 720), (1280, 800), (1366, 768), (1440, 900), (1536, 730), (1920, 1080))
NAMES = ("explain-draft", "explain-tree", "explain-eagle3", "explain-specblock", "quote-lookahead", "code-specbranch")
SOME = ("explain-tree", "code-specbound")  # in the ordinary suite
_SMALLEST = 11.0  # px of a letter in the tree
_SHARE = 0.5  # of the window's height, for the tree; from windows as high as the lowest usual one on

_LOOK = Path(__file__).with_name("overlaps.js").read_text("utf-8")
_TEST = "() => stage.go(stage.index, stage.page.moments.findLastIndex((each) => each.phase === 4))"
_ASK = "() => { stage.change = { knobs: {}, uniforms: {}, ...told.changed }; return stage.decide(); }"


@pytest.fixture(scope="module")
def look(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., dict[tuple[int, int], Any]]]:
    """What is found in each window, with one page of one browser."""
    folder = tmp_path_factory.mktemp("stages")
    with chromium() as browser:
        page = browser.new_context(reduced_motion="reduce").new_page()

        def looked(name: str, state: str, sizes: tuple[tuple[int, int], ...]) -> dict[tuple[int, int], Any]:
            page.goto(stage_page(all_bundled()[name], folder, state == "live").as_uri())
            page.locator(".node").first.wait_for()
            if state != "live":
                page.locator(".whatif .knob").first.wait_for()
            if state in ("test", "what if"):
                page.evaluate(_TEST if state == "test" else _ASK)
            by_size = {}
            for width, height in sizes:
                page.set_viewport_size({"width": width, "height": height})
                page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
                page.wait_for_timeout(60)  # observers of sizes answer one another
                by_size[width, height] = page.evaluate(_LOOK)
            return by_size

        yield looked


def _faults(by_size: dict[tuple[int, int], Any]) -> list[str]:
    faults = [f"{width}x{height}: {fault}" for (width, height), seen in by_size.items() for fault in seen["faults"]]
    small = [
        f"{width}x{height}: letters of {seen['least']:.1f} px"
        for (width, height), seen in by_size.items()
        if seen["least"] < _SMALLEST - 0.05
    ]
    low = [
        f"{width}x{height}: the tree has {seen['canvas']} px of {height}"
        for (width, height), seen in by_size.items()
        if height >= _LOWEST and seen["canvas"] < _SHARE * height
    ]
    return faults + small + low


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", SOME)
def test_nothing_lies_over_anything(name: str, state: str, look: Callable[..., dict[tuple[int, int], Any]]) -> None:
    by_size = look(name, state, SIZES)
    assert min(seen["n"] for seen in by_size.values()) > 20, "the page is empty"
    assert _faults(by_size) == []


@pytest.mark.audit
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_lies_over_anything_of_other_methods(
    name: str, state: str, look: Callable[..., dict[tuple[int, int], Any]]
) -> None:
    assert _faults(look(name, state, SIZES)) == []
