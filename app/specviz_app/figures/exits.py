"""Figures about one round's climbs: layers x tokens, kinds of cells, the staircase."""

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from specviz.runlog.run import Mark
from specviz.view.panels.exits.model import Column, HeatMap, PendingStairs, StairStep
from specviz.view.words.numbers import fine
from specviz.view.words.palette import KINDS, CellKind, colour, glyph
from specviz_app.figures import base
from specviz_app.figures.base import safe, sentence, short

_TICK, _ROW = 8, 20  # cells of a token under the map; pixels of a layer
KIND_WORDS: dict[CellKind, str] = {"own": "own", "catch_up": "catch-up", "align": "align", "sweep": "sweep"}


def fig_heat(heat: HeatMap | None, dark: bool = False) -> go.Figure:
    """How sure the heads were, a column a row of the model; where rows stopped, and where they would have.

    Grey: no head was asked there. Strokes at the foot: rounds.
    """
    if heat is None or not heat.columns:
        return base.empty("no row has climbed yet")
    xs = list(range(len(heat.columns)))
    layers = list(range(1, heat.n_layers + 1))
    conf = go.Heatmap(
        name="sure",
        x=xs,
        y=layers,
        zmin=0,
        zmax=1,
        z=[[c.cells[layer - 1].conf for c in heat.columns] for layer in layers],
        colorscale=base.SCALE,
        hoverinfo="skip",
        xgap=1,
        ygap=1,
        colorbar={"thickness": 10, "len": 0.9, "outlinewidth": 0, "title": {"text": "sure"}},
    )
    places = [(x, layer) for layer in layers for x in xs]
    cells = base.squares(
        places,
        [[heat.columns[x].index, heat.columns[x].row, heat.columns[x].node, layer] for x, layer in places],
        [_heat_hover(heat.columns[x], layer) for x, layer in places],
        15,
    )
    traces: list[Any] = [conf, cells, *_oracle(heat), _asked(heat), *_exits(heat), _would(heat), *_cursor(heat, dark)]
    shown = [n for n in layers if len(layers) <= 16 or n in heat.tested or n % 4 == 0]
    x = {
        **base.ticks([short(c.shown, _TICK) for c in heat.columns]),
        "tickangle": -90,
        "range": [-0.6, max(xs[-1], 3) + 0.6],
    }
    y = {
        "title": "layer (■ tested)",
        "tickvals": shown,
        "range": [0.2, heat.n_layers + 0.6],
        "ticktext": [f"{n} ■" if n in heat.tested else f"{n} {chr(0x2007)}" for n in shown],
    }
    borders = [base.stroke(k - 0.5, 0.2, k - 0.5, 0.5, base.GREY) for k, c in enumerate(heat.columns) if c.row == 0]
    more = {"shapes": borders, "clickmode": "event+select", "plot_bgcolor": "rgba(128,128,128,.18)"}
    return base.figure(traces, 150 + _ROW * heat.n_layers, base.BARE | x, base.BARE | y, **more)


def _heat_hover(column: Column, layer: int) -> str:
    cell = column.cells[layer - 1]
    lines = [f"<b>{safe(column.shown)}, layer {layer}</b> · round {column.round}, row {column.row}"]
    if cell.conf is not None:
        top_words = f"says {safe(cell.top1)}" if cell.top1 is not None else "sure"
        right = {True: ": right", False: ": wrong", None: ""}[cell.agrees]
        lines += [f"{top_words}{right}, {fine(cell.conf)} at its temperature"]
        lines += [
            {"test": "a test of the run", "observed": "only watched", "replayed": "asked in a sweep"}[cell.source]
            if cell.source
            else ""
        ]
    else:
        lines += ["no head was asked"]
    lines += [f"{KIND_WORDS[cell.kind]}: {KINDS[cell.kind].word}, {cell.width} rows in the call"] if cell.kind else []
    lines += ["stopped here"] if cell.took else []
    return base.hover_lines(*lines)


def _oracle(heat: HeatMap) -> list[go.Scatter]:
    """The first layer whose head said what the target then chose, where that is known."""
    if all(c.first_right is None for c in heat.columns):
        return []
    return [
        base.scatter(
            "lines",
            "first right layer",
            list(range(len(heat.columns))),
            [c.first_right for c in heat.columns],
            connectgaps=False,
            line={"shape": "hvh", "color": colour("exit", True), "width": 2, "dash": "dot"},
        )
    ]


def _asked(heat: HeatMap) -> go.Scatter:
    """Small dots on the cells whose head really decided: all else is hindsight."""
    at = [(k, cell.layer) for k, c in enumerate(heat.columns) for cell in c.cells if cell.source == "test"]
    line = {"color": "#FFFFFF", "width": 0.5}
    return _signs(at, "tested", {"symbol": "circle", "size": 4, "color": base.GREY, "line": line})


