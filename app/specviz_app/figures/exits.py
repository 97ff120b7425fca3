"""Figures about one round's climbs: layers x tokens, kinds of cells, the staircase, the ledger, one cell's history.

Figures about the exit tests over a whole run: what they ask, what other thresholds would have cost, the clock.
"""

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from specviz.runlog.run import Mark
from specviz.view.panels.exits.model import CellInfo, Column, GateCurve, HeatMap, Ledger, Stairs
from specviz.view.panels.exits.over_run import TimePoint
from specviz.view.panels.exits.sweeps import SweepLine, SweepPoint, Sweeps
from specviz.view.words.numbers import fine, number, percent
from specviz.view.words.palette import KINDS, CellKind, colour, glyph
from specviz_app.figures.base import empty, figure, safe, sentence, short
from specviz_app.figures.exit_grid import SCALE, squares

_TICK, _ROW = 8, 20  # cells of a token under the map; pixels of a layer
_QUIET: dict[str, Any] = {"fixedrange": True, "showgrid": False, "zeroline": False}
_DARK_EDGE = {"color": "#000000", "width": 1}
KIND_WORDS: dict[CellKind, str] = {"own": "own", "catch_up": "catch-up", "align": "align", "sweep": "sweep"}


def fig_heat(heat: HeatMap | None, dark: bool = False) -> go.Figure:
    """How sure the heads were, a column a row of the model; where rows stopped, and where they would have.

    Grey: no head was asked there. Strokes at the foot: rounds.
    """
    if heat is None or not heat.columns:
        return empty("no row has climbed yet")
    xs = list(range(len(heat.columns)))
    layers = list(range(1, heat.n_layers + 1))
    conf = go.Heatmap(
        name="sure", x=xs, y=layers, zmin=0, zmax=1,
        z=[[c.cells[layer - 1].conf for c in heat.columns] for layer in layers],
        colorscale=SCALE, hoverinfo="skip", xgap=1, ygap=1,
        colorbar={"thickness": 10, "len": 0.9, "outlinewidth": 0, "title": {"text": "sure"}},
    )  # fmt: skip
    places = [(x, layer) for layer in layers for x in xs]
    cells = squares(
        [x for x, _ in places], [layer for _, layer in places],
        [[heat.columns[x].index, heat.columns[x].row, heat.columns[x].node, layer] for x, layer in places],
        [_heat_hover(heat.columns[x], layer) for x, layer in places], 15,
    )  # fmt: skip
    traces: list[Any] = [conf, cells, *_oracle(heat), _asked(heat), *_exits(heat), _would(heat), *_cursor(heat, dark)]
    out = figure(traces, 150 + _ROW * heat.n_layers, shapes=_rounds(heat), clickmode="event+select")
    ticks = [short(c.shown, _TICK) for c in heat.columns]
    out.update_xaxes(tickvals=xs, ticktext=ticks, tickangle=-90, range=[-0.6, max(xs[-1], 11) + 0.6], **_QUIET)
    out.update_yaxes(
        title="layer (■ tested)", tickvals=_some(layers, heat.tested), range=[0.2, heat.n_layers + 0.6],
        ticktext=[f"{n} ■" if n in heat.tested else f"{n} {chr(0x2007)}" for n in _some(layers, heat.tested)], **_QUIET,
    )  # fmt: skip
    out.update_layout(plot_bgcolor="rgba(128,128,128,.18)")
    return out


def _some(layers: Sequence[int], tested: Sequence[int]) -> list[int]:
    """All layers of a small model; of a large one those tested and every fourth."""
    return [n for n in layers if len(layers) <= 16 or n in tested or n % 4 == 0]


def _heat_hover(column: Column, layer: int) -> str:
    cell = column.cells[layer - 1]
    lines = [f"<b>{safe(column.shown)}, layer {layer}</b> · round {column.round}, row {column.row}"]
    if cell.conf is not None:
        said = f"says {safe(cell.top1)}" if cell.top1 is not None else "sure"
        right = {True: ": right", False: ": wrong", None: ""}[cell.agrees]
        lines += [f"{said}{right}, {fine(cell.conf)} at its temperature, raw {fine(cell.raw)}"]
        lines += [{"test": "a test of the run", "observed": "only watched", "replayed": "asked in a sweep"}[cell.source]
                  if cell.source else ""]  # fmt: skip
    else:
        lines += ["no head was asked"]
    lines += [f"{KIND_WORDS[cell.kind]}: {KINDS[cell.kind].word}, {cell.width} rows in the call"] if cell.kind else []
    lines += ["stopped here"] if cell.took else []
    return "<br>".join(filter(None, lines))


