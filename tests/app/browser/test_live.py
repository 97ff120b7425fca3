"""A live run in a real browser: begun by the drawer, steered there, asked why, lost, and followed by a panel."""

import re
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("playwright", reason="playwright is not installed (extra dev)")
from app.browser.acts import (
    WAIT_MS,
    address,
    close_drawer,
    open_drawer,
    panel_of,
    stage_round,
    start_run,
    until,
)
from app.served import Served
from specviz.view.stage.chromium import executable

pytestmark = pytest.mark.skipif(
    executable() is None, reason="no chromium on this machine: apt-get install chromium, or name one in CHROMIUM"
)


def _first_round(page: Any) -> None:
    """A run that is held, after one step."""
    start_run(page, "held")
    page.locator(".state", has_text="PAUSED").wait_for()
    page.locator(".buttons [data-do=round]").click()
    until(lambda: stage_round(page) == 1, "no step")


def _slide(page: Any, gamma: int) -> None:
    """Ask in the drawer for drafts of another length than 4."""
    open_drawer(page)
    page.get_by_text("Knobs of draft").click()
    widget = page.locator("[data-testid=stSlider]", has_text="γ gamma")
    slider = widget.get_by_role("slider")
    slider.focus()
    for value in range(5, gamma + 1):  # a second press before the page has taken the first is lost
        slider.press("ArrowRight")
        widget.get_by_text(str(value), exact=True).wait_for()


def test_a_knob_change_is_acknowledged_and_mounts_nothing_anew(live: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(live.url)
    _first_round(page)  # a run that goes on may end before the knob is there
    page.locator(".stage").evaluate("element => { element.tagged = 'the same' }")
    _slide(page, 6)
    page.get_by_role("button", name="Apply at the next round").click()
    page.locator(".knob.sent", has_text="requested 6").wait_for()
    page.get_by_text("Requested: gamma.").wait_for()
    close_drawer(page)
    page.locator(".buttons [data-do=round]").click()
    page.locator(".buttons [data-do=round]").click()
    page.locator(".knob.moved", has_text=re.compile(r"in force from r\d+")).wait_for()
    page.locator(".knobs .last", has_text="γ 4→6").wait_for()
    assert page.locator(".knob input[aria-label='γ gamma']").input_value() == "6"
    assert page.locator(".stage").evaluate("element => element.tagged") == "the same"
    assert "draft.gamma=6" in address(page)


def test_two_things_pressed_one_after_the_other_are_both_done(busy: Served, open_at: Callable[..., Any]) -> None:
    """What is pressed before the script has begun for the thing before is not done in place of it."""
    page = open_at(busy.url)
    _first_round(page)
    _slide(page, 5)
    both = [page.get_by_role("button", name="Apply at the next round"), page.get_by_role("tab", name="Overview")]
    for one in both:
        one.evaluate("one => one.click()")
        page.wait_for_timeout(100)
    until(lambda: "panel=overview" in address(page), "the second is lost")
    page.locator(".knob.sent", has_text="requested 5").wait_for()


def test_tokens_that_look_like_markup_are_text(live: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(live.url)
    start_run(page, "full speed")
    page.locator(".stage svg.tree text", has_text="<img").first.wait_for()
    assert page.locator(".stage img").count() == 0


def test_a_click_on_a_node_asks_why_and_the_keyboard_does_too(live: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(live.url)
    _first_round(page)
    page.locator(".stage .node[data-mark=accepted], .stage .node[data-mark=rejected]").first.click()
    page.locator(".stage .why .unpin").wait_for()
    assert re.search(r"(ACCEPTED|REJECTED)", page.locator(".stage .why").inner_text())
    until(lambda: "at=r1%2Fn" in address(page) or "at=r1/n" in address(page), "the address does not say it")
    root = page.locator(".stage .node[data-mark=root]")
    root.focus()
    root.press("Enter")
    page.locator(".stage .why", has_text="ROOT").wait_for()


def test_the_server_goes_and_the_page_says_so(live: Served, browser: Any) -> None:
    page = browser.new_page()
    page.goto(live.url)
    page.locator(".state", has_text="IDLE").wait_for(timeout=WAIT_MS)
    live.interrupt()
    page.locator(".wrong", has_text="connection to the server is lost").wait_for(timeout=WAIT_MS)
    page.close()


def test_a_panel_follows_a_run_that_goes_on(live: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(live.url)
    _first_round(page)
    page.get_by_role("tab", name="Verification").click()
    panel = panel_of(page)
    panel.get_by_text("Round 1 ").first.wait_for()
    command = {"cmd": "resume", "id": 0}
    answer = page.request.post(f"{live.url}/api/command", data=command, headers={"x-specviz-token": live.token})
    assert answer.ok
    until(lambda: int((re.findall(r"Round (\d+) ", panel.inner_text()) or "0")[0]) > 2, "the panel stands still")
    assert "panel=verification" in address(page)


def test_who_wants_no_motion_sees_ended_rounds_alone(live: Served, browser: Any) -> None:
    page = browser.new_page()
    page.emulate_media(reduced_motion="reduce")
    page.set_default_timeout(WAIT_MS)
    page.goto(live.url)
    start_run(page, "watch")
    until(lambda: stage_round(page) == 2, "no second round")
    nodes = page.locator(".stage svg.tree .node")
    while stage_round(page) < 4:  # whatever phase it is in: every drafted token has its verdict, and the round its end
        marks = nodes.evaluate_all("all => all.map(node => node.dataset.mark)")
        assert "drafted" not in marks
        assert {"bonus", "recovered"} & set(marks)
    page.close()
