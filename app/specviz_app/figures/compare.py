"""Figures about several runs: how many passes of the target their text took, and how their drafts fared by place."""

from collections.abc import Sequence

import plotly.graph_objects as go

from specviz.view.compare import MARKS, RunLane, Steps
from specviz.view.words.palette import colour
from specviz_app.figures import base
from specviz_app.figures.base import sentence

_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")  # with its colour, what tells a run
_HEIGHT = 300


def fig_calls(lanes: Sequence[RunLane], steps: Sequence[Steps], parts: int | None, dark: bool) -> go.Figure:
    """Passes of the target until so many tokens were written. `parts`: where the texts part, if they do."""
    traces = []
    for lane, lane_steps, mark, dash in zip(lanes, steps, MARKS, _DASHES, strict=False):
        traces.append(
            base.scatter(
                "lines",
                _name(lane),
                [0, *lane_steps.positions],
                [0, *lane_steps.calls],
                [_name(lane), *(f"{lane.letter}: {c} passes for {p} tokens" for p, c in _pairs(lane_steps))],
                line={"color": colour(mark, dark), "width": 2.5, "dash": dash, "shape": "hv"},
            )
        )
    out = base.figure(traces, _HEIGHT, {"title": "tokens written", "rangemode": "tozero"}, {"title": "target passes"})
    return _parted(out, parts, dark)


def fig_saved(lanes: Sequence[RunLane], steps: Sequence[Steps], parts: int | None, dark: bool) -> go.Figure:
    """Passes more or fewer than the first run needed for as many tokens; below 0 is faster."""
    base_steps, traces = steps[0], []
    for lane, lane_steps, mark, dash in list(zip(lanes, steps, MARKS, _DASHES, strict=False))[1:]:
        ends = min(max(lane_steps.positions, default=0), max(base_steps.positions, default=0))
        places = range(1, ends + 1)
        gained = [(lane_steps.needed(p) or 0) - (base_steps.needed(p) or 0) for p in places]
        traces.append(
            base.scatter(
                "lines",
                f"{lane.letter} − A",
                list(places),
                gained,
                [f"{lane.letter}: {n:+d} passes than A for {p} tokens" for p, n in zip(places, gained, strict=True)],
                line={"color": colour(mark, dark), "width": 2.5, "dash": dash, "shape": "hv"},
            )
        )
    out = base.figure(traces, _HEIGHT, {"title": "tokens written"}, {"title": "passes more than A", "zeroline": True})
    return _parted(out, parts, dark)


def _parted(out: go.Figure, parts: int | None, dark: bool) -> go.Figure:
    if parts is not None:
        out.add_vline(x=parts, line={"color": colour("rejected", dark), "dash": "dash", "width": 1.5})
        out.add_annotation(
            x=parts, y=1, yref="paper", text="the texts part", showarrow=False, xanchor="left", yanchor="top"
        )
    return out


def _pairs(lane_steps: Steps) -> list[tuple[int, int]]:
    return list(zip(lane_steps.positions, lane_steps.calls, strict=True))


def _name(lane: RunLane) -> str:
    return sentence(f"{lane.letter} {lane.name}")
