"""Figures about other exit settings on the recorded text: maps of two knobs, and the text under a setting."""

from typing import Any

import plotly.graph_objects as go

from specviz.numerals import number, percent
from specviz.runlog.run import Mark
from specviz.view.panels.exits.grid import ExitGrid
from specviz.view.panels.exits.what_if import ExitText, TextCell
from specviz.view.words.numbers import fine
from specviz.view.words.palette import colour, glyph
from specviz_app.figures import base
from specviz_app.figures.base import safe, sentence, short

_TICK = 8


def fig_grid(grid: ExitGrid, dark: bool = False) -> go.Figure:
    """Brighter is better. ★ the best cell, ◆ the run's own setting, □ where the sliders stand."""
    if grid.missing is not None:
        return base.empty(grid.missing)
    places = [(x, y) for y in grid.ys for x in grid.xs]
    heat = go.Heatmap(
        name="map",
        x=list(grid.xs),
        y=list(grid.ys),
        z=[list(row) for row in grid.values],
        colorscale=base.SCALE,
        reversescale=grid.measure.sign < 0,
        hoverinfo="skip",
        colorbar={"thickness": 10, "len": 0.9, "outlinewidth": 0, "tickformat": ".0%" if _share(grid) else None},
    )
    hovers = ["<br>".join(map(sentence, text.split("\n"))) for row in grid.hovers for text in row]
    cells = base.squares(places, [list(p) for p in places], hovers)
    traces: list[Any] = [heat, cells]
    looks: tuple[tuple[str, tuple[float, float] | None, str, Mark, int], ...] = (
        ("setting chosen", grid.picked, "square-open", "rejected", 17),
        ("this run", grid.own, "diamond", "accepted", 13),
        ("best", grid.best, "star", "rejected", 15),
    )
    traces += [_place(name, at, symbol, colour(mark, False), size) for name, at, symbol, mark, size in looks if at]
    axes = ((grid.x_label, grid.xs), (grid.y_label, grid.ys))
    x, y = ({**base.BARE, "title": sentence(label), "range": _range(values)} for label, values in axes)
    return base.figure(traces, 400, x, y, clickmode="event+select")


def _share(grid: ExitGrid) -> bool:
    return grid.measure.name == "wrong"


def _range(values: tuple[float, ...]) -> list[float]:
    step = (values[-1] - values[0]) / max(1, len(values) - 1)
    return [values[0] - step / 2, values[-1] + step / 2]


def _place(name: str, at: tuple[float, float], symbol: str, hex_colour: str, size: int) -> go.Scatter:
    line = {"width": 3, "color": hex_colour} if symbol.endswith("open") else base.EDGE
    return base.scatter(
        "markers",
        name,
        [at[0]],
        [at[1]],
        cliponaxis=False,
        **base.STEADY,
        marker={"symbol": symbol, "size": size, "color": hex_colour, "line": line},
    )


def grid_rows(grid: ExitGrid) -> list[dict[str, Any]]:
    """The table twin: a row for every value of y, a column for every value of x."""
    shown = percent if _share(grid) else number
    columns = [f"{grid.x} {number(x)}" for x in grid.xs]
    return [
        {grid.y: number(y), **dict(zip(columns, (shown(v) for v in row), strict=True))}
        for y, row in zip(grid.ys, grid.values, strict=True)
    ]


# The text under a setting -------------------------------------------------------------------------------------------


