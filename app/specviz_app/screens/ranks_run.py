"""The parts of page Ranks about the run: predicted against true buckets with lists to go on from, widths, blocks."""

from functools import partial

import streamlit as st

from specviz.view.blocks import Destination
from specviz.view.panels.ranks.build import RanksPanel
from specviz.view.panels.ranks.model import BUCKET_WORDS, BUCKETS, RankFilter, RanksModel
from specviz.view.panels.ranks.text import none_judged, unknown_words
from specviz_app.ui import around, blocks, parts
from specviz_app.ui.viewer import Viewer

_ANY = 0
_KEPT, _PATH = "all kept parents", "on the path"


def section(viewer: Viewer, model: RanksModel, dark: bool) -> None:
    """Everything about ranks over the run."""
    if model.over_run is None:
        return
    blocks.one(model.over_run.summary, dark)
    if model.blocks:
        viewer.options = RanksPanel.choose(viewer.options, filter=filters(model))
        model = RanksPanel.of(viewer.frame) or model
        if model.confusion is None:
            parts.say(none_judged(model))
        _buckets(viewer, model, dark)
    if (run := model.over_run) is not None:
        if model.confusion is not None:
            blocks.show((run.widths, run.reach, run.other_widths, run.slots), dark)
        blocks.show((run.blocks, run.depths), dark)


def filters(model: RanksModel) -> RankFilter:
    """Which expansions are counted: block, slot, and whether the path alone. The choice stands in the address."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        basis = st.segmented_control(
            "Counted",
            (_KEPT, _PATH),
            default=_KEPT,
            key="ranks-basis",
            bind="query-params",
            required=True,
            help="on the path: what the drafter is like given that all before was right. All kept parents: everywhere "
            "the target looked, most of it behind tokens that were not written.",
        )
        block = _some("Block", model.blocks, "ranks-block", 1)
        slot = _some("Slot", model.slots, "ranks-slot", 0)
    return RankFilter(block, slot, path_only=basis == _PATH)


def _some(label: str, values: tuple[int, ...], key: str, first: int) -> int | None:
    """One of the values; None for all. Numbers in the address count from 1: 0 means all."""
    options = [_ANY, *(value - first + 1 for value in values)]

    def named(value: int) -> str:
        return "all" if value == _ANY else str(value + first - 1)

    chosen = st.selectbox(label, options, key=key, format_func=named, bind="query-params", width=100)
    return None if chosen == _ANY else chosen + first - 1


def _buckets(viewer: Viewer, model: RanksModel, dark: bool) -> None:
    """The confusion, and what the chosen cell holds."""
    if model.confusion is None:
        return
    left, right = st.columns([6, 5], gap="large")
    with left:
        blocks.one(model.confusion.heat, dark, pick=partial(_pick, viewer))
        if model.confusion.n_unknown:
            parts.say(unknown_words(model.confusion))
    with right:
        _cell(viewer, model, dark)


def _pick(viewer: Viewer, place: Destination) -> None:
    viewer.options = RanksPanel.choose(viewer.options, cell=(place.index, place.node or 0), entry=None)
    st.rerun()


def _cell(viewer: Viewer, model: RanksModel, dark: bool) -> None:
    """The cell by name, and its expansions: a line leads to the round."""
    names = {(p, t): f"said {BUCKETS[p]}, was {BUCKETS[t]}" for p in range(4) for t in range(4)}
    here = RanksPanel.chosen(viewer.options).cell

    def take(cell: tuple[int, int]) -> None:
        viewer.options = RanksPanel.choose(viewer.options, cell=cell, entry=None)

    st.subheader("In the cell", help="choose a cell of the map, or here; a line leads to the node in its round")
    around.choice(
        viewer,
        "Cell",
        "ranks-cell",
        names,
        here,
        take,
        placeholder="a click on the map, or here",
        label_visibility="collapsed",
    )
    if model.cell is None:
        table = model.confusion
        rows = [
            {"rank": BUCKETS[k], "means": word, "children given": table.widths[k] if table else None}
            for k, word in enumerate(BUCKET_WORDS)
        ]
        st.dataframe(rows, hide_index=True, key="ranks-buckets")
        return
    blocks.one(model.cell, dark, partial(_go, viewer))


def _go(viewer: Viewer, place: Destination) -> None:
    viewer.seek(place.index)
    viewer.choose(place.node)
    around.go_to_part("this round")
