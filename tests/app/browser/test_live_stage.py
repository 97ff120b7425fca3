"""The stage of a run that goes on, in a real browser, from the first minute to both settings side by side."""

import re
import signal
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("playwright", reason="playwright is not installed (extra dev)")
from app.browser.acts import (
    address,
    count_runs,
    follow_run,
    settled,
    stage_place,
    stage_round,
    start_run,
    stop_run,
    until,
)
from app.served import Served
from specviz.view.stage.chromium import executable

pytestmark = pytest.mark.skipif(
    executable() is None, reason="no chromium on this machine: apt-get install chromium, or name one in CHROMIUM"
)


def _newest(page: Any) -> int:
    """Rounds that the stage knows of."""
    return int(page.locator(".stage .time .track").get_attribute("aria-valuemax") or 0)


def test_the_stage_follows_the_core_round_after_round_without_a_script_run(
    lasting: Served, open_at: Callable[..., Any]
) -> None:
    page = open_at(f"{lasting.url}/stage")
    follow_run(page, "go on")
    count_runs(page)
    before = _newest(page)
    until(lambda: _newest(page) >= before + 2, "it does not go on")
    assert page.evaluate("window.runs") == 0
    assert page.locator(".stage img").count() == 0
    page.locator(".livebar select").select_option("0")
    seen = stage_round(page)
    until(lambda: _newest(page) >= before + 12, "it does not go at the core's own pace")
    until(lambda: stage_round(page) >= seen + 10, "the stream stands still")
    assert page.evaluate("window.runs") == 0
    stop_run(page)


def test_the_stage_holds_steps_goes_on_looks_back_comes_back_and_stops(
    live: Served, open_at: Callable[..., Any]
) -> None:
    page = open_at(f"{live.url}/stage")
    start_run(page, "held")
    page.locator(".livebar .state", has_text="PAUSED").wait_for()
    page.locator(".buttons [data-do=round]").click()
    until(lambda: stage_round(page) == 1, "no step")
    page.locator(".buttons [data-do=round]").click()
    until(lambda: stage_round(page) == 2, "no second step")
    page.locator(".livebar select").select_option("1")
    page.locator(".buttons .main").click()
    until(lambda: stage_round(page) > 3, "it does not go on")
    page.locator(".buttons .main").click()
    page.locator(".livebar .state", has_text="PAUSED").wait_for()
    held = _newest(page)
    page.locator(".buttons [data-do=round]").click()
    until(lambda: _newest(page) == held + 1, "no step")
    page.locator(".buttons .main").click()
    page.locator("svg.tree").focus()
    page.keyboard.press("Home")
    until(lambda: stage_place(page).startswith("r1 "), "there is no way back")
    until(lambda: "at=r1" in address(page), "the address does not say where it looks")
    seen = _newest(page)
    until(lambda: _newest(page) > seen, "the core waits for who looks back")
    assert stage_place(page).startswith("r1 ")
    page.keyboard.press("l")
    until(lambda: not stage_place(page).startswith("r1 "), "there is no way to live")
    assert page.locator(".livebar .golive").is_hidden()
    assert page.locator(".stage.following").count() == 1
    until(lambda: "at=" not in address(page), "the address stays behind")
    stop_run(page)


