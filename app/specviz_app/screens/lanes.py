"""Lanes: who worked when and who waited, what was drafted for nothing, how a round branched, and which
draft length would pay.
"""

import streamlit as st

from specviz.view.panels.lanes.build import LanesPanel
from specviz.view.panels.lanes.model import Chart, Clock, LanesModel
from specviz.view.words.palette import BLOCKS
from specviz_app.figures import lanes as draw
from specviz_app.ui import around, blocks, closed, parts, state
from specviz_app.ui.pages import PanelBelow, lacks
from specviz_app.ui.viewer import Viewer

_PARTS = ("lanes", "the round", "draft length")
_CLOCKS: dict[str, Clock] = {"measured clock": "measured", "modelled clock": "model"}
_HATCH = "Hatched: rolled back. Dotted: not settled yet. Outlined: idle. Arrows: what a failed pass invalidated."


def _body(viewer: Viewer, dark: bool) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        state.known("clock", list(_CLOCKS))
        shown = around.part(_PARTS)
        named = st.segmented_control(
            "Clock",
            list(_CLOCKS),
            default=next(iter(_CLOCKS)),
            key="clock",
            required=True,
            bind="query-params",
            label_visibility="collapsed",
            help="never mixed: what was measured here, or what two lanes side by side would "
            "have taken at the measured costs",
        )
    clock = _CLOCKS[named]
    viewer.options = LanesPanel.choose(viewer.options, clock=clock)
    frame = viewer.frame
    model = LanesPanel.of(frame)
    if model is None:
        return
    if shown == _PARTS[0]:
        _lanes(viewer, model, dark)
    else:
        (_branches if shown == _PARTS[1] else _pay)(model, dark)


def _lanes(viewer: Viewer, model: LanesModel, dark: bool) -> None:
    """The bars, and the one under the cursor."""
    chart = model.chart
    if chart is None:
        closed.say(model.missing or "Nothing ran in this round.", LanesPanel)
        return
    event = parts.plot(
        draw.fig_lanes(chart, dark), "lanes-chart", draw.lanes_alt(chart), draw.lane_rows(chart), pick=True
    )
    if found_block := around.click(event, "lanes"):
        index, lane, place = found_block
        viewer.options = LanesPanel.choose(viewer.options, block=(int(index), str(lane), int(place)))
        st.rerun()
    parts.say(f"{chart.clock_text}. {_HATCH}")
    left, right = st.columns(2, gap="large")
    with left:
        _choose(viewer, chart)
        if model.block is not None:
            block = model.block
            parts.facts(block.title, block.words, block.rows, block.mark, dark)
    with right:
        st.markdown(f"**The run on the {draw.CLOCKS[chart.clock]} clock**")
        rows = [{"": row.label, "value": row.value, "clock": row.note} for row in model.summary]
        st.dataframe(rows, hide_index=True, key="lanes-summary")


def _choose(viewer: Viewer, chart: Chart) -> None:
    """Every stretch of the round by name: the keyboard's way to what a click does."""
    blocks = {b.at: b for b in chart.blocks}
    here = chart.blocks[chart.cursor].at if chart.cursor is not None else None
    named = {at: f"r{b.round} {b.lane}: {BLOCKS[b.kind].word} {b.shown or b.why}".rstrip() for at, b in blocks.items()}

    def take(at: tuple[int, str, int]) -> None:
        viewer.options = LanesPanel.choose(viewer.options, block=at)

    around.choice(viewer, "Stretch", "lanes-block", named, here, take)


def _branches(model: LanesModel, dark: bool) -> None:
    """How the round drafted: what it looked at, where it branched, what the classifier said."""
    if model.missing is not None:
        closed.say(model.missing, LanesPanel)
    blocks.show((*model.steps, *model.fan, *model.hrad), dark)


def _pay(model: LanesModel, dark: bool) -> None:
    """Tokens a second by draft length from what was measured."""
    if model.pay is None or model.pay.curve is None:
        closed.say((model.pay.missing if model.pay else model.missing) or "Nothing ran in this round.", LanesPanel)
        return
    blocks.show(model.pay, dark)


PANELS = (PanelBelow("lanes", "Lanes", 60, _body, ("lanes",), lacks(LanesPanel), LanesPanel),)
