"""Lessons beside the stage: what the address asks for, whose run is looked at, and how one is left."""

from pathlib import Path

from app import onstage
from app.conftest import Open
from specviz.sources.lessons import bundled_lessons
from specviz.trace.bundled import all_bundled
from specviz_app.server.core import Settings
from specviz_app.server.room import PresenterPlace, decode_said
from specviz_app.ui import lessons

IDS = list(bundled_lessons())
THIRD = bundled_lessons()[IDS[2]]


def test_the_address_names_a_lesson_which_brings_its_run(open_page: Open) -> None:
    at = open_page(Settings(), "stage", lesson="3", teach="1")
    assert not at.exception
    sent = onstage.handed(at)
    assert sent["lesson"]["script"]["id"] == THIRD.id
    assert sent["lesson"]["teach"] is True
    assert (sent["src"], sent["play"], sent["welcome"]) == (THIRD.trace, False, [])
    assert sent["lesson"]["title"] == bundled_lessons()[IDS[3]].title


def test_the_picture_asks_for_the_next_one_and_leaves_it(open_page: Open) -> None:
    at = open_page(Settings(), "stage", lesson="3")
    onstage.tell(at, "lesson", IDS[3])
    assert onstage.handed(at)["lesson"]["script"]["id"] == IDS[3]
    onstage.tell(at, "lesson", "")
    assert onstage.handed(at)["lesson"] is None
    assert lessons.LESSON not in at.query_params


def test_behind_the_last_one_is_the_clinic(open_page: Open) -> None:
    at = open_page(Settings(), "stage", lesson=str(len(IDS)))
    following = onstage.handed(at)["lesson"]["next"]
    assert following
    onstage.tell(at, "lesson", following)
    sent = onstage.handed(at)
    assert (sent["lesson"], sent["src"], sent["large"]) == (None, "clinic-1", True)
    assert lessons.LESSON not in at.query_params


def test_another_run_is_no_lesson_and_a_lesson_that_is_not_there_is_named(chain_trace: Path, open_page: Open) -> None:
    at = open_page(Settings(replay=chain_trace), "stage", lesson="3")
    at.selectbox(key="src").set_value("chain").run()
    assert onstage.handed(at)["lesson"] is None
    at = open_page(Settings(replay=chain_trace), "stage", lesson="33")
    assert "no lesson '33'" in at.warning[0].value
    assert onstage.handed(at)["lesson"] is None


def test_the_first_screen_has_a_door_to_the_lessons(open_page: Open) -> None:
    at = open_page(Settings(), "stage")
    door = onstage.handed(at)["lessons"]
    assert str(len(IDS)) in door["text"]
    at.menu_button(key=lessons.LIST).click(THIRD.id).run()
    assert onstage.handed(at)["lesson"]["script"]["id"] == THIRD.id


def test_a_class_is_led_to_the_lesson_of_its_teacher(open_page: Open) -> None:
    place = decode_said(b'{"room":"lead","who":"a","src":"x","lesson":"l","lesson_step":2,"lesson_shown":true}')
    assert isinstance(place, PresenterPlace)
    assert (place.lesson, place.lesson_step, place.lesson_shown) == ("l", 2, True)
    at = open_page(Settings(), "stage", mode="follow")
    onstage.tell(at, "led", {"src": THIRD.trace, "panel": "", "place": "", "lesson": THIRD.id})
    assert onstage.handed(at)["lesson"]["script"]["id"] == THIRD.id
    assert THIRD.trace in all_bundled()
