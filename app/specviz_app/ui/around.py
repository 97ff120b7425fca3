"""What panels about a run share: their parts, things of a round to choose or click, and how they follow the run."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import streamlit as st

from specviz.errors import SpecvizError
from specviz_app.server.server import current
from specviz_app.ui import below, guard, parts, state
from specviz_app.ui.library import LIVE
from specviz_app.ui.viewer import Viewer

Thing = TypeVar("Thing")
WATCH_S = 2.0
READ_S = 0.2  # between two parts of a long file


def part(parts_of_page: Sequence[str]) -> str:
    """Which part of the panel is shown; it stands in the address by the panel's name."""
    key = f"{below.opened()}.show"
    if wanted := st.session_state.pop("part-wanted", None):
        st.session_state[key] = wanted
    state.known(key, parts_of_page)
    state.tell()
    chosen = st.segmented_control(
        "Show",
        parts_of_page,
        default=parts_of_page[0],
        key=key,
        bind="query-params",
        required=True,
        label_visibility="collapsed",
    )
    return chosen or parts_of_page[0]


def go_to_part(name: str) -> None:
    """Make the page again, at another part of it."""
    st.session_state["part-wanted"] = name
    st.rerun()


def watch(viewer: Viewer) -> None:
    """At the end of a page about a run that goes on: the page is made again when a round has ended.

    Whoever looks at the newest round follows the run (`Viewer.refresh`); elsewhere the place stays.
    """
    if viewer.reading:
        guard.fragment(_read_on, READ_S)(viewer)
    elif not viewer.finished and (viewer.name != LIVE or current().core.loaded):
        guard.fragment(_watch, WATCH_S)(viewer)


def _read_on(viewer: Viewer) -> None:
    """A long file is read a part at a time, while what stands of it can be looked at."""
    st.caption(f"Reading the trace: {len(viewer.player.run.rounds):,} rounds so far. The numbers are of these.")
    try:
        viewer.read_on()
    except SpecvizError:
        st.rerun()  # the page says it
    if not viewer.reading:
        st.rerun()


def _watch(viewer: Viewer) -> None:
    before = _progress(viewer)
    try:
        viewer.refresh()
    except SpecvizError:
        return  # the page says it, when it is made again
    if _progress(viewer) != before:
        st.rerun()


def _progress(viewer: Viewer) -> tuple[int, int, bool]:
    """Grows with every round that ends; a new run is another one."""
    run = viewer.player.run
    return id(run), sum(record.complete for record in run.rounds[-2:]) + len(run.rounds), run.end is not None


def click(event: Any, key: str) -> list[Any] | None:
    """The custom data of a point that was clicked just now: told once, then None until another one is. A point without
    any stands for nothing."""
    data = [p["customdata"] for p in event.selection.points if p.get("customdata") is not None] if event else []
    seen = st.session_state.get(f"{key}-clicked")
    st.session_state[f"{key}-clicked"] = data
    if not data or data == seen:
        return None
    return plain_data(data[0])


def plain_data(raw: Any) -> list[Any]:
    """Custom data of a point as a list: Streamlit makes a dict of one."""
    return list(raw.values()) if isinstance(raw, dict) else raw if isinstance(raw, list) else [raw]


def lines(rows: Sequence[Mapping[str, Any]], key: str, highest: int) -> int | None:
    """A table whose lines lead somewhere, at most so many pixels high; the line that was chosen just now, told once."""
    height = min(highest, 38 + 35 * len(rows))
    event: Any = st.dataframe(
        list(rows), hide_index=True, key=key, on_select="rerun", selection_mode="single-row", height=height
    )
    chosen = [row for row in (event.selection.rows if event else []) if row < len(rows)]
    seen = st.session_state.get(f"{key}-chosen")
    st.session_state[f"{key}-chosen"] = chosen
    return chosen[0] if chosen and chosen != seen else None


def choice(
    viewer: Viewer,
    label: str,
    key: str,
    named: Mapping[Thing, str],
    here: Thing | None,
    take: Callable[[Thing], object],
    **more: Any,
) -> None:
    """Things of this round by name, the keyboard's way to what a click does: `here` is chosen, another is taken.

    A browser goes on telling what stood in the list of a round that the same message leaves: nothing of it is taken.
    """
    round = viewer.player.cursor.index
    labels = dict(zip(named, parts.unlike(list(named.values())), strict=True))
    name = parts.key_of(key, f"{viewer.name} {round}", list(labels.values()))
    put = here if here in labels else None
    if name not in st.session_state or st.session_state[name] != put:
        st.session_state[name] = put

    def changed() -> None:
        wanted = st.session_state[name]
        if wanted in labels and wanted != put and viewer.player.cursor.index == round:
            take(wanted)

    st.selectbox(
        label,
        list(labels),
        index=None if put is None else 0,
        key=name,
        format_func=labels.__getitem__,
        on_change=guard.obeyed(changed),
        **more,
    )


def clicked(viewer: Viewer, selected: int | None, event: Any, key: str) -> None:
    """A click on a node of a plot chooses it."""
    clicked_place = click(event, key)
    if clicked_place and isinstance(clicked_place[0], int | float) and int(clicked_place[0]) != selected:
        viewer.choose(int(clicked_place[0]))
        st.rerun()
