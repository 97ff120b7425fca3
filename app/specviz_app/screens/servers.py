"""Servers: how a running server speculates, by its own counters; or a history, a log, a table, an answer of one."""

import time
from functools import cache

import streamlit as st

from specviz.engines.asking import KEY_VARIABLE, key_of
from specviz.engines.watch import picture_of, read_history
from specviz.engines.watch.fetch import metrics_address
from specviz.engines.watch.watcher import MOST_LOOKS
from specviz.errors import SpecvizError
from specviz.events import Counted
from specviz.text import running
from specviz.trace.bundled import assets
from specviz.view.servers import SeenServer, servers_blocks
from specviz_app.server.server import current
from specviz_app.server.watching import WatchedServer
from specviz_app.ui import blocks, counters, guard, owner, parts, state
from specviz_app.ui.pages import Page
from specviz_app.ui.run_bar import take

_HELD = "watched-servers"  # in the session's state
_MOST = 16  # servers on one page
_BEGAN = "example-began"
_EVERY = 2.0
_EXAMPLE_S = 0.6  # between two looks of the example
_MOST_PASTED = 4_000_000  # characters
_ASK = (
    "vLLM, llama.cpp (started with --metrics) and SGLang (with --enable-metrics) count how speculation goes. Give the "
    "address of yours (several: one table), or paste what you have of one; nothing is installed there, and no request "
    "of yours goes through here. Until then an example plays: SmolLM2 by its drafter, code first, then stories, its "
    "rounds added up."
)


def page() -> None:
    held = _held()
    _entry(held)
    if held:
        (_live if held[0].over else guard.fragment(_live, _EVERY))()
    elif not counters.show_history():
        st.caption(parts.plain(_ASK))
        _example()


def _held() -> list[WatchedServer]:
    """The servers that this page watches."""
    servers: list[WatchedServer] = st.session_state.get(_HELD, [])
    return servers


def _paste() -> None:
    """A box for what lies in the clipboard."""
    with st.popover("Paste a log, a table, an answer", icon=":material/content_paste:"):
        st.text_area(
            "What you have",
            key="pasted",
            height=240,
            max_chars=_MOST_PASTED,
            placeholder="INFO SpecDecoding metrics: Mean acceptance length: 2.31, ..  or a whole issue's text",
        )
        st.button("Read it", type="primary", key="read-pasted", on_click=guard.obeyed(_read))
        parts.say("A whole issue may be pasted: the lines that are known are found in it.")


def _read() -> None:
    """What was pasted becomes a run that is chosen."""
    take("pasted", st.session_state["pasted"].encode())
    _forget()


@cache
def _looks() -> list[Counted]:
    return read_history(assets("histories") / "example.sv.jsonl.gz")


def _example() -> None:
    """The example, look by look; at its end it stays."""
    began = st.session_state.setdefault(_BEGAN, time.monotonic())
    if time.monotonic() - began < len(_looks()) * _EXAMPLE_S:
        guard.fragment(_example_so_far, 2 * _EXAMPLE_S)()
    else:
        _example_so_far()


def _example_so_far() -> None:
    n = 4 + int((time.monotonic() - st.session_state[_BEGAN]) / _EXAMPLE_S)
    counters.show(picture_of(_looks()[:n]))


def _entry(held: list[WatchedServer]) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        if owner.owns(current()):  # it is this machine that asks
            _address(held)
        _paste()
    if not owner.owns(current()):
        st.caption("Who opened this dashboard with its key can watch a server here.")


def _address(held: list[WatchedServer]) -> None:
    with st.form("watch-form", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        st.text_input(
            "Address",
            key="watch-url",
            placeholder="localhost:8000",
            max_chars=2000,
            help="Several, with a space between: they stand in one table.",
        )
        st.text_input(
            "Variable with its key",
            key="watch-key",
            placeholder=KEY_VARIABLE,
            max_chars=200,
            help="The name of a variable of the environment that specviz web was started in; never the key itself.",
        )
        st.form_submit_button("Watch", type="primary", on_click=guard.obeyed(_begin))
        if held:
            last = ("Close", _forget) if held[0].over else ("Stop", _stop)
            st.form_submit_button(last[0], on_click=guard.obeyed(last[1]))


def _begin() -> None:
    owner.must_own()
    urls, variable = st.session_state["watch-url"], st.session_state["watch-key"].strip() or None
    addresses = list(dict.fromkeys(urls.replace(",", " ").split())) or [urls]
    if len(addresses) > _MOST:
        raise SpecvizError(f"{len(addresses)} addresses: at most {_MOST} are watched on one page")
    for address in addresses:
        metrics_address(address)  # before any of them is looked at
    watched = [WatchedServer(address, key_of(variable), _EVERY) for address in addresses]
    _forget()
    st.session_state[_HELD] = watched


def _stop() -> None:
    """What was seen stays on the page, to be kept."""
    for server in _held():
        server.close()
    if all(server.picture is None for server in _held()):
        _forget()


def _forget() -> None:
    for server in st.session_state.pop(_HELD, []):
        server.close()


def _live() -> None:
    held = _held()
    if len(held) > 1:
        seen = [SeenServer(server.address, server.picture, server.problem) for server in held]
        if held[0].over:
            parts.say("Stopped: what was seen stays here until it is closed.")
        blocks.show(servers_blocks(seen), state.dark())
        return
    for server in held:
        _one(server)


def _one(held: WatchedServer) -> None:
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
    "servers",
    "Servers",
    "monitor_heart",
    90,
    "a running server of vLLM, llama.cpp or SGLang by its counters, or a log of one",
    page,
)
