"""Figures about another width table: what so many children would cover in every bucket, and the best of all tables."""

from typing import Any

import plotly.graph_objects as go

from specviz.runlog.run import Mark
from specviz.view.panels.ranks.widths import BucketChange, WidthChange
from specviz.view.words.numbers import number, percent
from specviz.view.words.palette import colour
from specviz_app.figures import base
from specviz_app.figures.base import sentence

_LOOK: tuple[tuple[Mark, str, str], ...] = (  # colour, dash, symbol by predicted bucket; the root's own slot first
    ("root", "dash", "hexagon"),
    ("accepted", "solid", "circle"),
    ("recovered", "dot", "square"),
    ("exit", "dashdot", "diamond"),
    ("rejected", "longdash", "triangle-up"),
)
_COVERED = {"title": "target's token covered", "tickformat": ".0%"}


def fig_curves(change: WidthChange, dark: bool = False) -> go.Figure:
    """A line a predicted bucket: what so many children would cover. Open sign: the run; filled: the sliders."""
    traces: list[go.Scatter] = []
    for bucket, (mark, dash, symbol) in zip(change.buckets, _LOOK, strict=True):
        if bucket.n:
            traces += _curve(bucket, colour(mark, dark), dash, symbol)
    if not traces:
        return base.empty("no expansion passes the filter")
    x = {"title": "children (○ the run, ● the sliders)", "range": [0.4, 20.6], "dtick": 2, "tick0": 2}
    return base.figure(traces, 340, x, {**_COVERED, "range": [0, 1.04]})


def _curve(bucket: BucketChange, hex_colour: str, dash: str, symbol: str) -> list[go.Scatter]:
    name = "root" if bucket.label == "root" else f"said {bucket.label}"
    xs = list(range(1, len(bucket.curve) + 1))
    line = base.scatter(
        "lines",
        f"{name} ({bucket.n:,})",
        xs,
        list(bucket.curve),
        [f"{name}: {w} children cover {percent(y)} of {bucket.n:,}" for w, y in zip(xs, bucket.curve, strict=True)],
        line={"color": hex_colour, "dash": dash},
    )
    own, here = max(1, bucket.ran_width), max(1, bucket.width)
    marks = [
        base.scatter(
            "markers",
            f"{name}, {what}",
            [w],
            [bucket.curve[w - 1]],
            [f"{name}, {what}: {w} children"],
            showlegend=False,
            cliponaxis=False,
            marker={"symbol": sign, "size": size, "color": hex_colour, "line": {"width": 2}},
        )
        for w, sign, size, what in ((own, f"{symbol}-open", 15, "the run"), (here, symbol, 10, "the sliders"))
    ]
    return [line, *marks]


def fig_frontier(change: WidthChange, dark: bool = False) -> go.Figure:
    """Coverage against children an expansion: the best that any table reaches here, the run, and the sliders."""
    points = change.frontier
    line = base.scatter(
        "lines+markers",
        "best of all tables",
        hover=[
            f"{sentence(table.text)}<br>{number(x)} children each cover {percent(y)}<br>a click takes it"
            for x, y, table in points
        ],
        **base.spots([(x, y) for x, y, _ in points]),
        line={"shape": "hv", "color": base.GREY, "width": 1.5},
        marker={"size": 5, "color": base.GREY},
        customdata=[list(table.widths) for _, _, table in points],
        **base.STEADY,
    )
    signs: tuple[tuple[str, float, float, str, Mark, int], ...] = (
        ("the run", change.ran_children, change.ran, "diamond", "rejected", 15),
        ("the sliders", change.children, change.here, "square-open", "accepted", 17),
    )
    marks = [
        base.scatter(
            "markers",
            name,
            [x],
            [y],
            [f"{name}: {number(x)} children each cover {percent(y)}"],
            cliponaxis=False,
            marker={
                "symbol": symbol,
                "size": size,
                "color": colour(mark, dark),
                "line": {"width": 3} if symbol.endswith("open") else base.EDGE,
            },
        )
        for name, x, y, symbol, mark, size in signs
    ]
    return base.figure([line, *marks], 340, {"title": "children an expansion"}, _COVERED, clickmode="event+select")


def change_rows(change: WidthChange) -> list[dict[str, Any]]:
    """A row a predicted bucket: the run beside the table."""
    return base.table(
        "predicted | expansions | width in the run | width here | "
        "covered in the run | covered here | children in the run | children here",
        [
            (b.label, b.n, b.ran_width, b.width, percent(b.ran), percent(b.here), b.ran_children, b.children)
            for b in change.buckets
        ],
    )


def curve_rows(change: WidthChange) -> list[dict[str, Any]]:
    """The table twin of the curves: a row a width."""
    return [
        {
            "children": w,
            **{("root" if b.label == "root" else f"said {b.label}"): b.curve[w - 1] for b in change.buckets if b.n},
        }
        for w in range(1, 21)
    ]


def frontier_rows(change: WidthChange) -> list[dict[str, Any]]:
    return base.table(
        "table | children an expansion | covered | fewest children for the run's coverage",
        [(table.text, x, y, table == change.cheapest) for x, y, table in change.frontier],
    )