def _oracle(heat: HeatMap) -> list[go.Scatter]:
    """The first layer whose head said what the target then chose, where that is known."""
    if all(c.first_right is None for c in heat.columns):
        return []
    return [go.Scatter(
        x=list(range(len(heat.columns))), y=[c.first_right for c in heat.columns], mode="lines",
        name="first right layer", hoverinfo="skip", connectgaps=False,
        line={"shape": "hvh", "color": colour("exit", True), "width": 2, "dash": "dot"},
    )]  # fmt: skip


def _asked(heat: HeatMap) -> go.Scatter:
    """Small dots on the cells whose head really decided: all else is hindsight."""
    at = [(k, cell.layer) for k, c in enumerate(heat.columns) for cell in c.cells if cell.source == "test"]
    return go.Scatter(
        x=[x for x, _ in at], y=[y for _, y in at], mode="markers", name="tested", hoverinfo="skip",
        marker={"symbol": "circle", "size": 4, "color": "#8C8C8C", "line": {"color": "#FFFFFF", "width": 0.5}},
    )  # fmt: skip


def _exits(heat: HeatMap) -> list[go.Scatter]:
    looks: tuple[tuple[str, tuple[bool | None, ...], str, Mark], ...] = (
        (f"{glyph('exit')} exit, right", (False,), "triangle-right", "accepted"),
        (f"{glyph('rejected')} exit, wrong", (True,), "x", "rejected"),
        ("exit, not judged", (None,), "triangle-right-open", "untested"),
    )
    out = []
    for name, wrong, symbol, mark in looks:
        at = [(k, c.exit_layer) for k, c in enumerate(heat.columns) if c.exit_layer is not None and c.wrong in wrong]
        if at:
            out.append(go.Scatter(
                x=[x for x, _ in at], y=[y for _, y in at], mode="markers", name=name, hoverinfo="skip",
                marker={"symbol": symbol, "size": 12, "color": colour(mark, True), "line": _DARK_EDGE},
            ))  # fmt: skip
    return out


def _would(heat: HeatMap) -> go.Scatter:
    at = [(k, layer) for k, layer in enumerate(heat.would) if layer and layer != heat.columns[k].exit_layer]
    return go.Scatter(
        x=[x for x, _ in at], y=[y for _, y in at], mode="markers", name="⇢ would exit", hoverinfo="skip",
        marker={"symbol": "triangle-right-open", "size": 12, "color": colour("exit", True), "line": {"width": 2}},
    )  # fmt: skip


def _cursor(heat: HeatMap, dark: bool) -> list[go.Scatter]:
    if heat.column is None:
        return []
    return [go.Scatter(
        x=[heat.column], y=[heat.layer], mode="markers", name="cursor", hoverinfo="skip", showlegend=False,
        marker={"symbol": "square-open", "size": 18, "color": colour("rejected", dark), "line": {"width": 3}},
    )]  # fmt: skip


def _rounds(heat: HeatMap) -> list[dict[str, Any]]:
    borders = [k for k, c in enumerate(heat.columns) if c.row == 0]
    return [
        {"type": "line", "x0": k - 0.5, "x1": k - 0.5, "y0": 0.2, "y1": 0.5, "line": {"color": "#8C8C8C", "width": 2}}
        for k in borders
    ]


def heat_rows(heat: HeatMap | None) -> list[dict[str, Any]]:
    """The table twin: a line a row of the model, a column a layer."""
    return [
        {"round": c.round, "row": c.row, "token": c.shown, "exit": c.exit_layer, "would exit": would or None,
         "wrong": c.wrong, "first right": c.first_right, "regret": c.regret, "status": c.status,
         **{f"L{cell.layer}": cell.conf for cell in c.cells}}
        for c, would in (zip(heat.columns, heat.would, strict=True) if heat is not None else ())
    ]  # fmt: skip


