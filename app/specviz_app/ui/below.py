"""What stands below the stage: a row of tabs that says which panels have something of this run, and the open one.

The panels are about the same round and node as the picture above them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import streamlit as st

from specviz.runlog.excerpt import excerpt
from specviz.sources import NoSource
from specviz.view import Frame, Options, Player
from specviz_app.ui import address, closed, guard
from specviz_app.ui.pages import PanelBelow, all_below
from specviz_app.ui.viewer import Viewer

PANEL, LARGE = "panel", "large"
_KEPT = "below-of"
MANY = 256  # rounds of a run above which the row is told by some of them


def opened() -> str:
    """The id of the panel that the address opens; "" for none."""
    wanted = address.asks(PANEL) or ""
    return wanted if any(panel.id == wanted for panel in all_below()) else ""


def large(other: bool = False) -> bool:
    """Whether the panel that is open, or what stands in its place, has the window for itself, but for what plays."""
    return bool((opened() or other) and address.asks(LARGE))


def row(viewer: Viewer) -> list[tuple[str, str, str]]:
    """Of every panel its id, its title, and why it has nothing to say of this run ("": it has)."""
    run = viewer.player.run
    key = (viewer.name, id(run), len(run.rounds).bit_length(), run.end is not None)
    known: tuple[object, list[tuple[str, str, str]]] | None = st.session_state.get(_KEPT)
    if known is None or known[0] != key:
        known = (key, _row(viewer))
        st.session_state[_KEPT] = known
    return known[1]


def _row(viewer: Viewer) -> list[tuple[str, str, str]]:
    """By the round that drafted most, and by the newest one that has ended: one of both having it is enough."""
    all_of = all_below()
    rounds = viewer.player.run.rounds
    if not rounds:
        return [(panel.id, panel.title, "no round yet") for panel in all_of]
    shown = Options(shown=tuple({name for panel in all_of for name in panel.asks}))
    fullest = max(range(viewer.newest + 1), key=lambda index: rounds.point(index).n_drafted or 0)
    places = tuple(dict.fromkeys((fullest, viewer.newest)))
    frames = _few(viewer, places, shown) if len(rounds) > MANY else [viewer.end_of(index, shown) for index in places]
    return [(panel.id, panel.title, _nothing(panel, frames)) for panel in all_of]


def _few(viewer: Viewer, places: Sequence[int], shown: Options) -> list[Frame]:
    """Those rounds of a long run as if they were all of it: what panels count over a whole run is not counted here."""
    run = viewer.player.run
    small = Viewer("", NoSource(""), Player(excerpt(run, places), animate=False), Options())
    indexes = [small.player.run.find(*run.rounds.place(index)) for index in places]
    return [small.end_of(index, shown) for index in indexes if index is not None]


def _nothing(panel: PanelBelow, frames: Sequence[Frame]) -> str:
    reasons = [panel.lacks(frame) for frame in frames]
    return "" if "" in reasons else " ".join(reasons[0].split())


def switch(viewer: Viewer, event: Mapping[str, Any], go: Callable[[str], None]) -> None:
    """A tab was pressed, or the panel made large: this and the place that the picture had come to are one step of the
    browser's history.
    """
    if place := str(event.get("place") or ""):
        go(place)
    panel = str(event.get("id") or "") or None
    wanted = {PANEL: panel, LARGE: "1" if panel and event.get("large") else None}
    address.put(wanted | ({address.AT: viewer.place} if place else {}))


def show(viewer: Viewer, dark: bool) -> None:
    """The open panel."""
    panel = next((below for below in all_below() if below.id == opened()), None)
    if panel is None or not viewer.player.run.rounds:
        return
    reason = next(reason for id, _, reason in row(viewer) if id == panel.id)
    with st.container(key="panel"):
        if reason:
            closed.say(reason, panel.panel)
            return
        viewer.asks(*panel.asks)
        try:
            guard.guarded(panel.show)(viewer, dark)
        finally:
            viewer.asks()
