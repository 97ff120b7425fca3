"""Tokens a second by draft length, and what the run measured at its own."""

from typing import Any

import plotly.graph_objects as go

from specviz.cost.payoff import Payoff
from specviz.view.words.numbers import number
from specviz.view.words.palette import colour
from specviz_app.figures import base


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
