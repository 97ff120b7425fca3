"""Stage: one picture of a run that plays. The script runs once; the painter fetches rounds from the server."""

import streamlit as st

from specviz.errors import SpecvizError
from specviz_app.screens import first_minute, live_models, overview, stage_live
from specviz_app.server.server import STAGE, WHAT_IF, Server, current
from specviz_app.ui import address, around, below, clinic, counters, guard, lessons, parts, state, together
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
        "place": lambda: _moved(looked()),
        "panel": lambda: below.switch(looked(), state.component_value(KEY, "panel"), looked().go),
        **together.handlers(server, KEY, looked),
    }
    stage_live.show(server, KEY, held, {name: guard.obeyed(work) for name, work in events.items()})
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
    component = st.session_state.get(KEY, {}) if KEY in st.session_state else {}
    named = address.asks(address.AT) is not None or bool(component.get("place")) or _panel_moved(viewer)
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
        "place": lambda: _moved(viewer),
        "panel": lambda: below.switch(viewer, state.component_value(KEY, "panel"), viewer.go),
        "here": lambda: first_minute.run_here(server, run),
        "welcomed": first_minute.put_by,
        "lesson": lambda: lessons.go(state.component_value(KEY, "lesson")),
        **together.handlers(server, KEY, lambda: viewer),
    }
    parts.stage(data, KEY, {name: guard.obeyed(work) for name, work in on.items()})
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


def _moved(viewer: Viewer) -> None:
    """Somebody stayed at a place: the panel and other pages go there, and the address says it. "" is back to live."""
    named_place = state.component_value(KEY, "place")
    if isinstance(named_place, str) and named_place:
        viewer.go(named_place)
        state.put_place(viewer)
    elif named_place == "" and viewer.source.live and viewer.player.run.rounds:
        viewer.seek(viewer.newest)
        address.forget(address.AT)


PAGE = Page("stage", "Stage", "theater_comedy", 5, "a run as one picture that plays", page)