# Kinds of cells, and the staircase ----------------------------------------------------------------------------------


def fig_kinds(columns: Sequence[Column], n_layers: int, dark: bool = False) -> go.Figure:
    """Who computed what: every cell of the round once, by the call it was computed in."""
    cells = [(k, c, cell) for k, c in enumerate(columns) for cell in c.cells if cell.kind is not None]
    if not cells:
        return empty("no row of this round has climbed yet")
    traces = []
    for kind, look in KINDS.items():
        mine = [(k, c, cell) for k, c, cell in cells if cell.kind == kind]
        traces.append(go.Scatter(
            x=[k for k, _, _ in mine], y=[cell.layer for _, _, cell in mine], mode="markers+text",
            name=f"{KIND_WORDS[kind]}", text=[look.ascii] * len(mine), textfont={"size": 10, "color": "#FFFFFF"},
            marker={"symbol": "square", "size": 18, "color": look.light}, hoverinfo="text",
            hovertext=[f"{safe(c.shown)}, layer {cell.layer}<br>{KIND_WORDS[kind]}: {look.word}"
                       f"<br>{cell.width} rows in the call" for _, c, cell in mine],
        ))  # fmt: skip
    out = figure(traces, 130 + 22 * n_layers)
    _tokens(out, columns)
    out.update_yaxes(title="layer", dtick=1 if n_layers <= 16 else 4, range=[0.3, n_layers + 0.7], **_QUIET)
    return out


def _tokens(out: go.Figure, columns: Sequence[Any]) -> None:
    ticks = [short(c.shown, _TICK) for c in columns]
    room = max(len(ticks) - 1, 5)
    out.update_xaxes(tickvals=list(range(len(ticks))), ticktext=ticks, range=[-0.6, room + 0.6], **_QUIET)


def kind_rows(columns: Sequence[Column]) -> list[dict[str, Any]]:
    """The table twin: a line a row, a column a layer: the kind, and the rows in that call."""
    return [
        {"row": c.row, "token": c.shown,
         **{f"L{cell.layer}": f"{KIND_WORDS[cell.kind]} × {cell.width}" if cell.kind else "" for cell in c.cells}}
        for c in columns
    ]  # fmt: skip


def fig_stairs(stairs: Stairs | None, dark: bool = False) -> go.Figure:
    """How many layers every row had passed after each climb: the stairs that the last climb levels."""
    if stairs is None:
        return empty("no row of this round has climbed yet")
    last = len(stairs.steps) - 1
    traces = []
    for k, step in enumerate(stairs.steps):
        final = k == last and step.depths[-1] == stairs.n_layers
        hex_colour = colour("bonus" if final else "accepted", dark)
        traces.append(go.Scatter(
            x=[row for row, _ in enumerate(step.depths)], y=list(step.depths), mode="lines+markers",
            name=f"row {step.row} {sentence(step.text)}", hoverinfo="text", showlegend=False,
            opacity=1 if k >= last - 1 else 0.35 + 0.4 * k / max(1, last),
            line={"shape": "hvh", "width": 2 + final, "color": hex_colour, "dash": "dash" if final else "solid"},
            marker={"size": 9, "symbol": "square", "color": hex_colour},
            hovertext=[f"after row {step.row} ({safe(step.shown)}) {sentence(step.text)}:<br>row {row} has passed "
                       f"{depth} layers" for row, depth in enumerate(step.depths)],
        ))  # fmt: skip
    out = figure(traces, 130 + 12 * stairs.n_layers)
    _tokens(out, stairs.steps)
    out.update_yaxes(title="layers passed", range=[0, stairs.n_layers + 0.7], **_QUIET)
    return out


def stair_rows(stairs: Stairs | None) -> list[dict[str, Any]]:
    """The table twin: a line a climb."""
    return [
        {"climb of row": s.row, "token": s.shown, "": s.text, "took along": ", ".join(map(str, s.took_along)),
         "rows in its calls": ", ".join(map(str, s.widths)), "layers passed, by row": ", ".join(map(str, s.depths))}
        for s in (stairs.steps if stairs is not None else ())
    ]  # fmt: skip


