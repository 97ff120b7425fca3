"""Looking at a run together, as the address has it: a page that presents, and pages that follow it.

`?mode=present` is the stage in large type on a dark ground, `?mode=follow` goes wherever the page that presents goes.
"""

from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from specviz_app.server.server import ALONE, EVENTS, ROOM, Server
from specviz_app.ui import address, below, lessons, state
from specviz_app.ui.library import choices
from specviz_app.ui.owner import command_token, owns
from specviz_app.ui.pages import all_below
from specviz_app.ui.viewer import Viewer

MODE = "mode"
PRESENT, FOLLOW = "present", "follow"


def mode() -> str:
    """What the address asks of this page; "" for neither."""
    asked = address.asks(MODE) or ""
    return asked if asked in (PRESENT, FOLLOW) else ""


def data(server: Server, name: str) -> dict[str, Any]:
    """What the picture needs of this. `name`: the run that is looked at."""
    now = mode()
    if now == PRESENT and owns(server) and (path := choices(server, state.uploads()).get(name)) is not None:
        server.room.show(name, path)
    return {
        "room": ROOM,
        "roomEvents": f"{EVENTS}?view={ALONE}&token={server.token}",
        "roomKey": command_token(server),
        "src": name,
        "mode": now,
    }


def handlers(server: Server, looked: Callable[[], Viewer]) -> dict[str, Callable[[Any], None]]:
    """What is due when the picture tells that its `mode` has changed, or was `led` to another run or panel.

    Both say where the picture stands as well. `looked`: this tab's view of the run.
    """
    return {
        "mode": lambda told: _put_mode(told, looked),
        "led": lambda where: _led(server, where, looked),
    }


def _go(place: object, looked: Callable[[], Viewer]) -> None:
    if place:
        held = looked()
        held.go(str(place))
        state.put_place(held)


def _put_mode(told: Mapping[str, Any], looked: Callable[[], Viewer]) -> None:
    wanted = told.get("mode")
    address.put({MODE: str(wanted) if wanted in (PRESENT, FOLLOW) else None})
    _go(told.get("place"), looked)


def _led(server: Server, where: Mapping[str, Any], looked: Callable[[], Viewer]) -> None:
    """To the run, the panel and the lesson of the page that presents."""
    if "lesson" in where:
        lessons.go(where["lesson"])
        if where["lesson"]:
            return  # which brings its run
    name, panel = str(where.get("src") or ""), str(where.get("panel") or "")
    known = choices(server, state.uploads())
    if name and name not in known and (path := server.room.shown(name)) is not None:
        state.uploads()[name] = path
    elif name and name not in known:
        state.note(f"the page that is followed shows '{name}', which this server has not here")
        return
    if name and name != state.source_name(server):
        st.session_state[address.SRC] = name
        address.forget(address.AT)
        st.session_state["place_of"], st.session_state["at_seen"] = name, None
    else:
        _go(where.get("place"), looked)
    address.put({below.PANEL: panel if any(one.id == panel for one in all_below()) else None})
