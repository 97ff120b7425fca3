"""Blocks of the view as figures: each kind but bars (`bars.py`) is drawn here, once, whatever panel it stands in."""

from typing import Any

import plotly.graph_objects as go

from specviz.numerals import UNKNOWN
from specviz.view.blocks import Heat, Look, Plot, PlotCurve, TableBlock, interval, value_text
from specviz.view.words.palette import colour
from specviz_app.figures import base
from specviz_app.figures.base import sentence

_HEIGHT = 270  # pixels of a figure
_MANY = 16  # places of an axis each of which has its number
_MODES: dict[Look, str] = {"line": "lines+markers", "step": "lines+markers", "dots": "markers"}
_DASHES, _SYMBOLS = ("solid", "dot", "dash"), ("circle", "diamond", "square")
_AXES: dict[str, dict[str, Any]] = {
    "share": {"range": [0, 1.04], "tickformat": ".1f"},
    "percent": {"range": [0, 1.04], "tickformat": ".0%"},
    "ms": {"title": "ms", "rangemode": "tozero"},
    "seconds": {"title": "s", "rangemode": "tozero"},
}
_BACKGROUND = "untested"  # the mark of what is drawn faint


def fig_plot(chart: Plot, dark: bool = False) -> go.Figure:
    """Lines and points over the same places, with their intervals; signs where something stands out."""
    if chart.missing:
        return base.empty(chart.missing)
    traces = [trace for k, curve in enumerate(chart.curves) for trace in _curve(chart, curve, k, dark)]
    traces += [_sign(chart, *sign, dark) for sign in chart.signs]
    names = [sentence(str(x)) for x in chart.xs]
    numbered = all(isinstance(x, int | float) for x in chart.xs)
    places: dict[str, Any] = {"title": sentence(chart.axis)} if chart.axis else {}
    places |= {"dtick": 1 if len(names) <= _MANY else None} if numbered else {"type": "category"}
    values = _AXES.get(chart.unit, {"rangemode": "tozero"})
    told_apart = len(chart.curves) > 1 or bool(chart.signs)
    more: dict[str, Any] = {"showlegend": len(traces) > 1 and told_apart, "legend": {"traceorder": "normal"}}
    more |= {"clickmode": "event+select"} if chart.places else {}
    return base.figure(traces, _HEIGHT, places, values, **more)


def _curve(chart: Plot, curve: PlotCurve, number: int, dark: bool) -> list[Any]:
    xs = [sentence(x) if isinstance(x, str) else x for x in chart.xs]
    colours = [colour(mark, dark) for mark in curve.marks] or colour(curve.mark, dark)
    shared: dict[str, Any] = {
        "name": sentence(curve.name),
        "hovertext": [_hover(chart, curve, at) for at in range(len(xs))],
        "hoverinfo": "text",
        "customdata": [None if place is None else [place.index, place.node] for place in chart.places] or None,
    }
    line = go.Scatter(x=xs, y=list(curve.ys), **shared, **_pencil(chart, curve, number, colours, dark))
    return [*_band(curve, xs, dark), line]


def _hover(chart: Plot, curve: PlotCurve, at: int) -> str:
    n = f"n {curve.ns[at]:,}" if curve.ns else ""
    head = f"{chart.axis} {chart.xs[at]}" if chart.axis else str(chart.xs[at])
    name = f"{curve.name}: " if curve.name else ""
    note = chart.notes[at] if chart.notes else ""
    return base.hover_lines(sentence(head), sentence(f"{name}{value_text(chart, curve, at)}"), n, sentence(note))


def _pencil(chart: Plot, curve: PlotCurve, number: int, colours: Any, dark: bool) -> dict[str, Any]:
    here = [at == chart.cursor for at in range(len(chart.xs))]
    own = colour(curve.mark, dark)
    line = {"color": own, "width": 2, "dash": _DASHES[number % len(_DASHES)]}
    return {
        "mode": _MODES[curve.look],
        "line": {**line, "shape": "hv"} if curve.look == "step" else line,
        "cliponaxis": False,
        "marker": {
            "symbol": _SYMBOLS[number % len(_SYMBOLS)],
            "color": colours,
            "size": [15 if at else 8 for at in here],
            "opacity": 1,
            "line": {"width": [3 if at else 0 for at in here], "color": colour("testing", dark)},
        },
        **base.STEADY,
    }


def _band(curve: PlotCurve, xs: list[Any], dark: bool) -> list[go.Scatter]:
    """The 95 % intervals of a line, as a shade around it."""
    known = [(x, *interval(curve, at)) for at, x in enumerate(xs) if interval(curve, at)[0] is not None]
    if not known:
        return []
    ends = [(x, high) for x, _, high in known] + [(x, low) for x, low, _ in reversed(known)]
    shade: dict[str, Any] = {"fill": "toself", "fillcolor": colour(curve.mark, dark), "opacity": 0.18}
    return [base.scatter("lines", "95 %", **base.spots(ends), line={"width": 0}, showlegend=False, **shade)]