# The ledger, and one cell -------------------------------------------------------------------------------------------


def fig_ledger(ledger: Ledger | None, dark: bool = False) -> go.Figure:
    """Layer calls: paid below the line, earned above it, the difference as a diamond."""
    if ledger is None or ledger.missing is not None:
        return empty(ledger.missing if ledger is not None and ledger.missing else "no row has climbed yet")
    entries = ledger.entries
    xs = list(range(len(entries)))
    about = [
        f"{safe(e.shown)}: {sentence(e.what)}<br>paid {e.paid}, earned {e.earned}, net {e.net_text}" for e in entries
    ]
    common: dict[str, Any] = {"x": xs, "hovertext": about, "hoverinfo": "text"}
    bars: tuple[tuple[str, list[int], Mark, str], ...] = (
        ("earned", [e.earned for e in entries], "accepted", ""),
        ("paid", [-e.paid for e in entries], "rejected", "/"),
    )
    traces: list[Any] = [
        go.Bar(**common, y=values, name=name, marker={
            "color": colour(mark, dark), "pattern": {"shape": hatch, "fgopacity": 0.4, "fillmode": "overlay"}})
        for name, values, mark, hatch in bars
    ]  # fmt: skip
    traces.append(go.Scatter(
        **common, y=[e.net for e in entries], mode="markers", name="net",
        marker={"symbol": "diamond", "size": 12, "color": colour("root", dark),
                "line": {"color": "#FFFFFF", "width": 1.5}},
    ))  # fmt: skip
    traces.append(go.Scatter(
        x=xs, y=[max(e.earned, 0) for e in entries], mode="text", name="net", text=[e.net_text for e in entries],
        textposition="top center", showlegend=False, hoverinfo="skip", cliponaxis=False,
    ))  # fmt: skip
    out = figure(traces, 280, barmode="relative", bargap=0.45)
    ticks = [f"{e.glyph} {short(e.shown, _TICK)}" for e in entries]
    out.update_xaxes(tickvals=xs, ticktext=ticks, range=[-0.6, max(len(xs) - 1, 5) + 0.6], **_QUIET)
    out.update_yaxes(title="layer calls", fixedrange=True)
    return out


def ledger_rows(ledger: Ledger | None) -> list[dict[str, Any]]:
    """The table twin."""
    return [{"row": e.row, "token": e.shown, "": e.what, "paid": e.paid, "earned": e.earned, "net": e.net}
            for e in (ledger.entries if ledger is not None else ())]  # fmt: skip


def fig_cell(cell: CellInfo | None, tau: float | None = None, dark: bool = False) -> go.Figure:
    """What every head said of one row on its way up: how sure, of which token, and whether that was right."""
    if cell is None or not cell.trajectory:
        return empty("no head was asked about this row")
    layers = [layer for layer, *_ in cell.trajectory]
    marks: list[Mark] = [
        "untested" if agrees is None else "accepted" if agrees else "rejected" for *_, agrees in cell.trajectory
    ]
    symbols = {"accepted": "circle", "rejected": "x", "untested": "circle-open"}
    line = go.Scatter(
        x=layers, y=[conf for _, conf, _, _ in cell.trajectory], mode="lines+markers+text", name="sure",
        line={"color": "#8C8C8C", "width": 1.5}, text=_changes([said for _, _, said, _ in cell.trajectory]),
        textposition="top center", cliponaxis=False, hoverinfo="text",
        marker={"size": 11, "symbol": [symbols[m] for m in marks], "color": [colour(m, dark) for m in marks]},
        hovertext=[f"layer {layer} says {safe(said)}, {fine(conf)}" for layer, conf, said, _ in cell.trajectory],
    )  # fmt: skip
    shapes = [] if tau is None or not 0 < tau < 1 else [
        {"type": "line", "x0": 0, "x1": 1, "xref": "paper", "y0": tau, "y1": tau,
         "line": {"color": colour("exit", dark), "width": 2, "dash": "dash"}}]  # fmt: skip
    out = figure([line], 260, shapes=shapes, showlegend=False)
    out.update_xaxes(title="layer (○ not judged, ● right, ✗ wrong; dashed τ)", dtick=1, range=[0.5, layers[-1] + 0.7],
                     fixedrange=True, showgrid=False)  # fmt: skip
    out.update_yaxes(range=[0, 1.12], tickvals=[0, 0.5, 1], fixedrange=True)
    return out


