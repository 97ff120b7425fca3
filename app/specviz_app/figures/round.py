"""Figures about one round: the tests with their random numbers, p beside q, and what was left to draw from."""

from collections.abc import Sequence

import plotly.graph_objects as go

from specviz.view.frame.frame import TreeNode
from specviz.view.frame.parts import Residual
from specviz.view.words.palette import colour, glyph
from specviz_app.figures.base import empty, figure, safe, short
from specviz_app.figures.tree import hover

_TICK = 8  # cells of a token under a plot
_GREEDY = "temperature 0: nothing is drawn, the target's most likely token decides"
MOST = 24  # nodes or tokens on one plot; the table has all


def fig_tests(nodes: Sequence[TreeNode], dark: bool = False, greedy: bool = False) -> go.Figure:
    """One column for each test: the band in which `u` keeps the token, and where `u` fell."""
    tested = [n for n in nodes if n.id >= 0 and n.values.u is not None and _band(n) is not None][:MOST]
    if not tested:
        return empty(_GREEDY if greedy else "no test of this round has its random number on record", 90)
    bands = [
        go.Scatter(
            x=[k, k], y=list(_band(n) or (0, 0)), mode="lines", hoverinfo="skip", showlegend=False,
            line={"color": colour("accepted", dark), "width": 18}, opacity=0.35,
        )
        for k, n in enumerate(tested)
    ]  # fmt: skip
    marks = go.Scatter(
        x=list(range(len(tested))), y=[n.values.u for n in tested], mode="markers+text", name="u",
        marker={"symbol": "diamond", "size": 12, "color": [colour(n.mark, dark) for n in tested]},
        text=[n.glyph for n in tested], textposition="middle right", hovertext=[hover(n) for n in tested],
        hoverinfo="text", customdata=[n.id for n in tested],
    )  # fmt: skip
    out = figure([*bands, marks], 240, showlegend=False)
    out.update_xaxes(
        tickvals=list(range(len(tested))), ticktext=[short(n.shown, _TICK) for n in tested], fixedrange=True
    )
    out.update_xaxes(range=[-0.6, len(tested) - 0.4], showgrid=False)
    out.update_yaxes(range=[-0.03, 1.03], title="u ◆ in the band: kept", fixedrange=True)
    return out


def _band(node: TreeNode) -> tuple[float, float] | None:
    v = node.values
    if v.lo is not None and v.hi is not None:
        return (v.lo, v.hi)
    return None if v.thr is None else (0.0, min(1.0, v.thr))


def fig_pq(nodes: Sequence[TreeNode], dark: bool = False) -> go.Figure:
    """What the draft said of every drafted token beside the target's p: q, or its own odds where it drew nothing."""
    said = {n.id: n.values.conf if n.values.q is None else n.values.q for n in nodes}
    known = [n for n in nodes if n.id >= 0 and (said[n.id] is not None or n.values.p is not None)][:MOST]
    if not known:
        return empty("neither p nor q is on record for this round", 110)
    places = list(range(len(known)))
    pairs = (("draft", [said[n.id] for n in known], "drafted"), ("target", [n.values.p for n in known], "accepted"))
    bars = [
        go.Bar(x=places, y=values, name=name, marker={"color": colour(mark, dark)},  # type: ignore[arg-type]
               hovertext=[hover(n) for n in known], hoverinfo="text")
        for name, values, mark in pairs
    ]  # fmt: skip
    out = figure(bars, 240, barmode="group", bargap=0.25)
    ticks = [f"{n.glyph} {short(n.shown, _TICK)}" for n in known]
    out.update_xaxes(tickvals=places, ticktext=ticks, fixedrange=True)
    out.update_yaxes(range=[0, 1.02], tickformat=".1f", fixedrange=True)
    return out


def fig_residual(residual: Residual, dark: bool = False) -> go.Figure:
    """The row the closing token was drawn from: what is left of the target where the draft said too much."""
    entries = list(residual.entries)[:MOST]
    if not entries:
        return empty(residual.note or "the row is not on record", 110)
    drawn, plain = colour("recovered", dark), colour("untested", dark)
    bar = go.Bar(
        x=[e.prob for e in entries], y=list(range(len(entries))), orientation="h",
        marker={"color": [drawn if e.drawn else plain for e in entries]}, text=[e.text for e in entries],
        textposition="outside", textangle=0, cliponaxis=False, hoverinfo="text",
        hovertext=[safe(e.shown) + (" · drafted and rejected" if e.drafted else "") for e in entries],
    )  # fmt: skip
    out = figure([bar], 50 + 26 * len(entries), showlegend=False, bargap=0.3)
    ticks = [f"{glyph('recovered') + ' ' if e.drawn else ''}{short(e.shown)}" for e in entries]
    out.update_yaxes(tickvals=list(range(len(entries))), ticktext=ticks, autorange="reversed", fixedrange=True)
    out.update_xaxes(rangemode="tozero", fixedrange=True, nticks=5, title="share of the draw")
    out.update_layout(margin={"l": 8, "r": 40, "t": 8, "b": 8})
    return out
