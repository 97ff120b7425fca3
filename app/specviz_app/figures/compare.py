"""Figures about several runs: how many passes of the target their text took, and how their drafts fared by place."""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from specviz.runlog.run import Mark
from specviz.view.compare import CompareRow, RunLane, Steps
from specviz.view.frame.parts import Series
from specviz.view.words.palette import colour
from specviz_app.figures import base
from specviz_app.figures.base import sentence

# A run is told from others by colour, dash and sign.
_LOOKS: tuple[tuple[Mark, str, str, str], ...] = (
    ("accepted", "solid", "circle", ""),
    ("recovered", "dash", "diamond", "/"),
    ("bonus", "dot", "square", "x"),
    ("rejected", "dashdot", "cross", "."),
    ("exit", "longdash", "triangle-up", "-"),
    ("plain", "longdashdot", "x", "+"),
)
_HEIGHT = 300


def fig_calls(lanes: Sequence[RunLane], steps: Sequence[Steps], parts: int | None, dark: bool) -> go.Figure:
    """Passes of the target until so many tokens were written. `parts`: where the texts part, if they do."""
    traces = []
    for lane, lane_steps, (mark, dash, _, _) in zip(lanes, steps, _LOOKS, strict=False):
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
    for lane, lane_steps, (mark, dash, _, _) in list(zip(lanes, steps, _LOOKS, strict=False))[1:]:
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


def fig_places(lanes: Sequence[RunLane], series: Sequence[Series], axis: str, dark: bool) -> go.Figure:
    """Shares by place of several runs beside each other, with their 95 % intervals."""
    traces = []
    for lane, places_series, look in zip(lanes, series, _LOOKS, strict=False):
        if places_series.xs:
            spread = list(
                zip(places_series.values, places_series.lows, places_series.highs, places_series.ns, strict=True)
            )
            hover = [
                f"{lane.letter}, {axis} {x}: {v:.3f}, n {n}"
                for x, (v, _, _, n) in zip(places_series.xs, spread, strict=True)
            ]
            arms = _arms([(v, lo, hi) for v, lo, hi, _ in spread])
            traces.append(_bars(lane, list(places_series.xs), list(places_series.values), arms, hover, look, dark))
    if not traces:
        return base.empty("not defined for these runs, or not on record")
    x = {"title": axis, "dtick": 1}
    return base.figure(traces, _HEIGHT, x, {"range": [0, 1.02], "tickformat": ".1f"}, barmode="group")


def fig_kinds(lanes: Sequence[RunLane], kinds: Mapping[str, CompareRow], dark: bool) -> go.Figure:
    """Tokens per target call by kind of prompt."""
    traces = []
    for n, (lane, look) in enumerate(zip(lanes, _LOOKS, strict=False)):
        estimates = [(kind, row.beside[n].value) for kind, row in kinds.items()]
        known_estimates = [(name, estimate) for name, estimate in estimates if estimate is not None]
        spread = [(e.value, *(e.interval or (None, None))) for _, e in known_estimates]
        hover = [f"{lane.letter}, {sentence(name)}: {e.value:.2f}, n {e.n}" for name, e in known_estimates]
        names, values = [sentence(name) for name, _ in known_estimates], [e.value for _, e in known_estimates]
        traces.append(_bars(lane, names, values, _arms(spread), hover, look, dark))
    return base.figure(
        traces, _HEIGHT, {"title": "kind of prompt"}, {"title": "tokens per target call"}, barmode="group"
    )


def _arms(spread: Sequence[tuple[float, float | None, float | None]]) -> dict[str, Any]:
    """Intervals as plotly's arms; none where there is none."""
    up = [0.0 if hi is None else hi - value for value, _, hi in spread]
    down = [0.0 if lo is None else value - lo for value, lo, _ in spread]
    return {"type": "data", "array": up, "arrayminus": down, "color": base.GREY, "thickness": 1.6, "width": 4}


def _bars(
    lane: RunLane,
    xs: list[Any],
    values: list[float],
    arms: dict[str, Any],
    hover: list[str],
    look: tuple[Mark, str, str, str],
    dark: bool,
) -> go.Bar:
    mark, _, _, hatch = look
    return go.Bar(
        x=xs,
        y=values,
        name=_name(lane),
        error_y=arms,
        hovertext=hover,
        hoverinfo="text",
        marker={"color": colour(mark, dark), "pattern": base.hatched(hatch)},
    )