def _signs(at: Sequence[tuple[int, int]], name: str, marker: dict[str, Any], **more: Any) -> go.Scatter:
    return go.Scatter(**base.spots(at), mode="markers", name=name, hoverinfo="skip", marker=marker, **more)


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
            look = {"symbol": symbol, "size": 12, "color": colour(mark, True), "line": base.DARK_EDGE}
            out.append(_signs(at, name, look))
    return out


def _would(heat: HeatMap) -> go.Scatter:
    at = [(k, layer) for k, layer in enumerate(heat.would) if layer and layer != heat.columns[k].exit_layer]
    look = {"symbol": "triangle-right-open", "size": 12, "color": colour("exit", True), "line": {"width": 2}}
    return _signs(at, "⇢ would exit", look)


def _cursor(heat: HeatMap, dark: bool) -> list[go.Scatter]:
    if heat.column is None:
        return []
    look = {"symbol": "square-open", "size": 18, "color": colour("rejected", dark), "line": {"width": 3}}
    return [_signs([(heat.column, heat.layer)], "cursor", look, showlegend=False)]


def heat_rows(heat: HeatMap | None) -> list[dict[str, Any]]:
    """The table twin: a line a row of the model, a column a layer."""
    return [
        {
            "round": c.round,
            "row": c.row,
            "token": c.shown,
            "exit": c.exit_layer,
            "would exit": would or None,
            "wrong": c.wrong,
            "first right": c.first_right,
            "for good from": c.settled,
            "regret": c.regret,
            "status": c.status,
            **{f"L{cell.layer}": cell.conf for cell in c.cells},
        }
        for c, would in (zip(heat.columns, heat.would, strict=True) if heat is not None else ())
    ]


# Kinds of cells, and the staircase ----------------------------------------------------------------------------------


def fig_kinds(columns: Sequence[Column], n_layers: int, dark: bool = False) -> go.Figure:
    """Who computed what: every cell of the round once, by the call it was computed in."""
    cells = [(k, c, cell) for k, c in enumerate(columns) for cell in c.cells if cell.kind is not None]
    if not cells:
        return base.empty("no row of this round has climbed yet")
    traces = []
    for kind, look in KINDS.items():
        mine = [(k, c, cell) for k, c, cell in cells if cell.kind == kind]
        traces.append(
            base.scatter(
                "markers+text",
                f"{KIND_WORDS[kind]}",
                [k for k, _, _ in mine],
                [cell.layer for _, _, cell in mine],
                [
                    f"{safe(c.shown)}, layer {cell.layer}<br>{KIND_WORDS[kind]}: {look.word}"
                    f"<br>{cell.width} rows in the call"
                    for _, c, cell in mine
                ],
                text=[look.ascii] * len(mine),
                textfont={"size": 10, "color": "#FFFFFF"},
                marker={"symbol": "square", "size": 18, "color": look.light},
            )
        )
    y = {"title": "layer", "dtick": 1 if n_layers <= 16 else 4, "range": [0.3, n_layers + 0.7]}
    return base.figure(traces, 130 + 22 * n_layers, _tokens(columns), base.BARE | y)


def _tokens(columns: Sequence[Column | StairStep]) -> dict[str, Any]:
    room = max(len(columns) - 1, 5)
    return {**base.BARE, **base.ticks([short(c.shown, _TICK) for c in columns]), "range": [-0.6, room + 0.6]}


def kind_rows(columns: Sequence[Column]) -> list[dict[str, Any]]:
    """The table twin: a line a row, a column a layer: the kind, and the rows in that call."""
    return [
        {
            "row": c.row,
            "token": c.shown,
            **{f"L{cell.layer}": f"{KIND_WORDS[cell.kind]} × {cell.width}" if cell.kind else "" for cell in c.cells},
        }
        for c in columns
    ]


def fig_stairs(stairs: PendingStairs | None, dark: bool = False) -> go.Figure:
    """How many layers every row had passed after each climb: the stairs that the last climb levels."""
    if stairs is None:
        return base.empty("no row of this round has climbed yet")
    last = len(stairs.steps) - 1
    traces = []
    for k, step in enumerate(stairs.steps):
        final = k == last and step.depths[-1] == stairs.n_layers
        hex_colour = colour("bonus" if final else "accepted", dark)
        traces.append(
            base.scatter(
                "lines+markers",
                f"row {step.row} {sentence(step.text)}",
                [row for row, _ in enumerate(step.depths)],
                list(step.depths),
                [
                    f"after row {step.row} ({safe(step.shown)}) {sentence(step.text)}:<br>row {row} has passed "
                    f"{depth} layers"
                    for row, depth in enumerate(step.depths)
                ],
                showlegend=False,
                opacity=1 if k >= last - 1 else 0.35 + 0.4 * k / max(1, last),
                line={"shape": "hvh", "width": 2 + final, "color": hex_colour, "dash": "dash" if final else "solid"},
                marker={"size": 9, "symbol": "square", "color": hex_colour},
            )
        )
    y = {"title": "layers passed", "range": [0, stairs.n_layers + 0.7]}
    return base.figure(traces, 130 + 12 * stairs.n_layers, _tokens(stairs.steps), base.BARE | y)