def _changes(said: Sequence[str]) -> list[str]:
    """A label where a head says something else than the one below it."""
    return [short(token, 7) if k == 0 or token != said[k - 1] else "" for k, token in enumerate(said)]


def cell_rows(cell: CellInfo | None) -> list[dict[str, Any]]:
    """The table twin."""
    return [{"layer": layer, "says": said, "sure": conf, "right": agrees}
            for layer, conf, said, agrees in (cell.trajectory if cell is not None else ())]  # fmt: skip


_EDGE = {"color": "#FFFFFF", "width": 1.5}
_LINES: dict[str, tuple[Mark, str, str]] = {
    "tau": ("accepted", "solid", "circle"),
    "alpha": ("recovered", "dot", "square"),
}


def fig_gates(curve: GateCurve | None, dark: bool = False) -> go.Figure:
    """Below, the temperature of every layer's test; above, the raw confidence it asks, against one rival and as met."""
    if curve is None or not curve.layers:
        return empty("the trace does not say how many layers the target has")
    layers = [g.layer for g in curve.layers]
    about = [
        f"layer {g.layer}{' (tested)' if g.tested else ''}: T {number(g.temp)}<br>asks {fine(g.one_rival)} against one "
        f"rival, {fine(g.raw_thr)} as met<br>{g.n_tests} tests, {g.n_stops} stops, {g.n_wrong} wrong"
        for g in curve.layers
    ]
    out = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.64, 0.36], vertical_spacing=0.08)
    common: dict[str, Any] = {"x": layers, "hovertext": about, "hoverinfo": "text"}
    out.add_trace(go.Scatter(
        **common, y=[g.one_rival for g in curve.layers], mode="lines", name="asks, one rival",
        line={"color": colour("accepted", dark), "width": 2},
    ), 1, 1)  # fmt: skip
    out.add_trace(go.Scatter(
        **common, y=[g.raw_thr for g in curve.layers], mode="markers", name="asks, median as met",
        marker={"color": colour("rejected", dark), "size": 11, "symbol": "diamond"},
    ), 1, 1)  # fmt: skip
    if curve.tau is not None and 0 <= curve.tau <= 1:
        out.add_trace(go.Scatter(
            x=[layers[0], layers[-1]], y=[curve.tau] * 2, mode="lines", name="τ", hoverinfo="skip",
            line={"color": colour("exit", dark), "dash": "dash", "width": 2},
        ), 1, 1)  # fmt: skip
    out.add_trace(go.Scatter(
        **common, y=[g.temp for g in curve.layers], mode="lines+markers", name="temperature",
        line={"color": colour("recovered", dark), "width": 2},
        marker={"size": 9, "symbol": ["circle" if g.tested else "circle-open" for g in curve.layers]},
    ), 2, 1)  # fmt: skip
    base = figure([], 330).layout
    out.update_layout(base)
    out.update_xaxes(fixedrange=True, dtick=1 if len(layers) <= 16 else 4)
    out.update_xaxes(title="layer (● tested in this round)", row=2, col=1)
    out.update_yaxes(fixedrange=True)
    out.update_yaxes(title="raw confidence", row=1, col=1)
    out.update_yaxes(title="T", row=2, col=1)
    return out


def gate_rows(curve: GateCurve | None) -> list[dict[str, Any]]:
    """The table twin."""
    return [
        {"layer": g.layer, "tested": g.tested, "T": g.temp, "asks, one rival": g.one_rival, "asks, as met": g.raw_thr,
         "tests": g.n_tests, "stops": g.n_stops, "wrong": g.n_wrong}
        for g in (curve.layers if curve is not None else ())
    ]  # fmt: skip


