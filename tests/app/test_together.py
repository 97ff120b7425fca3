"""Two browsers look at a run together: one presents, the other goes along, goes its own way, and comes back."""

import re
import time
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("playwright", reason="playwright is not installed (extra dev)")
from app.served import Served, served
from specviz.view.stage.chromium import chromium, executable

pytestmark = pytest.mark.skipif(
    executable() is None, reason="no chromium on this machine: apt-get install chromium, or name one in CHROMIUM"
)
Person = Callable[..., Any]


@pytest.fixture(scope="module")
def recorded(chain_trace: Path) -> Iterator[Served]:
    with served(chain_trace) as server:
        yield server


@pytest.fixture
def shared(chain_trace: Path) -> Iterator[Served]:
    """What other machines reach: pages without the key watch."""
    with served(chain_trace, 0, "shared") as server:
        yield server


@pytest.fixture
def person() -> Iterator[Person]:
    """Somebody with a browser of their own, who opens an address; nothing may be said on any console."""
    errors: list[str] = []
    with chromium() as browser:

        def opened(address: str) -> Any:
            page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
            page.set_default_timeout(60_000)
            page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.goto(address)
            page.locator(".stage .node").first.wait_for()
            return page

        yield opened
    assert errors == []


def _stands(page: Any, words: str) -> None:
    """Wait until the picture stands there: `r3 · step 2`."""
    place, step = words.split(" · step ")
    label = page.locator(".stage .place", has_text=re.compile(rf"^{place} of \d+ · step {step}/"))
    label.wait_for(state="attached")


def _looks(part: Any, ground: str) -> None:
    """Wait until more than half of a part of the page is painted so light, or so dark."""
    deadline, grey = time.monotonic() + 60, 128.0
    while not (grey > 192 if ground == "light" else grey < 64):
        assert time.monotonic() < deadline, f"it is not {ground}: {grey} of 255"
        grey = float(np.median(np.asarray(Image.open(BytesIO(part.screenshot())).convert("L"))))


def _step(page: Any) -> str:
    """Where it stands."""
    match = re.match(r"(r\d+) of \d+ · step (\d+)/", page.locator(".stage .place").inner_text())
    assert match is not None
    return f"{match[1]} · step {match[2]}"


def test_who_follows_goes_along_until_they_move_by_hand(recorded: Served, person: Person) -> None:
    leads = person(f"{recorded.url}/stage?at=r2")
    other = person(f"{recorded.url}/stage?at=r5")
    follow = other.locator(".stage .follows")
    assert not follow.is_visible(), "nobody presents"
    leads.keyboard.press("p")
    follow.wait_for()
    _stands(other, _step(other))
    assert _step(other).startswith("r5"), "nobody is taken along unasked"
    other.keyboard.press("f")
    _stands(other, _step(leads))
    for key in ("]", "ArrowLeft", "ArrowLeft", "}"):
        leads.keyboard.press(key)
        _stands(other, _step(leads))
    other.wait_for_url("**mode=follow**")
    other.keyboard.press("Home")
    other.locator(".stage .follows", has_text="follow again").wait_for()
    other.wait_for_url(re.compile(r"^((?!mode=).)*$"))
    leads.keyboard.press("End")
    leads.keyboard.press("[")
    other.wait_for_timeout(500)
    assert _step(other).startswith("r1 "), "their own way"
    follow.click()
    _stands(other, _step(leads))
    node = leads.locator(".stage .node[data-mark=accepted]").first
    node.dispatch_event("click")
    chosen = leads.locator(".stage .why .title").inner_text()
    other.locator(".stage .why .title", has_text=chosen.strip().split()[-1]).wait_for()
    leads.keyboard.press("Escape")
    other.locator(".roomline", has_text="Nobody presents yet").wait_for()


def test_who_follows_sees_the_panel_that_is_opened(recorded: Served, person: Person) -> None:
    leads = person(f"{recorded.url}/stage?at=r2&mode=present")
    other = person(f"{recorded.url}/stage?mode=follow")
    _stands(other, _step(leads))
    leads.locator(".panelrow [data-panel=overview]").click()
    other.locator(".panelrow [data-panel=overview][aria-selected=true]").wait_for()
    other.get_by_text("Where the time goes").wait_for()
    other.wait_for_url("**panel=overview**")


def test_presenter_mode_is_the_picture_alone_and_stands_in_the_address(recorded: Served, person: Person) -> None:
    page = person(f"{recorded.url}/stage?at=r2")
    header = page.locator("[data-testid=stHeader]")
    assert header.is_visible()
    large = "parseFloat(getComputedStyle(document.documentElement).fontSize)"
    before = page.evaluate(large)
    page.keyboard.press("p")
    header.wait_for(state="hidden")
    page.wait_for_url("**mode=present**")
    assert page.evaluate(large) > before
    box = page.locator(".stage")
    assert box.get_attribute("data-theme") == "dark"
    assert not box.locator("button:visible").count(), "nothing to press"
    page.reload()
    page.locator(".stage-around.presents .node").first.wait_for()
    page.keyboard.press("Escape")
    header.wait_for()
    page.wait_for_url(re.compile(r"^((?!mode=).)*$"))
    assert not page.locator(".stage-around.presents").count()


@pytest.mark.parametrize("ground", ["light", "dark"])
def test_what_is_below_a_presented_picture_is_dark_as_well(ground: str, recorded: Served, person: Person) -> None:
    page = person(f"{recorded.url}/stage?at=r2&panel=overview")
    page.emulate_media(color_scheme=ground)
    page.locator(f".stage[data-theme={ground}]").wait_for()
    panel = page.locator(".st-key-panel [data-testid=stMetric]").first
    panel.wait_for()
    _looks(panel, ground)
    page.keyboard.press("p")
    page.locator(".stage-around.presents").wait_for()
    _looks(panel, "dark")
    page.keyboard.press("Escape")
    page.locator(".stage-around:not(.presents)").wait_for()
    _looks(panel, ground)


def test_other_machines_follow_and_do_not_present(shared: Served, person: Person) -> None:
    page = person(f"{shared.url}/stage?at=r2&mode=present")  # without the key
    other = person(f"{shared.url}/stage?mode=follow")
    page.keyboard.press("]")
    page.wait_for_timeout(1000)
    assert page.locator(".stage-around.presents").count() == 1, "large type is for everybody"
    assert "Nobody presents yet" in other.locator(".roomline").inner_text()
