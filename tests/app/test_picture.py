"""What the stage tells the page around it comes one after another, and about the run that is shown."""

import json
from typing import Any

import pytest
import streamlit as st
from streamlit.proto.WidgetStates_pb2 import WidgetState
from streamlit.testing.v1 import AppTest

from app.conftest import Open
from app.onstage import handed
from specviz_app.server.core import Settings
from specviz_app.ui import picture


def _send(at: AppTest, name: str, message: dict[str, Any]) -> None:
    base = at.get("bidi_component")[0].proto.id
    events = json.dumps([{"event": name, "value": message}])
    states = at._tree.get_widget_states()
    states.widgets.append(WidgetState(id=f"$$STREAMLIT_INTERNAL_KEY_{base}__events", json_trigger_value=events))
    at._run(states)


def test_the_page_says_what_it_has_heard_last(open_page: Open) -> None:
    at = open_page(Settings(), "stage", src="code-tree")
    assert handed(at)["heard"] == 0
    _send(at, "place", {"run": handed(at)["run"], "told": 7, "value": {"place": "r3"}})
    assert (handed(at)["heard"], handed(at)["at"]) == (7, "r3")


@pytest.mark.parametrize(("name", "more"), [("place", {}), ("panel", {"id": "rounds"}), ("mode", {"mode": ""})])
def test_a_place_in_the_run_that_was_shown_before_is_none_of_this_one(
    open_page: Open, name: str, more: dict[str, str]
) -> None:
    """It was told before the picture of the new run was there."""
    at = open_page(Settings(), "stage", src="code-tree", at="r2")
    _send(at, name, {"run": "the one before", "told": 1, "value": {"place": "r999", **more}})
    assert not at.error
    assert (handed(at)["at"], handed(at)["heard"]) == ("r2", 1)
    assert handed(at)["panel"] == more.get("id", "")


def test_what_a_picture_said_is_nothing_once_its_page_was_left() -> None:
    """Its state is gone by then."""
    assert picture.message_of("no such stage", "place") is None
    st.session_state["a stage"] = {"place": {"value": "r3"}}
    assert picture.message_of("a stage", "place") == {"value": "r3"}
    assert picture.message_of("a stage", "panel") is None
    del st.session_state["a stage"]
