"""Knobs, heading and waiting of the live stage, in a real browser."""

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("playwright", reason="playwright is not installed (extra dev)")
from app.browser.acts import follow_run, settled, until
from app.served import Served
from specviz.view.stage.chromium import executable

pytestmark = pytest.mark.skipif(
    executable() is None, reason="no chromium on this machine: apt-get install chromium, or name one in CHROMIUM"
)
_GAMMA, _T = ".knob input[aria-label='γ gamma']", ".knob input[aria-label$=' temperature']"


def _place(page: Any, selector: str) -> Any:
    return page.locator(selector).evaluate(
        "one => { const { x, width } = one.getBoundingClientRect(); return [x, width]; }"
    )


def test_a_slider_stays_where_it_is_and_its_value_beside_its_words(live: Served, open_at: Callable[..., Any]) -> None:
    """Of every frame that is painted value and words are noted: `in force` never stands beside the value before."""
    page = open_at(f"{live.url}/stage", 1280, 720)
    follow_run(page, "go on")
    slider = page.locator(_GAMMA)
    slider.wait_for()
    before = _place(page, _GAMMA)
    slider.evaluate("""slider => {
      window.seen = new Set();
      const box = slider.closest(".knob");
      const said = (name) => box.querySelector(name).textContent;
      new MutationObserver(() => seen.add(`${said("b")} ${said(".asked")}`))
        .observe(box, { subtree: true, childList: true, characterData: true });
    }""")
    slider.focus()
    slider.press("ArrowRight")
    slider.press("ArrowRight")
    page.locator(".knob.moved", has_text="in force from r").wait_for()
    page.wait_for_timeout(600)
    assert _place(page, _GAMMA) == before
    parts = page.evaluate("[...window.seen]")
    assert any(words.startswith("6 in force") for words in parts), parts
    assert not [words for words in parts if words.startswith("4 in force")], parts


def test_heading_and_badge_follow_a_knob_in_the_tab_that_moved_it(live: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(f"{live.url}/stage")
    follow_run(page, "go on")
    assert "T .80" in page.locator(".stage h1").inner_text()
    page.locator(_T).fill("0.3")
    page.locator(_T).press("Enter")
    page.locator(".stage h1", has_text="T .30 .. .80").wait_for()
    page.locator(".stage .badge", has_text="sampling changed on the way").wait_for()


def test_knobs_are_set_before_the_first_message_and_between_runs(live: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(f"{live.url}/stage")
    slider = page.locator(_GAMMA)
    slider.wait_for()
    settled(page)
    slider.focus()
    slider.press("ArrowRight")
    knob = page.locator(".knob.moved", has_text="for the next run")
    knob.wait_for()
    follow_run(page, "go on")
    until(lambda: live_start(page)["gamma"] == "5", "the run began without it")
    page.locator(".livebar .halt").click()
    page.locator(".livebar .state", has_text="ENDED").wait_for()
    until(slider.is_enabled, "nothing can be set between runs")
    slider.focus()
    slider.press("ArrowRight")
    knob.wait_for()
    until(lambda: live_start(page)["gamma"] == "6", "it does not move")


def live_start(page: Any) -> dict[str, str]:
    """Knobs by name, as they are shown."""
    slides = page.locator(".knob.slide").evaluate_all(
        "all => all.map(one => [one.querySelector('input').ariaLabel, one.querySelector('b').textContent])"
    )
    return {name.split()[-1]: value for name, value in slides}


def test_what_is_awaited_is_said_and_nothing_of_a_run_beside_it(talking: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(f"{talking.url}/stage")
    awaits = page.locator(".stage .awaits")
    awaits.wait_for()
    for part in (".stage .badge", ".stage .metrics", ".stage .phases", ".stage .place", ".buttons [data-do=play]"):
        assert not page.locator(part).is_visible(), part
    follow_run(page, "go on")
    awaits.wait_for(state="hidden")
    page.locator(".stage .badge").wait_for()
