"""The live component: a tree that follows the server's frames without a script run for each of them.

It is mounted once under one key with data that never changes, so a rerun (a knob, another widget) leaves it, its
stream and its state where they are. A click on a node is the one thing it tells the script.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from specviz_app.server.core import palette
from specviz_app.server.server import COMMAND, EVENTS, Server

if TYPE_CHECKING:
    from collections.abc import Callable

KEY = "live-tree"


def _asset(name: str) -> str:
    return (Path(__file__).parents[1] / "static" / name).read_text(encoding="utf-8")


_component = st.components.v2.component(
    "specviz_live", html=_asset("live.html"), css=_asset("live.css"), js=_asset("live.js")
)


def live_tree(server: Server, on_node: "Callable[[], None]") -> None:
    """Mount it. `on_node` runs when a node was chosen; `chosen()` then says which."""
    data = {"events": f"{EVENTS}?token={server.token}", "command": COMMAND, "token": server.token, "palette": palette()}
    _component(key=KEY, data=data, on_node_change=on_node)


def chosen() -> dict[str, Any] | None:
    """The node that was clicked in this run of the script: `{"q", "r", "node"}`."""
    state = st.session_state.get(KEY)
    found = state.get("node") if state is not None else None
    return found if isinstance(found, dict) else None
