"""Watch: how a running server speculates, by its own counters, or what was kept of such a watch."""

import streamlit as st

from specviz.engines.asking import KEY_VARIABLE, key_of
from specviz.engines.watch.watcher import MOST_LOOKS
from specviz.text import running
from specviz_app.server.server import current
from specviz_app.server.watching import WatchedServer
from specviz_app.ui import counters, guard, owner, parts
from specviz_app.ui.pages import Page

_HELD = "watched-server"  # in the session's state
_EVERY = 2.0
_ASK = (
    "vLLM, llama.cpp (started with --metrics) and SGLang (with --enable-metrics) count how speculation goes. Give the "
    "address of yours; nothing is installed there, and no request of yours goes through here."
)


def page() -> None:
    held: WatchedServer | None = st.session_state.get(_HELD)
    _entry(held)
    if held is not None:
        (_live if held.over else guard.fragment(_live, _EVERY))()
    elif not counters.show_history():
        st.info(parts.plain(_ASK))


def _entry(held: WatchedServer | None) -> None:
    server = current()
    if not owner.owns(server):  # it is this machine that asks
        st.caption("Who opened this dashboard with its key can watch a server here.")
        return
    with st.form("watch-form", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        st.text_input("Address", key="watch-url", placeholder="localhost:8000", max_chars=500)
        st.text_input(
            "Variable with its key",
            key="watch-key",
            placeholder=KEY_VARIABLE,
            max_chars=200,
            help="The name of a variable of the environment that specviz web was started in; never the key itself.",
        )
        st.form_submit_button("Watch", type="primary", on_click=guard.obeyed(_begin))
        if held is not None:
            last = ("Close", _forget) if held.over else ("Stop", _stop)
            st.form_submit_button(last[0], on_click=guard.obeyed(last[1]))


def _begin() -> None:
    owner.must_own()
    url, variable = st.session_state["watch-url"], st.session_state["watch-key"].strip() or None
    made = WatchedServer(url, key_of(variable), _EVERY)
    _forget()
    st.session_state[_HELD] = made


def _stop() -> None:
    """What was seen stays on the page, to be kept."""
    held: WatchedServer | None = st.session_state.get(_HELD)
    if held is not None:
        held.close()
        if held.picture is None:
            _forget()


def _forget() -> None:
    held: WatchedServer | None = st.session_state.pop(_HELD, None)
    if held is not None:
        held.close()


def _live() -> None:
    held: WatchedServer | None = st.session_state.get(_HELD)
    if held is None:
        return
    picture = held.picture
    if held.problem is not None and not held.over:
        st.error(parts.plain(f"{running(held.problem)} · still looking every {held.every:g} s"))
    if picture is not None:
        _kept(held)
        counters.show(picture)
    elif held.problem is None:
        st.info(parts.plain(f"First look at {running(held.url)}"))


def _kept(held: WatchedServer) -> None:
    """The way to keep what was seen."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.download_button(
            "Keep the history",
            data=held.history,
            file_name="watched.sv.jsonl.gz",
            mime="application/gzip",
            icon=":material/download:",
            on_click="ignore",
            help=f"A file that specviz tui, specviz stats and this dashboard open. Of more than {MOST_LOOKS:,} looks "
            "the older half is thinned out; specviz watch -o keeps them all.",
        )
        if held.over:
            parts.say("Stopped: what was seen stays here until it is closed.")


PAGE = Page(
    "watch",
    "Watch",
    "monitor_heart",
    90,
    "a running server of vLLM, llama.cpp or SGLang, by its counters",
    page,
)