def fig_text(text: ExitText, dark: bool = False) -> go.Figure:
    """How sure every head is after every token, where this setting stops, where the run did, and the round borders."""
    if not text.tokens:
        return base.empty("there is no text here")
    xs = list(range(text.first, text.first + len(text.tokens)))
    heat = go.Heatmap(
        name="map",
        x=xs,
        y=list(text.layers),
        z=[list(row) for row in text.conf],
        zmin=0,
        zmax=1,
        hoverinfo="skip",
        colorscale=base.SCALE,
        colorbar={"thickness": 10, "len": 0.9, "outlinewidth": 0, "title": {"text": "sure"}},
    )
    places = [(k, layer) for layer in range(len(text.layers)) for k in range(len(xs))]
    cells = base.squares(
        [(xs[k], text.layers[row]) for k, row in places],
        [xs[k] for k, _ in places],
        [_cell_hover(text, k, row) for k, row in places],
        16,
    )
    traces: list[Any] = [heat, cells, _oracle(text, xs), *_stops(text, xs)]
    x = {
        **base.ticks([short(token, _TICK) for token in text.tokens], xs[0]),
        "tickangle": -90,
        "range": [xs[0] - 0.6, xs[-1] + 0.6],
    }
    y = {"title": "layer", "dtick": 1 if len(text.layers) <= 16 else 4, "range": [0.4, text.layers[-1] + 1.2]}
    return base.figure(traces, 150 + 22 * len(text.layers), base.BARE | x, base.BARE | y, shapes=_borders(text, xs))


def _cell_hover(text: ExitText, k: int, row: int) -> str:
    layer = text.layers[row]
    says = f"says {safe(text.top1[row][k])}: {'right' if text.right[row][k] else 'wrong'}"
    lines = [
        f"<b>after {safe(text.tokens[k])}, layer {layer}</b>",
        f"{says}, sure {fine(text.conf[row][k])}",
        f"the target chose {safe(text.chosen[k])}",
    ]
    oracle = text.oracle[k]
    return base.hover_lines(*lines, f"first right at layer {oracle}" if oracle else "no head is right at any layer")


def _oracle(text: ExitText, xs: list[int]) -> go.Scatter:
    top = text.layers[-1] + 0.8
    return base.scatter(
        "lines",
        "first right layer",
        xs,
        [top if layer is None else layer for layer in text.oracle],
        line={"shape": "hvh", "color": colour("exit", True), "width": 2.5, "dash": "dot"},
    )


def _stops(text: ExitText, xs: list[int]) -> list[go.Scatter]:
    run = [] if text.run is None else [_run_stops(xs, text.run)]
    looks: tuple[tuple[str, bool, str, Mark], ...] = (
        (f"{glyph('exit')} stops here, right", True, "triangle-right", "accepted"),
        (f"{glyph('rejected')} stops here, wrong", False, "x", "rejected"),
    )
    return run + [
        base.scatter(
            "markers",
            name,
            [x for x, c in zip(xs, text.here, strict=True) if c.right is right],
            [c.stop for c in text.here if c.right is right],
            marker={"symbol": symbol, "size": 12, "color": colour(mark, True), "line": base.DARK_EDGE},
        )
        for name, right, symbol, mark in looks
    ]


def _run_stops(xs: list[int], run: tuple[TextCell, ...]) -> go.Scatter:
    return base.scatter(
        "markers",
        "the run's own stops",
        [x for x, c in zip(xs, run, strict=True) if c.stop is not None],
        [c.stop for c in run if c.stop is not None],
        showlegend=False,
        marker={"symbol": "square-open", "size": 16, "color": "#FFFFFF", "line": {"width": 2}},
    )


def _borders(text: ExitText, xs: list[int]) -> list[dict[str, Any]]:
    """Rounds begin where a stroke stands: at the top this setting's, at the foot the run's."""
    top = text.layers[-1] + 0.5
    bands: list[tuple[tuple[TextCell, ...], float, float, str]] = [(text.here, top, top + 0.7, base.GREY)]
    if text.run is not None:
        bands.append((text.run, 0.4, 0.9, "#FFFFFF"))
    return [
        base.stroke(x - 0.5, low, x - 0.5, high, hex_colour)
        for cells, low, high, hex_colour in bands
        for x, cell in zip(xs, cells, strict=True)
        if cell.starts
    ]


def text_rows(text: ExitText) -> list[dict[str, Any]]:
    """The table twin: a row a token."""
    run = text.run or (None,) * len(text.tokens)
    return [
        {
            "position": text.first + k,
            "after": token,
            "the target chose": chosen,
            "stops at": here.stop,
            "right": here.right,
            "round begins": here.starts,
            "the run stopped at": was.stop if was else None,
            "first right layer": text.oracle[k],
        }
        for k, (token, chosen, here, was) in enumerate(zip(text.tokens, text.chosen, text.here, run, strict=True))
    ]
