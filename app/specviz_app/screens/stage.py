"""Stage: one picture of a run that plays. The script runs once; the painter fetches rounds from the server."""

import streamlit as st

from specviz.errors import SpecvizError
from specviz_app.screens import first_minute, live_models, overview, stage_live
from specviz_app.server.server import STAGE, WHAT_IF, Server, current
from specviz_app.ui import address, around, below, clinic, counters, guard, lessons, parts, picture, state, together
from specviz_app.ui.library import LIVE
from specviz_app.ui.pages import Page
from specviz_app.ui.tree import NO_ROUTES, played_key, whole_width
from specviz_app.ui.viewer import Viewer

KEY = "stage"
_NOTHING = "Nothing to play yet: this run has no round. Choose another at the top."


def page() -> None:
    whole_width()
    server = current()
    if not server.streams:
        st.info(NO_ROUTES)
        return
    state.tell()
    name = state.source_name(server)
    try:
        if name == LIVE:
            _followed(server)
        else:
            _recorded(server, name)
    except (SpecvizError, OSError) as error:
        st.error(parts.plain(str(error)))


def _followed(server: Server) -> None:
    """The newest run of the core. Who opens a panel has the run's events in this tab as well."""
    held = state.viewer(server) if below.opened() and server.core.has_run else None

    def looked() -> Viewer:
        return held if held is not None else state.viewer(server)

    events = {
        "place": lambda told: _moved(looked(), told["place"]),
        "panel": lambda told: below.switch(looked(), told, looked().go),
        **together.handlers(server, looked),
    }
    stage_live.show(server, KEY, held, events)
    if held is None:
        if below.opened():
            guard.fragment(_wait, around.WATCH_S)(server)
        return
    below.show(held, state.dark())
    if held.follows:
        address.forget(address.AT)
    else:
        state.put_place(held)
    around.watch(held)


def _wait(server: Server) -> None:
    """A panel was opened before there was a run to show."""
    st.caption("No round yet.")
    if server.core.has_run:
        st.rerun()


def _recorded(server: Server, name: str) -> None:
    """A recording, or a run of this server that another one followed."""
    key = played_key(server, name)
    held = state.viewer(server)
    if not held.player.run.rounds:
        if not counters.show_history():
            st.info(_NOTHING)
        return
    _mount(server, held, key)


def _mount(server: Server, viewer: Viewer, key: str) -> None:
    """The picture, at the place of the address; without one it begins to play. The open panel below it."""
    if problem := state.bad_place():
        st.warning(parts.plain(problem))
    if problem := st.session_state.pop(live_models.PROBLEM, None):
        st.error(parts.plain(problem))
    first_minute.loading(server)
    named = address.asks(address.AT) is not None or _panel_moved(viewer)
    run, lesson, case = viewer.player.run, lessons.data(viewer.name), clinic.played(viewer.name)
    guided = named or lesson is not None or case is not None or together.mode()
    data = {
        "url": STAGE,
        "whatIf": WHAT_IF,
        "token": server.token,
        "run": key,
        "at": viewer.place if named else "",
        "went": state.went(),
        "shown": state.shown(),
        "n": len(run.rounds),
        "play": not named and lesson is None and together.mode() != together.FOLLOW,
        "here": first_minute.offer(server, run),
        "lesson": lesson,
        "lessons": lessons.offer(),
        "welcome": [] if guided else first_minute.welcome(server, viewer.name),
        "panels": [clinic.TAB] if case is not None else overview.with_finding(viewer, below.row(viewer)),
        "panel": clinic.TAB[0] if case is not None else below.opened(),
        "large": below.large(case is not None),
        **together.data(server, viewer.name),
    }
    on = {
        "place": lambda told: _moved(viewer, told["place"]),
        "panel": lambda told: below.switch(viewer, told, viewer.go),
        "here": lambda _: first_minute.run_here(server, run),
        "welcomed": lambda _: first_minute.put_by(),
        "lesson": lessons.go,
        **together.handlers(server, lambda: viewer),
    }
    picture.stage(data, KEY, on)
    if case is not None:
        clinic.show(case, state.dark())
    else:
        below.show(viewer, state.dark())
    if named:
        state.put_place(viewer)
    around.watch(viewer)


def _panel_moved(viewer: Viewer) -> bool:
    """Whether something that was clicked in a panel has moved the cursor, which stood at the beginning."""
    return viewer.options.selected is not None or viewer.player.cursor.index > 0


def _moved(viewer: Viewer, place: str | None) -> None:
    """Somebody stayed at a place: the panel and other pages go there, and the address says it. "" is back to live."""
    if place:
        viewer.go(place)
        state.put_place(viewer)
    elif place == "" and viewer.source.live and viewer.player.run.rounds:
        viewer.seek(viewer.newest)
        address.forget(address.AT)


PAGE = Page("stage", "Stage", "theater_comedy", 5, "a run as one picture that plays", page)