def _sign(chart: Plot, at: int, word: str, mark: Any, dark: bool) -> go.Scatter:
    """A star on the first curve where something stands out."""
    first = chart.curves[0]
    return base.scatter(
        "markers",
        sentence(word),
        [chart.xs[at]],
        [first.ys[at]],
        [_hover(chart, first, at)],
        marker={"symbol": "star", "size": 15, "color": colour(mark, dark), "line": base.EDGE},
    )


def fig_heat(heat: Heat, dark: bool = False) -> go.Figure:
    """Squares shaded by how full they are, a text in each; what is said of a row stands on its right."""
    if heat.missing:
        return base.empty(heat.missing)
    rows, columns = range(len(heat.rows)), range(len(heat.columns))
    places = [(row, column) for row in rows for column in columns]
    squares = [heat.squares[row][column] for row, column in places]
    shade = go.Heatmap(
        x=list(columns),
        y=list(rows),
        z=[[square.share for square in line] for line in heat.squares],
        zmin=0,
        zmax=1,
        colorscale=base.SCALE,
        showscale=False,
        hoverinfo="skip",
        xgap=3,
        ygap=3,
        name=heat.key,
    )
    words = base.scatter(
        "text",
        "counts",
        [column for _, column in places],
        [row for row, _ in places],
        text=[f"<b>{sentence(square.text)}</b> {sentence(square.sign)}".rstrip() for square in squares],
        textfont={"size": 15, "color": [_ink(square.share) for square in squares]},
    )
    clicks = base.squares(
        [(column, row) for row, column in places],
        [list(place) for place in places],
        [sentence(square.note).replace("\n", "<br>") for square in squares],
        48,
    )
    tops = [
        "<br>".join([sentence(name), *(sentence(f"{foot[0]} {foot[k + 1]}") for foot in heat.foot)])
        for k, name in enumerate(heat.columns)
    ]
    right = [
        {
            "x": 1.01,
            "y": row,
            "xref": "paper",
            "text": "<br>".join(sentence(f"{text} {head}") for head, text in zip(heat.heads, texts, strict=True)),
            "showarrow": False,
            "xanchor": "left",
            "font": {"size": 12},
            "align": "left",
        }
        for row, texts in enumerate(heat.right)
    ]
    x = {**base.ticks(tops), "side": "top", "range": [-0.55, len(columns) - 0.45]}
    y = {**base.ticks([sentence(name) for name in heat.rows]), "range": [len(rows) - 0.4, -0.6]}
    traces = [shade, words, *_chosen(heat, dark), clicks]
    more = {"showlegend": False, "margin": {**base.MARGIN, "r": 90}, "annotations": right, "clickmode": "event+select"}
    return base.figure(traces, 70 + 65 * len(rows), base.BARE | x, base.BARE | y, **more)


def _ink(share: float | None) -> str:
    """On the shade of that share; on the page's own ground where a row is empty."""
    return base.GREY if share is None else "#10141A" if share > 0.5 else "#FFFFFF"


def _chosen(heat: Heat, dark: bool) -> list[go.Scatter]:
    if heat.cursor is None:
        return []
    row, column = heat.cursor
    look = {"symbol": "square-open", "size": 54, "color": colour("rejected", dark), "line": {"width": 4}}
    return [base.scatter("markers", "chosen", [column], [row], marker=look)]


def table_rows(table: TableBlock) -> list[dict[str, Any]]:
    """A table as the page's data frame takes it: values where they are known, so that columns sort by them. What is not
    known is left empty in a column of values, and a dash in one of texts. Of columns with one head, as with none,
    the later have spaces behind it: a data frame has a column only once."""
    heads = [head + " " * table.heads[:k].count(head) for k, head in enumerate(table.heads)]
    valued = [any(cell.value is not None for cell in column) for column in zip(*table.rows, strict=True)]
    return [
        {
            head: cell.text if cell.value is None and not (has_values and cell.text == UNKNOWN) else cell.value
            for head, cell, has_values in zip(heads, row, valued, strict=True)
        }
        for row in table.rows
    ]


def heat_rows(heat: Heat) -> list[dict[str, Any]]:
    """The table of a heat map, its margins included."""
    rows = [
        {"": name, **{column: square.text for column, square in zip(heat.columns, line, strict=True)}}
        | dict(zip(heat.heads, heat.right[k] if heat.right else (), strict=False))
        for k, (name, line) in enumerate(zip(heat.rows, heat.squares, strict=True))
    ]
    return rows + [{"": name, **dict(zip(heat.columns, texts, strict=True))} for name, *texts in heat.foot]
