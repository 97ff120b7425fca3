"""Figures about one round: the tests with their random numbers, p beside q, and what was left to draw from; and the
table twin of its tree, which the stage's painter draws.
"""

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from specviz.runlog.run import Mark
from specviz.view.frame.frame import TreeFrame, TreeNode
from specviz.view.frame.parts import Residual
from specviz.view.words.numbers import fine
from specviz.view.words.palette import colour, glyph
from specviz_app.figures import base
from specviz_app.figures.base import safe, sentence, short


def hover(node: TreeNode) -> str:
    """Everything known of a node at this moment."""
    v = node.values
    lines = [f"<b>{safe(node.shown)}</b> · {sentence(node.word)}"]
    known = (("q", fine(v.q)), ("p", fine(v.p)), ("left by siblings", fine(v.left)))
    lines += [f"{name} {text}" for name, text in known if text != "—"]
    if v.u is not None:
        band = f"keep below {fine(v.thr)}" if v.thr is not None else ""
        band = f"keep in [{fine(v.lo)}, {fine(v.hi)})" if v.lo is not None and v.hi is not None else band
        lines.append(f"u {fine(v.u)} · {band}".rstrip(" ·"))
    if v.rank is not None:
        lines.append(f"the target ranks it {v.rank}")
    return base.hover_lines(*lines, sentence(node.note))


def tree_rows(tree: TreeFrame) -> list[dict[str, Any]]:
    """The table twin: every node in reading order."""
    rows = []
    for n in sorted(tree.nodes, key=lambda n: (n.row, n.column)):
        v = n.values
        rows.append(
            {
                "node": node_name(n.id),
                "below": node_name(n.parent) if n.id != -1 else "",
                "depth": n.depth,
                "token": n.shown,
                "status": f"{n.glyph} {n.word}",
                "q draft": v.q,
                "p target": v.p,
                "p/q": v.ratio,
                "left by siblings": v.left,
                "threshold": v.thr,
                "u": v.u,
                "keep from": v.lo,
                "keep to": v.hi,
                "target's rank": v.rank,
            }
        )
    return rows


def node_name(node: int) -> str:
    """`n14`, `root`, `closing`."""
    return {-1: "root", -2: "closing"}.get(node, f"n{node}")


_TICK = 8  # cells of a token under a plot
_GREEDY = "temperature 0: nothing is drawn, the target's most likely token decides"
MOST = 24  # nodes or tokens on one plot; the table has all


def fig_tests(nodes: Sequence[TreeNode], dark: bool = False, greedy: bool = False) -> go.Figure:
    """One column for each test: the band in which `u` keeps the token, and where `u` fell."""
    tested = [n for n in nodes if n.id >= 0 and n.values.u is not None and _band(n) is not None][:MOST]
    if not tested:
        return base.empty(_GREEDY if greedy else "no test of this round has its random number on record", 90)
    bands = [
        go.Scatter(
            x=[k, k],
            y=list(_band(n) or (0, 0)),
            mode="lines",
            hoverinfo="skip",
            showlegend=False,
            line={"color": colour("accepted", dark), "width": 18},
            opacity=0.35,
        )
        for k, n in enumerate(tested)
    ]
    marks = base.scatter(
        "markers+text",
        "u",
        list(range(len(tested))),
        [n.values.u for n in tested],
        [hover(n) for n in tested],
        marker={"symbol": "diamond", "size": 12, "color": [colour(n.mark, dark) for n in tested]},
        text=[n.glyph for n in tested],
        textposition="middle right",
        customdata=[n.id for n in tested],
    )
    x = {**base.ticks([short(n.shown, _TICK) for n in tested]), "range": [-0.6, len(tested) - 0.4], "showgrid": False}
    y = {"range": [-0.03, 1.03], "title": "u ◆ in the band: kept"}
    return base.figure([*bands, marks], 240, x, y, showlegend=False)


def _band(node: TreeNode) -> tuple[float, float] | None:
    v = node.values
    if v.lo is not None and v.hi is not None:
        return (v.lo, v.hi)
    return None if v.thr is None else (0.0, min(1.0, v.thr))


def fig_pq(nodes: Sequence[TreeNode], dark: bool = False) -> go.Figure:
    """What the draft gave every drafted token beside the target's p: q, or its probability where it drew nothing."""
    draft_odds = {n.id: n.values.conf if n.values.q is None else n.values.q for n in nodes}
    known = [n for n in nodes if n.id >= 0 and (draft_odds[n.id] is not None or n.values.p is not None)][:MOST]
    if not known:
        return base.empty("neither p nor q is on record for this round", 110)
    laws: tuple[tuple[str, list[float | None], Mark], ...] = (
        ("draft", [draft_odds[n.id] for n in known], "drafted"),
        ("target", [n.values.p for n in known], "accepted"),
    )
    said_bars = [
        base.bar(name, list(range(len(known))), values, [hover(n) for n in known], marker={"color": colour(mark, dark)})
        for name, values, mark in laws
    ]
    x = base.ticks([f"{n.glyph} {short(n.shown, _TICK)}" for n in known])
    return base.figure(said_bars, 240, x, {"range": [0, 1.02], "tickformat": ".1f"}, barmode="group", bargap=0.25)


def fig_residual(residual: Residual, dark: bool = False) -> go.Figure:
    """The row the closing token was drawn from: what is left of the target where the draft said too much."""
    entries = list(residual.entries)[:MOST]
    if not entries:
        return base.empty(residual.note or "the row is not on record", 110)
    drawn, plain = colour("recovered", dark), colour("untested", dark)
    bar = go.Bar(
        x=[e.prob for e in entries],
        y=list(range(len(entries))),
        orientation="h",
        marker={"color": [drawn if e.drawn else plain for e in entries]},
        text=[e.text for e in entries],
        textposition="outside",
        textangle=0,
        cliponaxis=False,
        hoverinfo="text",
        hovertext=[safe(e.shown) + (" · drafted and rejected" if e.drafted else "") for e in entries],
    )
    names = [f"{glyph('recovered') + ' ' if e.drawn else ''}{short(e.shown)}" for e in entries]
    x = {"rangemode": "tozero", "nticks": 5, "title": "share of the draw"}
    y = {**base.ticks(names), "autorange": "reversed"}
    more = {"bargap": 0.3, "showlegend": False, "margin": {**base.MARGIN, "r": 40}}
    return base.figure([bar], 50 + 26 * len(entries), x, y, **more)
