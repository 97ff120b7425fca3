"""A walk over every panel and every bundled trace: whatever is pressed, chosen, moved or clicked, none falls over.

The steps are drawn, the same ones every time. Set SPECVIZ_WALK=N for N steps in each panel of each trace in place of
two, and SPECVIZ_WALK=all to walk every trace to its end in every panel as well (half an hour).
"""

import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from app.conftest import Open
from app.tab import Tab, a_point
from specviz_app.server.core import Settings, place_name
from specviz_app.ui import guard
from specviz_app.ui.pages import all_below
from specviz_app.ui.viewer import Viewer
from support.recordings import RECORDINGS

PANELS = tuple(panel.id for panel in all_below())
TRACES = tuple(RECORDINGS)
_ASKED = os.environ.get("SPECVIZ_WALK", "")
_TO_THE_END = _ASKED == "all"
_STEPS = int(_ASKED) if _ASKED.isdecimal() else 2
_NOT_PRESSED = {"sweep"}  # starts a process that loads a model


@pytest.fixture
def tab(open_page: Open, monkeypatch: pytest.MonkeyPatch) -> Tab:
    """A tab at the first page, in which nothing may have gone wrong by the end."""
    faults: list[str] = []
    monkeypatch.setattr(guard, "log", lambda error, where: faults.append(f"{where}: {error!r}"))
    opened = Tab(open_page(Settings()))
    opened.faults = faults
    return opened


def _fine(tab: Tab) -> None:
    """Nothing went wrong so far. The steps that led here are in the message."""
    wrong = [*tab.faults, *(e.message for e in tab.app.exception), *(e.value for e in tab.app.error)]
    assert wrong == [], " -> ".join(tab.steps)
    assert tab.app.selectbox(key="src").value, "the list of runs is gone"


def _something(tab: Tab, chance: random.Random) -> None:
    """One thing that can be done in this panel."""
    chance.choice(_choices(tab, chance))()
    _fine(tab)


def _choices(tab: Tab, chance: random.Random) -> list[Callable[[], None]]:
    app = tab.app
    choices: list[Callable[[], None]] = []
    for button in app.button:
        if not button.disabled and button.key not in _NOT_PRESSED:
            choices.append(lambda key=button.key: tab.press(key, chance.choice((1, 1, 2, 3))))  # type: ignore[misc]
    boxes = [*(box for box in app.selectbox if box.key != "src"), *app.get("button_group")]
    for box in boxes:
        if box.options and not box.disabled:
            choices.append(lambda box=box: tab.choose(box, chance.choice(box.options)))  # type: ignore[misc]
    for widget in (*app.slider, *app.number_input):
        if not widget.disabled:
            choices.append(lambda widget=widget: tab.move(widget, _value(widget, chance)))  # type: ignore[misc]
    for switch in app.toggle:
        choices.append(lambda switch=switch: tab.move(switch, not switch.value))  # type: ignore[misc]
    for element in tab.clickable:
        if point := a_point(element, chance):
            choices.append(lambda element=element, point=point: tab.point(element, point))  # type: ignore[misc]
    return [*choices, lambda: tab.tell("place", {"place": chance.choice(_rounds(tab))}, chance.choice((1, 1, 2)))]


def _value(widget: Any, chance: random.Random) -> Any:
    """An end of the range, or a place in it."""
    lo, hi = widget.min, widget.max
    whole = isinstance(widget.value, int)
    between = chance.randint(int(lo), int(hi)) if whole else round(chance.uniform(lo, hi), 2)
    return chance.choice((lo, hi, min(hi, max(lo, between))))


@pytest.mark.parametrize("trace", TRACES)
def test_every_panel_of_every_bundled_trace_takes_whatever_is_done(trace: str, tab: Tab) -> None:
    chance = random.Random(f"walk {trace}")
    tab.look_at(trace)
    _fine(tab)
    for panel in chance.sample(PANELS, len(PANELS)):
        tab.below(panel)
        _fine(tab)
        for _ in range(_STEPS):
            _something(tab, chance)
        if _TO_THE_END:
            _to_the_end(tab)
    other = chance.choice(TRACES)  # at whatever round and node the walk has come to
    tab.look_at(other)
    _fine(tab)
    tab.look_at(trace)
    _fine(tab)


def _rounds(tab: Tab) -> list[str]:
    """The places of all rounds, in their order."""
    viewer: Viewer = tab.app.session_state["viewer"]
    run = viewer.player.run
    return [place_name(run, index, None) for index in range(len(run.rounds))]


def _to_the_end(tab: Tab) -> None:
    for place in _rounds(tab):
        tab.go(place)
        _fine(tab)


@pytest.mark.parametrize("panel", ["rounds", "ranks"])
@pytest.mark.parametrize("trace", ["code-draft", "code-specblock"])
def test_a_recording_is_walked_to_its_end(trace: str, panel: str, tab: Tab) -> None:
    """Where it fell first: the browser sent back the name of a node of the round before."""
    tab.look_at(trace)
    tab.below(panel)
    _to_the_end(tab)
    assert len(tab.steps) > 10


def test_a_place_that_is_told_thrice_before_the_first_answer_is_one_place(tab: Tab) -> None:
    tab.look_at("code-tree")
    tab.below("rounds")
    tab.tell("place", {"place": "r4"}, 3)
    _fine(tab)
    assert str(tab.app.query_params["at"]).strip("[]'").startswith("r4")


def test_another_recording_in_the_middle_of_one(tab: Tab) -> None:
    tab.below("rounds")
    for source in ("code-tree", "sums-draft", "code-specblock", "code-tree"):
        tab.look_at(source)
        _fine(tab)
        for place in _rounds(tab)[1:4]:
            tab.go(place)
            _fine(tab)
