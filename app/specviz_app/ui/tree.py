"""The draft tree of one round on a page: the stage's painter, with nothing around it. A click chooses a node."""

import streamlit as st

from specviz_app.server.core import place_name
from specviz_app.server.live_rounds import run_key
from specviz_app.server.server import STAGE, Server, current
from specviz_app.ui import guard, parts, state
from specviz_app.ui.library import LIVE, choices
from specviz_app.ui.viewer import Viewer

NO_ROUTES = "The tree needs the server's own routes: start the dashboard with `specviz web`."


def played_key(server: Server, name: str) -> str:
    """What the painter asks a source by. Raises SpecvizError, or OSError for a file that is gone."""
    if name == LIVE:
        return run_key(server.core)
    path = choices(server, state.uploads())[name]
    if path is not None:
        return server.stages.offer(path, name)
    return server.stages.offer_events(lambda: server.core.events_of(name), name)


def tree(held: Viewer, key: str, view: str = "") -> None:
    """The round under the cursor. `view`: how much of the draft is drawn, by its name in `server.stages`."""
    server = current()
    if not server.streams:
        st.info(NO_ROUTES)
        return
    data = {
        "url": STAGE,
        "token": server.token,
        "run": played_key(server, held.name),
        "at": held.place,
        "play": False,
        "bare": True,
        "view": view,
        "n": len(held.player.run.rounds),
    }
    parts.stage(data, key, {"place": guard.obeyed(lambda: _chosen(held, key))})


def _chosen(held: Viewer, key: str) -> None:
    """A node of this very round; what is told of one that was left since is too late."""
    told = st.session_state[key].get("place")
    here = place_name(held.player.run, held.player.cursor.index, None)
    if isinstance(told, str) and (told == here or told.startswith(f"{here}/")):
        held.go(told)
