"""Stage: a recording as one picture that plays. The script runs once; the painter fetches rounds from the server."""

import streamlit as st

from specviz.errors import SpecvizError
from specviz_app.server.server import STAGE, Server, current
from specviz_app.ui import guard, parts, state
from specviz_app.ui.library import LIVE, choices
from specviz_app.ui.pages import Page
from specviz_app.ui.viewer import Viewer

KEY = "stage"
_NOTHING = "Nothing to play yet. Choose a recording on the left, or start a run on the page Live."
# The picture takes the page.
_WIDE = "<style>[data-testid=stMainBlockContainer] { max-width: none; padding: 4rem 1.4rem 0; }</style>"


def page() -> None:
    st.set_page_config(initial_sidebar_state="collapsed")
    st.html(_WIDE)
    server = current()
    name = state.source_name(server)
    path = choices(server, state.uploads())[name]
    if path is None:
        _elsewhere(name)
        return
    try:
        held = state.viewer(server)
        if not held.player.run.rounds:
            st.info(_NOTHING)
            return
        key = server.stages.offer(path, name)
    except (SpecvizError, OSError) as error:
        st.error(parts.plain(str(error)))
        return
    if not server.streams:
        st.info("The stage needs the server's own routes: start the dashboard with `specviz web`.")
        return
    _mount(server, held, key)


def _elsewhere(name: str) -> None:
    """A run that lies in no file: it is followed on other pages."""
    if name == LIVE:
        st.info(_NOTHING)
    else:
        st.info("The stage plays recordings, and this run lies in no file: the round explorer shows it.")
    pages = st.session_state.get("pages", {})
    if pages:
        st.page_link(pages["live" if name == LIVE else "rounds"], icon=":material/play_circle:")


def _mount(server: Server, held: Viewer, key: str) -> None:
    """The picture, at the place of the address; without one it begins to play."""
    named = state.AT in st.query_params
    if problem := state.bad_place():
        st.warning(parts.plain(problem))
    place = st.session_state.get(KEY, {}).get("place") if KEY in st.session_state else None
    parts.stage(
        {
            "url": STAGE,
            "token": server.token,
            "run": key,
            "at": held.place if named or place else "",
            "play": not named,
        },
        KEY,
        guard.obeyed(lambda: _moved(held)),
    )
    if named or place:
        state.put_place(held)


def _moved(held: Viewer) -> None:
    """Somebody stayed at a place: other pages open there, and the address says it."""
    told = st.session_state[KEY].get("place")
    if isinstance(told, str) and told:
        held.go(told)


PAGE = Page("stage", "Stage", "theater_comedy", 5, "a recording as one picture that plays", page)
