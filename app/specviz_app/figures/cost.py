"""The cost panel: latency of a token by draft length, Theorem 1 beside the exact pipelines, and the run's place."""

from typing import Any

import plotly.graph_objects as go

from specviz.view.cost_panel import CostPanel
from specviz.view.palette import colour
from specviz.view.terms import Mark
from specviz_app.figures.base import figure, sentence

_LOOKS: dict[str, tuple[Mark, str]] = {  # colour, dash
    "theorem": ("untested", "dash"), "sps": ("recovered", "solid"), "full": ("rejected", "dot"),
    "refill": ("rejected", "solid"), "pearl": ("exit", "solid"), "branch": ("accepted", "solid"),
}  # fmt: skip
_EDGE = {"color": "#FFFFFF", "width": 1.5}
_HEADROOM = 1.6  # of plain decoding, above which a latency is not worth its room


def fig_cost(panel: CostPanel, dark: bool = False) -> go.Figure:
    """Lower is cheaper. ★ the best length of a curve, ◆ the run, the flat line plain decoding."""
    traces: list[Any] = []
    for curve in panel.curves:
        mark, dash = _LOOKS[curve.key]
        hex_colour = colour(mark, dark)
        traces.append(go.Scatter(
            x=list(panel.xs), y=list(curve.values), mode="lines+markers", name=sentence(curve.label),
            line={"color": hex_colour, "dash": dash, "width": 2}, legendgroup=curve.key, hoverinfo="text",
            marker={"size": [13 if x == curve.best else 4 for x in panel.xs], "color": hex_colour,
                    "symbol": ["star" if x == curve.best else "circle" for x in panel.xs]},
            hovertext=[sentence(text).replace("\n", "<br>") for text in curve.texts],
        ))  # fmt: skip
    traces.append(go.Scatter(
        x=[panel.xs[0], panel.xs[-1]], y=[panel.plain] * 2, mode="lines", name="plain decoding", hoverinfo="skip",
        line={"color": colour("root", dark), "width": 1.5, "dash": "longdash"},
    ))  # fmt: skip
    if panel.point is not None:
        traces.append(go.Scatter(
            x=[panel.point[0]], y=[panel.point[1]], mode="markers", name="◆ this run", hoverinfo="text",
            hovertext=[sentence(panel.point_text)], cliponaxis=False,
            marker={"symbol": "diamond", "size": 16, "color": colour("root", dark), "line": _EDGE},
        ))  # fmt: skip
    out = figure(traces, 380)
    out.update_xaxes(title="γ draft length", dtick=1 if len(panel.xs) <= 24 else 4, fixedrange=True)
    out.update_yaxes(title="draft forwards a token", range=[0, _top(panel)], fixedrange=True)
    return out


def _top(panel: CostPanel) -> float:
    """Room for what competes with plain decoding, and for the run wherever it is."""
    point = panel.point[1] if panel.point is not None else 0.0
    return max(_HEADROOM * panel.plain, 1.1 * point)


def cost_rows(panel: CostPanel) -> list[dict[str, Any]]:
    """The table twin: a row a draft length."""
    return [
        {"γ": x, **{curve.label: curve.values[k] for curve in panel.curves}, "plain decoding": panel.plain}
        for k, x in enumerate(panel.xs)
    ]  # fmt: skip