def test_a_knob_below_the_tree_is_requested_and_in_force(live: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(f"{live.url}/stage")
    follow_run(page, "go on")
    slider = page.locator(".knob input[aria-label='γ gamma']")
    slider.focus()
    slider.press("ArrowRight")
    knob = page.locator(".knob.moved", has_text="in force from r")
    knob.wait_for()
    assert slider.input_value() == "5"
    page.locator(".knobs .last", has_text="γ 4→5").wait_for()


def test_viewers_follow_one_run_and_a_hidden_one_gives_up_its_stream(live: Served, open_at: Callable[..., Any]) -> None:
    pages = [open_at(f"{live.url}/stage") for _ in range(2)]
    follow_run(pages[0], "go on")
    pages[1].locator(".stage .node").first.wait_for()
    until(lambda: _newest(pages[1]) >= 3, "the second viewer sees nothing")
    hide = (
        "Object.defineProperty(document, 'hidden', { configurable: true, get: () => window.away }); window.away = true;"
    )
    pages[1].evaluate(f"() => {{ {hide} document.dispatchEvent(new Event('visibilitychange')); }}")
    pages[1].wait_for_timeout(500)
    still = _newest(pages[1])
    until(lambda: _newest(pages[0]) > still + 2, "the first viewer stands still")
    assert _newest(pages[1]) == still
    pages[1].evaluate("() => { window.away = false; document.dispatchEvent(new Event('visibilitychange')); }")
    until(lambda: _newest(pages[1]) > still + 2, "it does not come back")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_live_stage_fits_a_phone(dark: bool, live: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(f"{live.url}/stage", 390, 844, dark)
    start_run(page, "full speed")
    until(lambda: stage_round(page) >= 1, "nothing is painted")
    assert page.locator(".stage").get_attribute("data-theme") == ("dark" if dark else "light")
    main = page.locator("[data-testid=stMain]")
    assert main.evaluate("element => element.scrollWidth <= element.clientWidth")
    for part in (".composer", ".livebar", ".steer", ".stage .canvas"):
        assert page.locator(part).evaluate("element => element.getBoundingClientRect().right") <= 390


_BAR = """() => ["stTopNavLink", "st-key-beginning", "st-key-src", "st-key-gallery", "st-key-lessons"].flatMap((name) =>
  [...document.querySelectorAll(`[data-testid=${name}], .${name}`)].map((part) => {
    const { left, right, top, bottom } = part.getBoundingClientRect();
    return [name, left, right, top, bottom];
  }))"""


@pytest.mark.parametrize("width", [390, 700, 1000, 1160, 1280, 1440])
def test_nothing_at_the_top_lies_over_anything(width: int, opened: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(f"{opened.url}/stage?src=live+run", width, 720)
    page.locator(".st-key-beginning button:visible").first.wait_for()
    page.locator(".composer").wait_for()
    settled(page)
    parts = page.evaluate(_BAR)
    assert len(parts) >= 4
    for k, (name, left, right, top, bottom) in enumerate(parts):
        assert left >= 0
        assert right <= width
        for other, x0, x1, y0, y1 in parts[:k]:
            assert right <= x0 or x1 <= left or bottom <= y0 or y1 <= top, f"{name} over {other}"


def test_the_first_minute_plays_is_walked_and_put_away(opened: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(opened.url)
    page.locator(".stage .node").first.wait_for()
    before = stage_place(page)
    until(lambda: stage_place(page) != before, "it does not play")
    step = page.locator(".welcome .n")
    assert step.inner_text() == "1 of 4"
    page.locator(".welcome .next").click()
    page.keyboard.press("ArrowRight")
    until(lambda: step.inner_text() == "3 of 4", "the key that is asked for does not go on")
    page.keyboard.press("}")
    until(lambda: step.inner_text() == "4 of 4", "the key that is asked for does not go on")
    page.locator(".welcome [data-do=away]").click()
    assert page.locator(".welcome").count() == 0
    settled(page)
    page.get_by_role("link", name="Servers").click()
    page.get_by_role("textbox", name="Address").wait_for()
    page.get_by_role("link", name="Stage").click()
    page.locator(".stage .node").first.wait_for()
    assert page.locator(".welcome").count() == 0


def test_a_link_leads_away_though_the_picture_has_just_come_to_rest(
    opened: Served, open_at: Callable[..., Any]
) -> None:
    """Where it came to rest is told a moment later: behind the click it would lead back to the page that is left."""
    page = open_at(opened.url)
    page.locator(".stage .node").first.wait_for()
    settled(page)
    for wait_ms in (0, 250, 330):  # it is told after 350
        page.keyboard.press("}")
        page.wait_for_timeout(wait_ms)
        page.get_by_role("link", name="Servers").click()
        page.get_by_role("textbox", name="Address").wait_for()
        page.wait_for_timeout(500)
        assert page.get_by_role("textbox", name="Address").is_visible()
        page.get_by_role("link", name="Stage").click()
        page.locator(".stage .node").first.wait_for()
        settled(page)


def test_a_link_leads_away_however_long_the_server_takes(opened: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(opened.url)
    page.locator(".stage .node").first.wait_for()
    settled(page)
    opened.signal(signal.SIGSTOP)
    try:
        page.get_by_role("link", name="Servers").click()
        page.wait_for_timeout(4000)
        page.locator(".stage .node").first.click()  # a place to tell, while the page that is left still stands there
        page.wait_for_timeout(600)
    finally:
        opened.signal(signal.SIGCONT)
    page.get_by_role("textbox", name="Address").wait_for()
    page.wait_for_timeout(500)
    assert page.get_by_role("textbox", name="Address").is_visible()


def test_run_it_here_goes_on_live_from_the_same_prompt(opened: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(opened.url)
    page.locator(".stage .node").first.wait_for()
    settled(page)
    page.locator(".welcome .here").click()
    page.locator(".livebar .state", has_text="LIVE").wait_for()
    page.locator(".stage .node").first.wait_for()
    page.locator(".knob input[aria-label='γ gamma']:enabled").wait_for()
    page.locator(".welcome").wait_for(state="detached")


def test_who_only_watches_sees_the_run_and_moves_nothing(shared: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(f"{shared.url}/stage")
    page.get_by_text("You are watching").wait_for()
    assert page.locator(".composer textarea").is_disabled()
    assert page.locator(".livebar .halt").is_disabled()


def test_a_run_that_another_one_followed_plays_like_a_recording(live: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(f"{live.url}/stage")
    follow_run(page, "first")
    until(lambda: _newest(page) >= 4, "it does not go on")
    follow_run(page, "second")
    until(lambda: _newest(page) < 4, "it does not follow the second run")
    past = open_at(f"{live.url}/stage?src=run+1,+draft")
    past.locator(".stage .node").first.wait_for()
    past.locator(".whatif .knob input").first.wait_for()
    assert past.locator(".livebar").count() == 0
    assert past.locator(".knob input").count() == past.locator(".whatif .knob input").count()  # as what if alone


def test_both_settings_of_a_moved_knob_are_laid_side_by_side(lasting: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(f"{lasting.url}/stage")
    follow_run(page, "go on")
    page.locator(".livebar select").select_option("0")
    both = page.locator(".knobs .both")
    assert both.is_hidden()
    slider = page.locator(".knob input[aria-label='γ gamma']")
    slider.focus()
    slider.press("ArrowRight")
    both.wait_for()
    assert both.inner_text() == "A/B: the same prompt with γ 4 and with γ 5"
    both.click()
    page.get_by_text("A/B 1 of 2, γ 4").wait_for()
    page.wait_for_url(re.compile(r"/compare\?"))
    page.locator(".score .token").first.wait_for()
    assert "γ 4" in page.locator("[data-testid=stMultiSelect]").inner_text()
    assert "γ 5" in page.locator("[data-testid=stMultiSelect]").inner_text()


def test_one_button_plays_whatever_is_played(live: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(f"{live.url}/stage")
    follow_run(page, "go on")
    assert page.locator(".buttons .main").count() == 1
    play = page.locator(".stage button[aria-label^=play], .stage button[aria-label^=pause]")
    assert play.count() == 1
    assert play.get_attribute("aria-label") == "pause (space)"
    play.click()
    page.locator(".livebar .state", has_text="PAUSED").wait_for()
    until(lambda: play.get_attribute("aria-label") == "play (space)", "it does not say what it does next")
    paces = page.locator(".buttons select")
    assert [pace.is_visible() for pace in paces.all()].count(True) == 1
