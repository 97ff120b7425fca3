"""The part of page Ranks about another width table on the recorded expansions, recomputed while a slider moves."""

import streamlit as st

from specviz.errors import SpecvizError
from specviz.view.panels.ranks.model import BUCKET_WORDS, BUCKETS, RankFilter, RanksModel
from specviz.view.panels.ranks.widths import MOST, Recorded, WidthChange, WidthTable, recorded, width_change
from specviz_app.figures import widths as draw
from specviz_app.screens import ranks_run
from specviz_app.ui import around, guard, parts, state
from specviz_app.ui.viewer import Viewer

_KEYS = tuple(f"try.w{b}" for b in range(len(BUCKETS)))
_BEAM = "try.beam"


def section(held: Viewer, found: RanksModel, dark: bool) -> None:
    """Everything about other widths, or why nothing can be told."""
    st.subheader(
        "Other widths on these expansions",
        help="What a slot says does not depend on how many of its tokens "
        "became children, and the true ranks are on record: this is counted, not modelled. No model runs. "
        "Told of the recorded expansions only: other widths would start blocks elsewhere.",
    )
    try:
        rows = state.once("widths-of", held, lambda: recorded(held.player.run))
    except SpecvizError as error:
        st.info(parts.plain(str(error)))
        return
    guard.fragment(_body)(held, rows, found)


def _body(held: Viewer, rows: Recorded, found: RanksModel) -> None:
    dark = state.dark()
    which = ranks_run.filters(found)
    state.begin("widths-run", held, _values(rows.own))
    try:
        _panel(rows, which, dark)
    except SpecvizError as error:
        st.info(parts.plain(str(error)))


def _panel(rows: Recorded, which: RankFilter, dark: bool) -> None:
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        picked = [
            st.slider(
                f"said {name}",
                0,
                MOST,
                key=key,
                bind="query-params",
                width=128,
                help=f"children where the rank head says {word}; 0 gives the block up",
            )
            for key, name, word in zip(_KEYS, BUCKETS, BUCKET_WORDS, strict=True)
        ]
        beam = st.slider(
            "root",
            1,
            MOST,
            key=_BEAM,
            bind="query-params",
            width=128,
            help="children of its own slot, whatever its bucket",
        )
    table = WidthTable((picked[0], picked[1], picked[2], picked[3]), beam)
    change = width_change(rows, table, which)
    with st.container(horizontal=True):
        st.button("as the run was", key="widths-reset", on_click=guard.obeyed(state.put), args=(_values(rows.own),))
        cheapest = WidthTable(change.cheapest.widths, rows.own.beam)
        st.button(
            f"fewest children for the run's coverage: {', '.join(map(str, cheapest.widths))}",
            key="widths-best",
            on_click=guard.obeyed(state.put),
            args=(_values(cheapest),),
            help="in hindsight, over all tables without a 0",
        )
    _told(change)
    left, right = st.columns(2, gap="large")
    with left:
        st.markdown(
            "**What so many children cover** · by predicted bucket",
            help="slots behind a 0 in their block get "
            "one child whatever is said there; the table above counts that, the curves do not",
        )
        alt = "; ".join(f"{b.label}: {b.width} children cover {b.here}" for b in change.buckets if b.n)
        parts.plot(draw.fig_curves(change, dark), "widths-curves", alt, draw.curve_rows(change))
    with right:
        st.markdown("**Coverage against children** · the best of all tables")
        parts.plot(
            draw.fig_frontier(change, dark),
            "widths-frontier",
            change.words,
            draw.frontier_rows(change),
            pick=guard.obeyed(_taken),
        )


def _told(change: WidthChange) -> None:
    parts.lead(change.words, f"{change.table.text} · {change.basis}")
    st.dataframe(draw.change_rows(change), hide_index=True, key="widths-rows", alt=change.words)
    had, still = change.steps
    ends, before, now = change.stops
    parts.say(
        f"Of {had:,} tokens that the run accepted {still:,} are still offered; of {ends:,} that ended a round {now:,} "
        f"({before:,} in the run), if the budget lets them through. "
        f"{'✓' if change.agrees else '⚠'} {change.check}"
    )


def _values(table: WidthTable) -> dict[str, int]:
    return {**dict(zip(_KEYS, table.widths, strict=True)), _BEAM: table.beam}


def _taken() -> None:
    """A click on the frontier moves the sliders."""
    for point in st.session_state["widths-frontier"].selection.points:
        data = around.plain_data(point.get("customdata"))
        if len(data) == len(_KEYS):
            st.session_state.update(dict(zip(_KEYS, map(int, data), strict=True)))
