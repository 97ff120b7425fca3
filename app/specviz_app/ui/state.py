"""The tab's state: the source and the filters are widgets bound to the address, the cursor is kept here."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import streamlit as st

from specviz.errors import SpecvizError, suggestion
from specviz_app.server.server import Server
from specviz_app.ui import address, parts
from specviz_app.ui.address import AT, LAYER, SRC, TOKEN
from specviz_app.ui.library import choices, opened
from specviz_app.ui.viewer import Viewer

_NOTES, _WENT, _SHOWN = "link-notes", "went", "shown"
_WANTED = "src_wanted"
Made = TypeVar("Made")


def uploads() -> dict[str, Path]:
    """Traces uploaded in this tab, by name."""
    held: dict[str, Path] = st.session_state.setdefault("uploads", {})
    return held


def look_at(name: str, path: Path, place: str) -> None:
    """Open a trace that was made here, at a place, with the next run of the script."""
    uploads()[name] = path
    st.session_state[_WANTED] = name
    st.session_state["place_of"], st.session_state["at_seen"] = name, None
    if place:
        address.put({AT: place})


def choose(name: str) -> None:
    """For a button: choose a source that is offered; the pages about a run show it from its beginning."""
    st.session_state[SRC] = name
    st.session_state["place_of"], st.session_state["at_seen"] = name, None


def look_back(name: str) -> None:
    """For a button of a page that is not about the run: choose it, and say where it is seen."""
    choose(name)
    note(f"{name} is chosen at the top: the stage shows it")


def open_next(name: str) -> None:
    """Choose a source that is offered, with the next run of the script."""
    st.session_state[_WANTED] = name


def take_wanted() -> None:
    """The source that was named to be opened next; before its widget is placed."""
    if wanted := st.session_state.pop(_WANTED, None):
        st.session_state[SRC] = wanted


def source_name(server: Server) -> str:
    """The source that was chosen; the first one that is offered when nothing was."""
    names = list(choices(server, uploads()))
    wanted = st.session_state.get(SRC)
    return wanted if wanted in names else names[0]


def viewer(server: Server) -> Viewer:
    """This tab's viewer of the chosen source, up to date and at the place of the address. Raises SpecvizError."""
    name = source_name(server)
    held: Viewer | None = st.session_state.get("viewer")
    if held is None or held.name != name:
        if held is not None:
            held.source.close()
            if st.session_state.get("place_of") == held.name:
                address.forget(AT, LAYER, TOKEN)  # a place in another run means nothing here
            st.session_state["at_seen"] = st.session_state["layer_seen"] = None
        held = Viewer.of(name, opened(name, server, uploads()))
        st.session_state["viewer"] = held
    else:
        held.refresh()
    st.session_state["place_of"] = name
    _follow_address(held)
    return held


def _follow_address(viewer: Viewer) -> None:
    """Go where the address says when somebody changed it; it is written by `put_place` alone, at the end of a run."""
    if not viewer.player.run.rounds:
        return
    wanted, layer = address.asks(AT), address.asks(LAYER)
    if wanted and wanted != st.session_state.get("at_seen"):
        st.session_state["at_seen"], st.session_state["bad_place"] = wanted, None
        st.session_state[_WENT] = went() + 1
        try:
            viewer.go(wanted)
        except SpecvizError as error:
            st.session_state["bad_place"] = str(error)
    if layer != st.session_state.get("layer_seen"):
        st.session_state["layer_seen"] = layer
        try:
            viewer.look_at_layer(layer)
        except SpecvizError as error:
            note(f"{error}; the link's value is left out")


def once(name: str, viewer: Viewer, make: Callable[[], Made], *more: Hashable) -> Made:
    """What `make` gives, worked out once per state of the run (and of `more`): the last one is kept under `name`."""
    key = (viewer.name, viewer.player.run.version, *more)
    known: tuple[Any, Made] | None = st.session_state.get(name)
    if known is None or known[0] != key:
        known = (key, make())
        st.session_state[name] = known
    return known[1]


def begin(key: str, viewer: Viewer, own: Mapping[str, Any], other: Mapping[str, Any] | None = None) -> None:
    """Before sliders are placed: they begin at the run's `own` values, by their keys; those of another run go (with
    what `other` sets as well)."""
    if st.session_state.get(key) not in (None, viewer.name):
        st.session_state.update(own if other is None else other)
    st.session_state[key] = viewer.name
    for name, value in own.items():
        st.session_state.setdefault(name, value)


def put(values: Mapping[str, Any]) -> None:
    """For a button: set widgets by their keys."""
    st.session_state.update(values)


def known(key: str, options: Sequence[str]) -> None:
    """Before a list with that key in the address is placed: note what a link asks of it and it does not offer."""
    wanted = address.asks(key)
    if wanted is not None and key not in st.session_state and wanted not in options:
        note(f"no {key} '{wanted}' here{suggestion(wanted, options)}; the link's value is left out")


def note(words: str) -> None:
    """Something about the address that the page is to say."""
    st.session_state.setdefault(_NOTES, []).append(words)


def tell() -> None:
    for words in st.session_state.pop(_NOTES, ()):
        st.warning(parts.plain(words))


def bad_place() -> str | None:
    """What is wrong with the place in the address."""
    problem: str | None = st.session_state.get("bad_place")
    return problem


def went() -> int:
    """How often the address led somewhere: links, the browser's way back. A script that is overtaken counts as well."""
    return int(st.session_state.get(_WENT, 0))


def shown() -> int:
    """How often a panel led to a round that the picture above it shows."""
    return int(st.session_state.get(_SHOWN, 0))


def show_picture() -> None:
    """The page scrolls up to the picture, if the panel that is open stays."""
    st.session_state[_SHOWN] = shown() + 1


def put_place(viewer: Viewer, more: Mapping[str, str | None] | None = None) -> None:
    """Write the cursor into the address, with `more` of it, as one step of the browser's history."""
    layer = None if viewer.layer is None else str(viewer.layer)
    address.put({AT: viewer.place or address.asks(AT), LAYER: layer, **(more or {})})
    st.session_state["at_seen"], st.session_state["layer_seen"] = viewer.place, layer
    st.session_state["bad_place"] = None


def dark() -> bool:
    """Whether the page has a dark ground."""
    return st.context.theme.type == "dark"
