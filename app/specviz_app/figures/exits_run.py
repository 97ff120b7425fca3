"""Figures about the exit tests over a whole run: what they ask, what other thresholds would have cost, the clock."""

from typing import Any

import plotly.graph_objects as go

from specviz.runlog.run import Mark
from specviz.view.panels.exits.model import GateCurve
from specviz.view.panels.exits.parts import TimePoint
from specviz.view.panels.exits.sweeps import SweepLine, SweepPoint, Sweeps
from specviz.view.words.numbers import fine, number, percent
from specviz.view.words.palette import colour
from specviz_app.figures import base
from specviz_app.figures.base import sentence

_LINES: dict[str, tuple[Mark, str, str]] = {
    "tau": ("accepted", "solid", "circle"),
    "alpha": ("recovered", "dot", "square"),
}


def fig_gates(curve: GateCurve | None, dark: bool = False) -> go.Figure:
    """Below, the temperature of every layer's test; above, the raw confidence it asks, against one rival and as met."""
    if curve is None or not curve.layers:
        return base.empty("the trace does not say how many layers the target has")
    layers = [g.layer for g in curve.layers]
    about = [
        f"layer {g.layer}{' (tested)' if g.tested else ''}: T {number(g.temp)}<br>asks {fine(g.one_rival)} against one "
        f"rival, {fine(g.raw_thr)} as met<br>{g.n_tests} tests, {g.n_stops} stops, {g.n_wrong} wrong"
        for g in curve.layers
    ]
    common: dict[str, Any] = {"x": layers, "hovertext": about, "hoverinfo": "text"}
    upper = [
        go.Scatter(
            **common,
            y=[g.one_rival for g in curve.layers],
            mode="lines",
            name="asks, one rival",
            line={"color": colour("accepted", dark), "width": 2},
        ),
        go.Scatter(
            **common,
            y=[g.raw_thr for g in curve.layers],
            mode="markers",
            name="asks, median as met",
            marker={"color": colour("rejected", dark), "size": 11, "symbol": "diamond"},
        ),
    ]
    if curve.tau is not None and 0 <= curve.tau <= 1:
        upper.append(
            base.scatter(
                "lines",
                "τ",
                [layers[0], layers[-1]],
                [curve.tau] * 2,
                line={"color": colour("exit", dark), "dash": "dash", "width": 2},
            )
        )
    lower = go.Scatter(
        **common,
        y=[g.temp for g in curve.layers],
        mode="lines+markers",
        name="temperature",
        line={"color": colour("recovered", dark), "width": 2},
        marker={"size": 9, "symbol": ["circle" if g.tested else "circle-open" for g in curve.layers]},
    )
    out = base.stacked(upper, [lower], 0.64, 0.08, 330)
    out.update_xaxes(dtick=1 if len(layers) <= 16 else 4)
    out.update_xaxes(title="layer (● tested in this round)", row=2, col=1)
    out.update_yaxes(title="raw confidence", row=1, col=1)
    out.update_yaxes(title="T", row=2, col=1)
    return out


def gate_rows(curve: GateCurve | None) -> list[dict[str, Any]]:
    return base.table(
        "layer | tested | T | asks, one rival | asks, as met | tests | stops | wrong",
        [
            (g.layer, g.tested, g.temp, g.one_rival, g.raw_thr, g.n_tests, g.n_stops, g.n_wrong)
            for g in (curve.layers if curve is not None else ())
        ],
    )


def fig_sweeps(sweeps: Sweeps | None, dark: bool = False) -> go.Figure:
    """Wrong exits against layers saved, a line a knob: down is surer, right is cheaper. ◆ the run, ★ fewest calls."""
    if sweeps is None or sweeps.missing is not None or not sweeps.lines:
        return base.empty(sweeps.missing if sweeps is not None and sweeps.missing else "nothing to sweep here")
    return base.figure(
        [trace for line in sweeps.lines for trace in _sweep(line, dark)],
        330,
        {"title": "layer calls saved, at least", "tickformat": ".0%", "zeroline": True},
        {"title": "wrong exits", "tickformat": ".0%", "rangemode": "tozero"},
    )