def fig_sweeps(sweeps: Sweeps | None, dark: bool = False) -> go.Figure:
    """Wrong exits against layers saved, a line a knob: down is surer, right is cheaper. ◆ the run, ★ fewest calls."""
    if sweeps is None or sweeps.missing is not None or not sweeps.lines:
        return empty(sweeps.missing if sweeps is not None and sweeps.missing else "nothing to sweep here")
    traces: list[Any] = []
    for line in sweeps.lines:
        traces += _sweep(line, dark)
    out = figure(traces, 330)
    out.update_xaxes(title="layer calls saved, at least", tickformat=".0%", fixedrange=True, zeroline=True)
    out.update_yaxes(title="wrong exits", tickformat=".0%", fixedrange=True, rangemode="tozero")
    return out


def _sweep(line: SweepLine, dark: bool) -> list[go.Scatter]:
    mark, dash, symbol = _LINES.get(line.knob, ("exit", "dash", "circle"))
    points = [p for p in line.points if p.wrong_rate is not None]
    shared: dict[str, Any] = {"hoverinfo": "text", "cliponaxis": False}
    path = go.Scatter(
        x=[p.saved[0] for p in points], y=[p.wrong_rate for p in points], mode="lines+markers", **shared,
        name=f"{sentence(line.symbol)} moved", line={"color": colour(mark, dark), "dash": dash, "width": 1.5},
        marker={"symbol": symbol, "size": 8, "color": colour(mark, dark)},
        hovertext=[_sweep_hover(line, p) for p in points],
    )  # fmt: skip
    marked = []
    looks: tuple[tuple[str, str, list[SweepPoint], Mark], ...] = (
        ("◆ this run", "diamond", [p for p in points if p.own], "root"),
        ("★ fewest calls", "star", [p for p in points if p.best], mark),
    )
    for name, sign, found, look in looks:
        marked.append(go.Scatter(
            x=[p.saved[0] for p in found], y=[p.wrong_rate for p in found], mode="markers", name=name, **shared,
            showlegend=line.knob == "tau", hovertext=[_sweep_hover(line, p) for p in found],
            marker={"symbol": sign, "size": 15, "color": colour(look, dark), "line": _EDGE},
        ))  # fmt: skip
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
        {"knob": line.knob, "value": p.value, "this run": p.own, "fewest calls": p.best,
         "tokens per round": p.tokens_per_round, "calls per token, least": p.calls[0], "most": p.calls[1],
         "wrong exits": p.wrong_rate, "n wrong": p.n_wrong, "exit rate": p.exit_rate, "mean exit layer": p.mean_layer}
        for line in (sweeps.lines if sweeps is not None else ()) for p in line.points
    ]  # fmt: skip


def fig_times(points: tuple[TimePoint, ...], index: int, dark: bool = False) -> go.Figure:
    """Measured against predicted round time, a point a round; on the line the prediction was right."""
    if not points:
        return empty("no round of this run was predicted: the measured cost of a layer is not on record")
    most = max(max(p.predicted_ms, p.measured_ms) for p in points)
    line = go.Scatter(
        x=[0, most], y=[0, most], mode="lines", name="as predicted", hoverinfo="skip",
        line={"color": "#8C8C8C", "dash": "dash", "width": 1.5},
    )  # fmt: skip
    here = [p.index == index for p in points]
    dots = go.Scatter(
        x=[p.predicted_ms for p in points], y=[p.measured_ms for p in points], mode="markers", name="a round",
        customdata=[p.index for p in points], hoverinfo="text",
        hovertext=[f"round {p.round}: {p.n_rows} rows<br>{sentence(p.text)}" for p in points],
        marker={"opacity": 1, "size": [14 if h else 9 for h in here],
                "symbol": ["diamond" if h else "circle" for h in here],
                "color": [colour("rejected" if h else "accepted", dark) for h in here]},
        selected={"marker": {"opacity": 1}}, unselected={"marker": {"opacity": 1}},
    )  # fmt: skip
    out = figure([line, dots], 330)
    out.update_xaxes(title="predicted, ms", rangemode="tozero", fixedrange=True)
    out.update_yaxes(title="measured, ms", rangemode="tozero", fixedrange=True)
    return out


def time_rows(points: tuple[TimePoint, ...]) -> list[dict[str, Any]]:
    """The table twin."""
    return [{"round": p.round, "rows": p.n_rows, "predicted ms": p.predicted_ms, "measured ms": p.measured_ms}
            for p in points]  # fmt: skip
