"""The cost panel: latency of a token by draft length, Theorem 1 beside the exact pipelines, and the run's place."""

from typing import Any

import plotly.graph_objects as go

from specviz.cost.payoff import Payoff
from specviz.runlog.run import Mark
from specviz.view.panels.lanes.cost import CostPanel
from specviz.view.words.numbers import number
from specviz.view.words.palette import colour
from specviz_app.figures import base
from specviz_app.figures.base import sentence

_LOOKS: dict[str, tuple[Mark, str]] = {  # colour, dash
    "theorem": ("untested", "dash"),
    "sps": ("recovered", "solid"),
    "full": ("rejected", "dot"),
    "refill": ("rejected", "solid"),
    "pearl": ("exit", "solid"),
    "branch": ("accepted", "solid"),
}
_HEADROOM, _MOST = 1.4, 2.8  # of plain decoding: what there is always room for, and at most


def fig_cost(panel: CostPanel, dark: bool = False) -> go.Figure:
    """Lower is cheaper. ★ the best length of a curve, ◆ the run, the flat line plain decoding."""
    traces: list[Any] = []
    for curve in panel.curves:
        mark, dash = _LOOKS[curve.key]
        hex_colour = colour(mark, dark)
        traces.append(
            base.scatter(
                "lines+markers",
                sentence(curve.label),
                list(panel.xs),
                list(curve.values),
                [sentence(text).replace("\n", "<br>") for text in curve.texts],
                line={"color": hex_colour, "dash": dash, "width": 2},
                legendgroup=curve.key,
                marker={
                    "opacity": 1,
                    "size": [13 if x == curve.best else 4 for x in panel.xs],
                    "color": hex_colour,
                    "symbol": ["star" if x == curve.best else "circle" for x in panel.xs],
                },
            )
        )
    traces.append(
        base.scatter(
            "lines",
            "plain decoding",
            [panel.xs[0], panel.xs[-1]],
            [panel.plain] * 2,
            line={"color": colour("root", dark), "width": 1.5, "dash": "longdash"},
        )
    )
    top = _top(panel)
    if panel.point is not None:
        traces.append(_run(panel, *panel.point, top, dark))
    steps = 1 if len(panel.xs) <= 30 else 4
    x = {"title": "γ draft length", "dtick": steps, "range": [0.5, panel.xs[-1] + 0.5]}
    return base.figure(traces, 380, x, {"title": "draft forwards a token", "range": [0, top]})


def _run(panel: CostPanel, x: int, y: float, top: float, dark: bool) -> go.Scatter:
    """The run's place; at the upper edge, pointing up, when it lies far above all curves."""
    off = y > top
    return base.scatter(
        "markers+text",
        "◆ this run",
        [x],
        [top if off else y],
        [sentence(panel.point_text)],
        cliponaxis=False,
        text=[f"this run: {number(y)} ↑" if off else ""],
        textposition="middle right",
        marker={
            "symbol": "triangle-up" if off else "diamond",
            "size": 16,
            "color": colour("root", dark),
            "line": base.EDGE,
        },
    )


def _top(panel: CostPanel) -> float:
    """Room for what competes with plain decoding, for the run, and for Theorem 1; not for what is far away."""
    point = panel.point[1] if panel.point is not None else 0.0
    theorem = min(min(curve.values) for curve in panel.curves if curve.key == "theorem")
    return max(_HEADROOM * panel.plain, min(max(1.1 * point, 1.3 * theorem), _MOST * panel.plain))


def cost_rows(panel: CostPanel) -> list[dict[str, Any]]:
    """The table twin: a row a draft length."""
    return [
        {"γ": x, **{curve.label: curve.values[k] for curve in panel.curves}, "plain decoding": panel.plain}
        for k, x in enumerate(panel.xs)
    ]


def fig_payoff(curve: Payoff, dark: bool = False) -> go.Figure:
    """Tokens a second by draft length with its 95 % band: ★ the best, ◆ what the run measured at its own."""
    xs, line = list(curve.gammas), colour("accepted", dark)
    words = [
        f"{'plain decoding' if x == 0 else f'γ {x}'}<br>{number(curve.speeds[x], 1)} tokens/s "
        f"({number(curve.low[x], 1)} to {number(curve.high[x], 1)})"
        for x in xs
    ]
    band = go.Scatter(
        x=[*xs, *reversed(xs)],
        y=[*curve.high, *reversed(curve.low)],
        fill="toself",
        mode="lines",
        line={"width": 0},
        fillcolor=line,
        opacity=0.18,
        hoverinfo="skip",
        name="95 %",
    )
    made = base.scatter(
        "lines+markers",
        "tokens/s by γ",
        xs,
        list(curve.speeds),
        words,
        line={"color": line, "width": 2},
        marker={
            "opacity": 1,
            "color": line,
            "size": [15 if x == curve.best else 5 for x in xs],
            "symbol": ["star" if x == curve.best else "circle" for x in xs],
        },
    )
    plain = base.scatter(
        "lines",
        "plain decoding",
        [xs[0], xs[-1]],
        [curve.speeds[0]] * 2,
        line={"color": colour("root", dark), "width": 1.5, "dash": "longdash"},
    )
    traces: list[Any] = [band, plain, made]
    if curve.own is not None and curve.measured:
        traces.append(
            base.scatter(
                "markers",
                "this run, measured",
                [curve.own],
                [curve.measured],
                [f"measured at γ {curve.own}: {number(curve.measured, 1)} tokens/s"],
                marker={"symbol": "diamond", "size": 15, "color": colour("root", dark), "line": base.EDGE},
            )
        )
    top = 1.1 * max(*curve.high, curve.measured or 0.0)
    x = {"title": "γ draft length, 0 is plain decoding", "dtick": 2, "range": [-0.5, xs[-1] + 0.5]}
    return base.figure(traces, 340, x, {"title": "tokens a second", "range": [0, top]})


def payoff_rows(curve: Payoff) -> list[dict[str, Any]]:
    """The table twin: a row a draft length."""
    return [{"γ": x, "tokens/s": curve.speeds[x], "low": curve.low[x], "high": curve.high[x]} for x in curve.gammas]
