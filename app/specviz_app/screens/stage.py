"""Stage: one picture of a run that plays. The script runs once; the painter fetches rounds from the server."""

import streamlit as st

from specviz.errors import SpecvizError
from specviz_app.screens import first_minute, live_models, stage_live
from specviz_app.server.server import STAGE, Server, current
from specviz_app.ui import guard, parts, state
from specviz_app.ui.library import LIVE, choices
from specviz_app.ui.pages import Page
from specviz_app.ui.viewer import Viewer

KEY = "stage"
_NOTHING = "Nothing to play yet: this run has no round. Choose another on the left."
# The picture takes the page.
_WIDE = """<style>
[data-testid=stMainBlockContainer] { max-width: none; padding: 4rem 1.4rem 0; }
@media (max-width: 640px) { .st-key-beginning { flex-wrap: nowrap !important; overflow-x: auto; } }
</style>"""


def page() -> None:
    st.set_page_config(initial_sidebar_state="collapsed")
    st.html(_WIDE)
    server = current()
    if not server.streams:
        st.info("The stage needs the server's own routes: start the dashboard with `specviz web`.")
        return
    name = state.source_name(server)
    try:
        if name == LIVE:
            stage_live.show(server, KEY, guard.obeyed(lambda: _moved(state.viewer(server))))
        else:
            _recorded(server, name)
    except (SpecvizError, OSError) as error:
        st.error(parts.plain(str(error)))


def _recorded(server: Server, name: str) -> None:
    """A recording, or a run of this server that another one followed."""
    path = choices(server, state.uploads())[name]
    held = state.viewer(server)
    if not held.player.run.rounds:
        st.info(_NOTHING)
        return
    if path is not None:
        key = server.stages.offer(path, name)
    else:
        key = server.stages.offer_events(lambda: server.core.events_of(name), name)
    _mount(server, held, key)


def _mount(server: Server, held: Viewer, key: str) -> None:
    """The picture, at the place of the address; without one it begins to play."""
    named = state.AT in st.query_params
    if problem := state.bad_place():
        st.warning(parts.plain(problem))
    if problem := st.session_state.pop(live_models.PROBLEM, None):
        st.error(parts.plain(problem))
    place = st.session_state.get(KEY, {}).get("place") if KEY in st.session_state else None
    run = held.player.run
    data = {
        "url": STAGE,
        "token": server.token,
        "run": key,
        "at": held.place if named or place else "",
        "play": not named,
        "here": first_minute.offer(server, run),
        "welcome": [] if named else first_minute.welcome(server, held.name),
    }
    told = {
        "place": lambda: _moved(held),
        "here": lambda: first_minute.run_here(server, run),
        "welcomed": first_minute.put_by,
    }
    parts.stage(data, KEY, {name: guard.obeyed(work) for name, work in told.items()})
    if named or place:
        state.put_place(held)


def _moved(held: Viewer) -> None:
    """Somebody stayed at a place: other pages open there, and the address says it."""
    told = st.session_state[KEY].get("place")
    if isinstance(told, str) and told:
        held.go(told)


PAGE = Page("stage", "Stage", "theater_comedy", 5, "a run as one picture that plays", page)
