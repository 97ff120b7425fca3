"""The saved file of a large run, 64 rounds of trees of 60 nodes: from disk, with the network off."""

from collections.abc import Iterator
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright", reason="playwright is not installed (extra dev)")
import specviz
from specviz.events import Event
from specviz.trace import read_events
from specviz.view.stage.chromium import chromium, executable
from support.recordings import RECORDINGS
from support.traces import write_trace

pytestmark = pytest.mark.skipif(
    executable() is None, reason="no chromium on this machine: apt-get install chromium, or name one in CHROMIUM"
)
ROUNDS, MOST_BYTES = 64, 1_500_000
_WAIT_MS = 30_000


def _first_rounds(events: list[Event], n: int) -> Iterator[Event]:
    """Up to the end of the n-th round."""
    seen: set[tuple[int, int]] = set()

    def early(event: Event) -> bool:
        if event.r > 0:
            seen.add((event.q, event.r))
        return len(seen) <= n

    return takewhile(early, events)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    events = read_events(RECORDINGS["stream-specblock"])
    frame = specviz.show(write_trace(folder / "long", list(_first_rounds(events, ROUNDS))))
    assert frame.n_rounds == ROUNDS
    return frame.save(folder / "long.html")


def test_64_rounds_of_large_trees_are_small_enough_to_be_sent(saved: Path) -> None:
    assert saved.stat().st_size <= MOST_BYTES


@pytest.fixture
def page(saved: Path) -> Iterator[Any]:
    """The file in a browser that reaches nothing; whatever the page asks for is noted, and must be nothing."""
    addresses: list[str] = []
    with chromium() as browser:
        context = browser.new_context(viewport={"width": 1440, "height": 900}, offline=True)
        context.route("**/*", lambda route: (addresses.append(route.request.url), route.continue_()))
        opened = context.new_page()
        opened.set_default_timeout(_WAIT_MS)
        opened.on("console", lambda message: addresses.append(message.text))
        opened.on("pageerror", lambda error: addresses.append(str(error)))
        opened.goto(f"file://{saved}")
        opened.locator(".node").first.wait_for()
        yield opened
        assert addresses == [f"file://{saved}"]


def test_it_plays_and_obeys_every_key_with_the_network_off(page: Any) -> None:
    place = page.locator(".time .place")

    def moved(before: str) -> None:
        page.wait_for_function("before => document.querySelector('.time .place').innerText !== before", arg=before)

    moved(place.inner_text())  # by itself
    page.keyboard.press(" ")
    page.get_by_role("button", name="play (space)").wait_for()
    for key in ("End", "Home", "]", "[", "}", "{", "ArrowRight", "ArrowLeft", ".", ","):
        before = place.inner_text()
        page.keyboard.press(key)
        moved(before)
    page.keyboard.press("End")
    page.wait_for_function(f"() => document.querySelector('.time .track').getAttribute('aria-valuenow') === '{ROUNDS}'")
    scale = "document.querySelector('.camera').style.transform"
    for key in ("+", "0", "-"):
        before = page.evaluate(scale)
        page.keyboard.press(key)
        assert page.evaluate(scale) != before, key
    page.keyboard.press("?")
    page.locator(".help[open]").wait_for()
    page.keyboard.press("Escape")
    assert page.locator(".help[open]").count() == 0


def test_on_a_phone_nothing_stands_below_something_else_and_letters_are_large_enough(page: Any) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.keyboard.press("End")
    edges = """() => [".middle", ".why .body", ".below", ".knobs"].map((part) => {
      const box = document.querySelector(part).getBoundingClientRect();
      return [box.top, box.bottom];
    })"""
    boxes = page.evaluate(edges)
    assert all(below[0] >= above[1] - 1 for above, below in pairwise(boxes)), boxes
    small = """() => [...document.querySelectorAll(".stage :is(p, span, dt, dd, h1, h2, b, li)")]
      .filter((each) => each.checkVisibility() && each.textContent.trim())
      .map((each) => parseFloat(getComputedStyle(each).fontSize)).filter((size) => size < 11)"""
    assert page.evaluate(small) == []
    assert page.evaluate("document.documentElement.scrollWidth") == 390
