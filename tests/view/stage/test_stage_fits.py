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
_SMALLEST = 11.0  # px of a letter in the tree
_SHARE = 0.5  # of the window's height, for the tree; from windows as high as the lowest usual one on

_LOOK = Path(__file__).with_name("overlaps.js").read_text("utf-8")
_TEST = "() => stage.go(stage.index, stage.page.moments.findLastIndex((each) => each.phase === 4))"
_ASK = "() => { stage.change = { knobs: {}, uniforms: {}, ...told.changed }; return stage.decide(); }"


@pytest.fixture(scope="module")
def look(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], dict[str, dict[tuple[int, int], Any]]]]:
    """What is found of a recording in each state and window, with one page of one browser."""
    folder = tmp_path_factory.mktemp("stages")
    with chromium() as browser:
        page = browser.new_context(reduced_motion="reduce").new_page()

        def sized(width: int, height: int) -> Any:
            page.set_viewport_size({"width": width, "height": height})
            page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            page.wait_for_timeout(60)  # observers of sizes answer one another
            return page.evaluate(_LOOK)

        def looked(name: str) -> dict[str, dict[tuple[int, int], Any]]:
            by_state = {}
            for state in STATES:
                if state in ("rest", "live"):
                    page.goto(stage_page(all_bundled()[name], folder, state == "live").as_uri())
                    page.locator(".node" if state == "live" else ".whatif .knob").first.wait_for()
                else:
                    page.evaluate(_TEST if state == "test" else _ASK)
                by_state[state] = {size: sized(*size) for size in SIZES}
            return by_state

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


@pytest.mark.parametrize("name", all_bundled())
def test_nothing_lies_over_anything(name: str, look: Callable[[str], dict[str, dict[tuple[int, int], Any]]]) -> None:
    for state, by_size in look(name).items():
        assert min(seen["n"] for seen in by_size.values()) > 20, f"{state}: the page is empty"
        assert _faults(by_size) == [], state