def _sweep(line: SweepLine, dark: bool) -> list[go.Scatter]:
    mark, dash, symbol = _LINES.get(line.knob, ("exit", "dash", "circle"))
    points = [p for p in line.points if p.wrong_rate is not None]
    shared: dict[str, Any] = {"hoverinfo": "text", "cliponaxis": False}
    path = go.Scatter(
        x=[p.saved[0] for p in points],
        y=[p.wrong_rate for p in points],
        mode="lines+markers",
        **shared,
        name=f"{sentence(line.symbol)} moved",
        line={"color": colour(mark, dark), "dash": dash, "width": 1.5},
        marker={"symbol": symbol, "size": 8, "color": colour(mark, dark)},
        hovertext=[_sweep_hover(line, p) for p in points],
    )
    looks: tuple[tuple[str, str, list[SweepPoint], Mark], ...] = (
        ("◆ this run", "diamond", [p for p in points if p.own], "root"),
        ("★ fewest calls", "star", [p for p in points if p.best], mark),
    )
    marked = [
        go.Scatter(
            x=[p.saved[0] for p in found],
            y=[p.wrong_rate for p in found],
            mode="markers",
            name=name,
            **shared,
            showlegend=line.knob == "tau",
            hovertext=[_sweep_hover(line, p) for p in found],
            marker={"symbol": sign, "size": 15, "color": colour(look, dark), "line": base.EDGE},
        )
        for name, sign, found, look in looks
    ]
    return [path, *marked]


def _sweep_hover(line: SweepLine, p: SweepPoint) -> str:
    own = " (this run)" if p.own else ""
    return (
        f"<b>{sentence(line.symbol)} {number(p.value)}</b>{own}<br>{number(p.tokens_per_round)} tokens a round"
        f"<br>{number(p.calls[0])} to {number(p.calls[1])} layer calls a token"
        f"<br>wrong exits {percent(p.wrong_rate)} ({p.n_wrong})<br>exits {percent(p.exit_rate)}, mean layer "
        f"{number(p.mean_layer)}"
    )


def sweep_rows(sweeps: Sweeps | None) -> list[dict[str, Any]]:
    """The table twin of all lines."""
    return [
        {
            "knob": line.knob,
            "value": p.value,
            "this run": p.own,
            "fewest calls": p.best,
            "tokens per round": p.tokens_per_round,
            "calls per token, least": p.calls[0],
            "most": p.calls[1],
            "wrong exits": p.wrong_rate,
            "n wrong": p.n_wrong,
            "exit rate": p.exit_rate,
            "mean exit layer": p.mean_layer,
        }
        for line in (sweeps.lines if sweeps is not None else ())
        for p in line.points
    ]


def fig_times(points: tuple[TimePoint, ...], index: int, dark: bool = False) -> go.Figure:
    """Measured against predicted round time, a point a round; on the line the prediction was right."""
    if not points:
        return base.empty("no round of this run was predicted: the measured cost of a layer is not on record")
    most = max(max(p.predicted_ms, p.measured_ms) for p in points)
    line = base.scatter(
        "lines", "as predicted", [0, most], [0, most], line={"color": base.GREY, "dash": "dash", "width": 1.5}
    )
    here = [p.index == index for p in points]
    dots = base.scatter(
        "markers",
        "a round",
        [p.predicted_ms for p in points],
        [p.measured_ms for p in points],
        [f"round {p.round}: {p.n_rows} rows<br>{sentence(p.text)}" for p in points],
        customdata=[p.index for p in points],
        marker={
            "opacity": 1,
            "size": [14 if h else 9 for h in here],
            "symbol": ["diamond" if h else "circle" for h in here],
            "color": [colour("rejected" if h else "accepted", dark) for h in here],
        },
        **base.STEADY,
    )
    x, y = ({"title": f"{name}, ms", "rangemode": "tozero"} for name in ("predicted", "measured"))
    return base.figure([line, dots], 330, x, y)


def time_rows(points: tuple[TimePoint, ...]) -> list[dict[str, Any]]:
    return [
        {"round": p.round, "rows": p.n_rows, "predicted ms": p.predicted_ms, "measured ms": p.measured_ms}
        for p in points
    ]
