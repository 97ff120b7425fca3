"""A conversation in a real browser, on its page and on the stage."""

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("playwright", reason="playwright is not installed (extra dev)")
from app.browser.acts import COUNT_RUNS, follow_run, settled, stage_round, until
from app.served import Served
from specviz.view.stage.chromium import executable

pytestmark = pytest.mark.skipif(
    executable() is None, reason="no chromium on this machine: apt-get install chromium, or name one in CHROMIUM"
)


def _say(page: Any, message: str) -> None:
    box = page.get_by_placeholder("Message to")
    box.fill(message)
    box.press("Enter")


def test_a_conversation_takes_one_script_run_a_message_and_mounts_nothing_anew(
    talking: Served, open_at: Callable[..., Any]
) -> None:
    page = open_at(talking.url)
    page.get_by_role("button", name="explain").click()
    until(lambda: stage_round(page) >= 2, "no answer")
    assert page.locator(".talk .text").inner_text()
    page.locator(".stage").evaluate("element => { element.tagged = 'the same' }")
    page.locator(".livebar .halt").click()
    page.locator(".state", has_text="ENDED").wait_for()
    settled(page)
    page.evaluate(COUNT_RUNS)
    _say(page, "and then?")
    page.locator(".sv-turn", has_text="and then?").wait_for()
    page.locator(".state", has_text="LIVE").wait_for()
    until(lambda: stage_round(page) >= 3, "no second answer")
    assert page.evaluate("window.runs") == 1
    assert page.locator(".sv-turn").count() == 3
    assert page.locator(".stage").evaluate("element => element.tagged") == "the same"


def test_a_message_that_is_refused_comes_back_into_the_box(talking: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(talking.url)
    page.get_by_role("button", name="explain").wait_for()
    settled(page)
    _say(page, "this is too long")
    page.get_by_text("no space is left").first.wait_for()
    box = page.get_by_placeholder("Message to")
    until(lambda: box.input_value() == "this is too long", "the message is lost")
    until(lambda: page.locator(".sv-turn").count() == 0, "the refused message still stands in the conversation")


def test_another_tab_shows_the_message_without_being_touched(talking: Served, open_at: Callable[..., Any]) -> None:
    first, second = open_at(talking.url), open_at(talking.url)
    for page in (first, second):
        page.get_by_role("button", name="explain").wait_for()
        settled(page)
    _say(first, "why?")
    until(lambda: stage_round(first) >= 1, "no answer")
    second.reload()
    second.locator(".sv-turn", has_text="why?").wait_for()
    first.locator(".livebar .halt").click()
    first.locator(".state", has_text="ENDED").wait_for()
    settled(first)
    _say(first, "and then?")
    second.locator(".sv-turn", has_text="and then?").wait_for()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_conversation_fits_a_phone(dark: bool, talking: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(talking.url, 390, 844, dark)
    page.get_by_role("button", name="explain").click()
    until(lambda: stage_round(page) >= 1, "nothing is painted")
    assert page.evaluate("Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)") <= 390
    for part in (".stage", ".stage .canvas", ".stage .text", ".sv-turn"):
        assert page.locator(part).first.evaluate("element => element.getBoundingClientRect().right") <= 390


def test_a_conversation_on_the_stage(talking: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(f"{talking.url}/stage")
    page.get_by_role("button", name="explain").click()
    page.locator(".stage .node").first.wait_for()
    page.locator(".livebar .halt").click()
    page.locator(".livebar .state", has_text="ENDED").wait_for()
    settled(page)
    follow_run(page, "<b>and then?</b>")
    page.locator(".above .turn-user", has_text="<b>and then?</b>").wait_for()
    assert page.locator(".above > *").count() == 3
    assert page.locator(".above b").count() == 0
    page.locator(".livebar .halt").click()
    page.locator(".livebar .state", has_text="ENDED").wait_for()
    page.locator(".composer textarea").fill("this is too long")
    page.keyboard.press("Enter")
    page.locator(".wrong", has_text="no space is left").wait_for()
    box = page.locator(".composer textarea")
    until(lambda: box.input_value() == "this is too long", "the message is lost")
    page.keyboard.press("Enter")
    assert box.input_value() == ""
    until(lambda: box.input_value() == "this is too long", "the same message is lost when it is refused again")
