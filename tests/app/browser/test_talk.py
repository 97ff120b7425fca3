"""A conversation on the stage, in a real browser."""

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("playwright", reason="playwright is not installed (extra dev)")
from app.browser.acts import count_runs, say, settled, stage_round, stop_run, until
from app.served import Served
from specviz.view.stage.chromium import executable

pytestmark = pytest.mark.skipif(
    executable() is None, reason="no chromium on this machine: apt-get install chromium, or name one in CHROMIUM"
)


def test_a_conversation_takes_one_script_run_a_message_and_mounts_nothing_anew(
    talking: Served, open_at: Callable[..., Any]
) -> None:
    page = open_at(talking.url)
    page.get_by_role("button", name="explain").click()
    until(lambda: stage_round(page) >= 2, "no answer")
    assert page.locator(".talk .text").inner_text()
    page.locator(".stage").evaluate("element => { element.tagged = 'the same' }")
    stop_run(page)
    count_runs(page)
    say(page, "<b>and then?</b>")
    page.locator(".above .turn-user", has_text="<b>and then?</b>").wait_for()
    page.locator(".livebar .state", has_text="LIVE").wait_for()
    until(lambda: stage_round(page) >= 3, "no second answer")
    assert page.evaluate("window.runs") == 1
    assert page.locator(".above > *").count() == 3
    assert page.locator(".above b").count() == 0
    assert page.locator(".stage").evaluate("element => element.tagged") == "the same"
    stop_run(page)
    _refused(page)
    assert page.locator(".above .turn-user").all_inner_texts()[1:] == ["<b>and then?</b>"]


_WATCH = """box => {
    window.emptied = false;
    const look = () => { window.emptied ||= !box.value; if (!window.emptied) requestAnimationFrame(look); };
    look();
}"""


def _refused(page: Any) -> None:
    """What is too long comes back into the box, also when it is sent again as it is."""
    box = page.locator(".composer textarea")
    say(page, "this is too long")
    page.locator(".wrong", has_text="no space is left").wait_for()
    until(lambda: box.input_value() == "this is too long", "the message is lost")
    box.evaluate(_WATCH)
    box.press("Enter")
    until(lambda: page.evaluate("window.emptied"), "it is not sent")
    until(lambda: box.input_value() == "this is too long", "the same message is lost when it is refused again")
    below = page.locator(".talk p.turn-user")
    until(below.is_hidden, "the refused message still stands in the conversation")


def test_a_first_message_that_is_refused_comes_back_into_the_box(talking: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(talking.url)
    page.get_by_role("button", name="explain").wait_for()
    _refused(page)
    until(lambda: page.locator(".above > *").count() == 0, "the refused message still stands in the conversation")


def test_another_tab_shows_the_message_without_being_touched(talking: Served, open_at: Callable[..., Any]) -> None:
    first, second = open_at(talking.url), open_at(talking.url)
    for page in (first, second):
        page.get_by_role("button", name="explain").wait_for()
        settled(page)
    say(first, "why?")
    until(lambda: stage_round(first) >= 1, "no answer")
    second.reload()
    second.locator(".turn-user", has_text="why?").first.wait_for()
    stop_run(first)
    settled(first)
    say(first, "and then?")
    second.locator(".turn-user", has_text="and then?").first.wait_for()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_conversation_fits_a_phone(dark: bool, talking: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(talking.url, 390, 844, dark)
    page.get_by_role("button", name="explain").click()
    until(lambda: stage_round(page) >= 1, "nothing is painted")
    assert page.evaluate("Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)") <= 390
    for part in (".stage", ".stage .canvas", ".stage .text", ".above .turn-user"):
        assert page.locator(part).first.evaluate("element => element.getBoundingClientRect().right") <= 390
