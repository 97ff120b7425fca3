"""A walk over every page and every bundled trace: whatever is pressed, chosen, moved or clicked, no page falls over.

The steps are drawn, the same ones every time. Set SPECVIZ_WALK=N for N steps on each page of each trace in place of
two, and SPECVIZ_WALK=all to walk every trace to its end on every page as well (half an hour).
"""

import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from app.conftest import Open
from app.tab import Tab, a_point
from specviz_app.server.core import Settings
from specviz_app.ui import guard
from support.recordings import RECORDINGS

PAGES = ("overview", "rounds", "verification", "early-exit", "lanes", "ranks", "trace")
TRACES = tuple(RECORDINGS)
_ASKED = os.environ.get("SPECVIZ_WALK", "")
_TO_THE_END = _ASKED == "all"
_STEPS = int(_ASKED) if _ASKED.isdecimal() else 2
_FORWARD = "go-round ▶"
_NOT_PRESSED = {"sweep"}  # starts a process that loads a model


@pytest.fixture
def tab(open_page: Open, monkeypatch: pytest.MonkeyPatch) -> Tab:
    """A tab at the first page, in which nothing may have gone wrong by the end."""
    faults: list[str] = []
    monkeypatch.setattr(guard, "log", lambda error, where: faults.append(f"{where}: {error!r}"))
    found = Tab(open_page(Settings()))
    found.faults = faults
    return found


def _fine(tab: Tab) -> None:
    """Nothing went wrong so far. The steps that led here are in the message."""
    wrong = [*tab.faults, *(e.message for e in tab.app.exception), *(e.value for e in tab.app.error)]
    assert wrong == [], " -> ".join(tab.steps)
    assert tab.app.selectbox(key="src").value, "the list of runs is gone"


def _something(tab: Tab, chance: random.Random) -> None:
    """One thing that can be done on this page."""
    chance.choice(_choices(tab, chance))()
    _fine(tab)


def _choices(tab: Tab, chance: random.Random) -> list[Callable[[], None]]:
    app = tab.app
    found: list[Callable[[], None]] = []
    for button in app.button:
        if not button.disabled and button.key not in _NOT_PRESSED:
            found.append(lambda key=button.key: tab.press(key, chance.choice((1, 1, 2, 3))))  # type: ignore[misc]
    boxes = [*(box for box in app.selectbox if box.key != "src"), *app.get("button_group")]
    for box in boxes:
        if box.options and not box.disabled:
            found.append(lambda box=box: tab.choose(box, chance.choice(box.options)))  # type: ignore[misc]
    for widget in (*app.slider, *app.number_input):
        if not widget.disabled:
            found.append(lambda widget=widget: tab.move(widget, _value(widget, chance)))  # type: ignore[misc]
    for switch in app.toggle:
        found.append(lambda switch=switch: tab.move(switch, not switch.value))  # type: ignore[misc]
    for element in tab.clickable:
        if point := a_point(element, chance):
            found.append(lambda element=element, point=point: tab.point(element, point))  # type: ignore[misc]
    return found or [lambda: tab.open("rounds")]


def _value(widget: Any, chance: random.Random) -> Any:
    """An end of the range, or a place in it."""
    lo, hi = widget.min, widget.max
    whole = isinstance(widget.value, int)
    between = chance.randint(int(lo), int(hi)) if whole else round(chance.uniform(lo, hi), 2)
    return chance.choice((lo, hi, min(hi, max(lo, between))))


@pytest.mark.parametrize("trace", TRACES)
def test_every_page_of_every_bundled_trace_takes_whatever_is_done(trace: str, tab: Tab) -> None:
    chance = random.Random(f"walk {trace}")
    tab.open("rounds")
    tab.look_at(trace)
    _fine(tab)
    for page in chance.sample(PAGES, len(PAGES)):
        tab.open(page)
        _fine(tab)
        for _ in range(_STEPS):
            _something(tab, chance)
        if _TO_THE_END:
            _to_the_end(tab, page)
    other = chance.choice(TRACES)  # at whatever round and node the walk has come to
    tab.look_at(other)
    _fine(tab)
    tab.look_at(trace)
    _fine(tab)


def _to_the_end(tab: Tab, page: str) -> None:
    if not any(button.key == _FORWARD for button in tab.app.button):
        return
    before = None
    while (at := tab.app.query_params.get("at")) != before:
        before = at
        tab.press(_FORWARD)
        _fine(tab)


@pytest.mark.parametrize("page", ["rounds", "ranks"])
@pytest.mark.parametrize("trace", ["code-draft", "code-specblock"])
def test_a_recording_is_walked_to_its_end(trace: str, page: str, tab: Tab) -> None:
    """Where it fell first: the browser sent back the name of a node of the round before."""
    tab.open(page)
    tab.look_at(trace)
    _to_the_end(tab, page)
    assert len(tab.steps) > 10


def test_two_presses_before_the_first_answer_are_two_rounds(tab: Tab) -> None:
    tab.open("rounds")
    tab.look_at("code-tree")
    tab.press(_FORWARD, 3)
    _fine(tab)
    assert str(tab.app.query_params["at"]).strip("[]'").startswith("r4")


def test_another_recording_in_the_middle_of_one(tab: Tab) -> None:
    tab.open("rounds")
    for source in ("code-tree", "sums-draft", "code-specblock", "code-tree"):
        tab.look_at(source)
        _fine(tab)
        for _ in range(3):
            tab.press(_FORWARD)
            _fine(tab)
