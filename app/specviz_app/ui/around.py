"""What pages about a run share: the way from round to round, the time line, things of a round to choose or click."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import streamlit as st

from specviz.errors import SpecvizError
from specviz_app.figures.timeline import fig_stretches, fig_timeline, stretch, window
from specviz_app.server.server import current
from specviz_app.ui import below, counters, guard, parts, state
from specviz_app.ui.library import LIVE
from specviz_app.ui.pages import NOTHING
from specviz_app.ui.viewer import FILTERS, Viewer

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator

FILTER, _SHOW = "rounds", "show"
Thing = TypeVar("Thing")
WATCH_S = 2.0
READ_S = 0.2  # between two parts of a long file


def opened(nothing: str = NOTHING) -> Viewer | None:
    """The tab's run, at the place of the address; None, with the reason on the page, when there is nothing to show."""
    try:
        held = state.viewer(current())
    except SpecvizError as error:
        st.error(parts.plain(str(error)))
        return None
    if not held.player.run.rounds:
        if not counters.show_history():
            st.info(nothing)
        return None
    return held


def about_a_run(body: Callable[[Viewer, bool], None], *panels: str) -> Callable[[], None]:
    """A page about a run: the way through its rounds, then `body` with the viewer and whether the ground is dark.

    `panels`: those whose models the page shows; what else `body` asks of the frames (`Viewer.asks`) is asked there
    alone.
    """

    @wraps(body)
    def show() -> None:
        held = opened()
        if held is None:
            return
        dark = state.dark()
        moves(held)
        timeline(held, dark)
        held.asks(*panels)
        try:
            body(held, dark)
        finally:
            held.asks()
        state.put_place(held)
        watch(held)

    return show


def part(parts_of_page: Sequence[str]) -> str:
    """Which part of the page is shown; it stands in the address, below the stage by the panel's name."""
    key = f"{panel}.{_SHOW}" if (panel := below.opened()) else _SHOW
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


def moves(held: Viewer) -> "DeltaGenerator":
    """Buttons and keys that go from round to round, and the filter they obey; the row, for what a page adds."""
    if problem := state.bad_place():
        st.warning(parts.plain(problem))
    state.known(FILTER, FILTERS)
    state.tell()
    row = st.container(horizontal=True, vertical_alignment="bottom")
    with row:
        _button("◀ round", "ArrowLeft", lambda: held.move(-1, _only()), held)
        _button("round ▶", "ArrowRight", lambda: held.move(1, _only()), held)
        _button("◀ rejection", "J", lambda: held.rejection(-1), held)
        _button("rejection ▶", "K", lambda: held.rejection(1), held)
        st.selectbox("Rounds", FILTERS, key=FILTER, bind="query-params", width=165)
    return row


def _only() -> str:
    """The filter; known once its widget was placed."""
    return str(st.session_state.get(FILTER) or FILTERS[0])


def _button(label: str, shortcut: str, move: Callable[[], bool], held: Viewer) -> None:
    def clicked() -> None:
        if not move():
            st.toast("no further round like that")

    st.button(label, key=f"go-{label}", shortcut=shortcut, on_click=guard.obeyed(clicked))


def timeline(held: Viewer, dark: bool) -> None:
    """All rounds; a click goes there. Of a long run those around the cursor, below the whole of it in stretches."""
    only = _only()
    matching = held.matching(only)
    frame = held.frame
    points, here = frame.timeline.points, frame.cursor.index
    passing = None if only == FILTERS[0] else frozenset(matching)
    near = window(len(points), here)
    filtered = f"{len(matching):,} pass the filter '{only}'"
    if len(near) < len(points):
        each = f"{len(points):,} rounds, {stretch(len(points))} to a bar"
        whole = fig_stretches(points, here, passing, dark)
        event = parts.plot(whole, "stretches", f"Tokens a round of {each}; {filtered}.", pick=True)
        _clicked_round(held, event, "stretches")
        parts.dim(f"Above all {each}; below them {near[0] + 1:,} to {near[-1] + 1:,}, one to a bar.")
    alt = f"Tokens of {len(near):,} rounds; {filtered}."
    figure = fig_timeline(points[near.start : near.stop], here, passing, dark)
    _clicked_round(held, parts.plot(figure, "timeline", alt, pick=True), "timeline")


def _clicked_round(held: Viewer, event: Any, key: str) -> None:
    """A bar was clicked just now: to its round, of a stretch to the first that passes the filter."""
    found = click(event, key)
    if not found or not isinstance(found[0], int | float):
        return
    first = int(found[0])
    last = first + (stretch(len(held.player.run.rounds)) if key == "stretches" else 1)
    index = next((index for index in held.matching(_only()) if first <= index < last), first)
    if index != held.player.cursor.index:
        held.seek(index)
        st.rerun()


def watch(held: Viewer) -> None:
    """At the end of a page about a run that goes on: the page is made again when a round has ended.

    Whoever looks at the newest round follows the run (`Viewer.refresh`); elsewhere the place stays.
    """
    if held.reading:
        guard.fragment(_read_on, READ_S)(held)
    elif not held.finished and (held.name != LIVE or current().core.loaded):
        guard.fragment(_watch, WATCH_S)(held)


def _read_on(held: Viewer) -> None:
    """A long file is read a part at a time, while what stands of it can be looked at."""
    st.caption(f"Reading the trace: {len(held.player.run.rounds):,} rounds so far. The numbers are of these.")
    try:
        held.read_on()
    except SpecvizError:
        st.rerun()  # the page says it
    if not held.reading:
        st.rerun()


def _watch(held: Viewer) -> None:
    before = _progress(held)
    try:
        held.refresh()
    except SpecvizError:
        return  # the page says it, when it is made again
    if _progress(held) != before:
        st.rerun()


def _progress(held: Viewer) -> tuple[int, int, bool]:
    """Grows with every round that ends; a new run is another one."""
    run = held.player.run
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
    held: Viewer,
    label: str,
    key: str,
    named: Mapping[Thing, str],
    here: Thing | None,
    take: Callable[[Thing], object],
    **more: Any,
) -> None:
    """Things of this round by name, the keyboard's way to what a click does: `here` is chosen, another is taken."""
    labels = dict(zip(named, parts.unlike(list(named.values())), strict=True))
    name = parts.key_of(key, f"{held.name} {held.player.cursor.index}", list(labels.values()))
    put = here if here in labels else None
    if name not in st.session_state or st.session_state[name] != put:
        st.session_state[name] = put

    def changed() -> None:
        wanted = st.session_state[name]
        if wanted in labels and wanted != put:
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


def clicked(held: Viewer, selected: int | None, event: Any, key: str) -> None:
    """A click on a node of a plot chooses it."""
    found = click(event, key)
    if found and isinstance(found[0], int | float) and int(found[0]) != selected:
        held.choose(int(found[0]))
        st.rerun()
