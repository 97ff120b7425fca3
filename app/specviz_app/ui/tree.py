"""The stage as a part of a page: the draft tree of one round with nothing around it, or the newest run of the core."""

from typing import Any

import streamlit as st

from specviz_app.server.core import place_name
from specviz_app.server.live_rounds import LIVE_RUN, core_key, run_key
from specviz_app.server.server import COMMAND, EVENTS, STAGE, Server, current
from specviz_app.ui import address, picture, state
from specviz_app.ui.library import LIVE, choices
from specviz_app.ui.owner import command_token
from specviz_app.ui.viewer import Viewer

NO_ROUTES = "The tree needs the server's own routes: start the dashboard with `specviz web`."


# The picture takes the page; it says itself which run it shows.
_WIDE = """<style>
[data-testid=stMainBlockContainer] { padding-bottom: 0; }
.st-key-panel { padding-bottom: 3rem; }
</style>"""


def whole_width() -> None:
    """The page is the picture's, from edge to edge. First of what the page does."""
    st.html(_WIDE)


def played_key(server: Server, name: str) -> str:
    """What the painter asks a source by. Raises SpecvizError, or OSError for a file that is gone."""
    if name == LIVE:
        return run_key(server.core)
    path = choices(server, state.uploads())[name]
    if path is not None:
        return server.stages.offer(path, name)
    return server.stages.offer_events(lambda: server.core.events_of(name), name)


def followed(server: Server) -> dict[str, Any]:
    """What the picture needs to follow the newest run by itself, and to steer it; at the place of the address."""
    return {
        "url": STAGE,
        "token": server.token,
        "command": COMMAND,
        "key": command_token(server),
        "events": f"{EVENTS}?view=stage&token={server.token}",
        "run": LIVE_RUN,
        "core": core_key(server.core),
        "at": (address.asks(address.AT) or "") if server.core.has_run else "",
        "went": state.went(),
        "play": False,
    }


def tree(viewer: Viewer, key: str, view: str = "") -> None:
    """The round under the cursor, alone; a click chooses a node. `view`: how much of the draft is drawn, by its name in
    `server.stages`."""
    server = current()
    if not server.streams:
        st.info(NO_ROUTES)
        return
    data = {
        "url": STAGE,
        "token": server.token,
        "run": played_key(server, viewer.name),
        "at": viewer.place,
        "went": state.went(),
        "play": False,
        "bare": True,
        "view": view,
        "n": len(viewer.player.run.rounds),
    }
    picture.stage(data, key, {"place": lambda told: _chosen(viewer, told["place"])})


def _chosen(viewer: Viewer, place: str | None) -> None:
    """A node of this very round; what is told of one that was left since is too late."""
    here = place_name(viewer.player.run, viewer.player.cursor.index, None)
    if place is not None and (place == here or place.startswith(f"{here}/")):
        viewer.go(place)
