"""The draft tree of one round as an animation: a Plotly frame per moment, a slider and a play button, no reruns.

Figures about one round: the tests with their random numbers, p beside q, and what was left to draw from.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from specviz.runlog.run import Mark
from specviz.view import Frame
from specviz.view.frame.frame import Tree, TreeNode
from specviz.view.frame.parts import Residual
from specviz.view.words.numbers import fine
from specviz.view.words.palette import colour, glyph
from specviz_app.figures.base import buttons, empty, figure, safe, sentence, short, slider

SYMBOLS: dict[Mark, str] = {
    "root": "circle", "drafted": "circle-open", "testing": "hexagon", "accepted": "circle", "rejected": "x",
    "recovered": "diamond", "bonus": "star", "plain": "circle-dot", "untested": "circle-open-dot",
    "pruned": "circle-open-dot", "exit": "triangle-right", "prompt": "circle",
}  # fmt: skip
_BEND = 0.55  # of a column
_QUIET = "#8C8C8C"
_ROW, _TIGHT_ROW, _TALL_ROW, _CONTROLS = 58, 44, 34, 120  # pixels
_WIDEST, _NARROW = 10, 3  # columns and rows beyond which, and up to which, a tree is a long chain


def fig_tree(moments: Sequence[Frame], selected: int | None = None, dark: bool = False) -> go.Figure:
    """All moments of one round, the last one shown first. Places are those of the finished tree: nothing jumps.

    Depth runs to the right; a long chain runs downwards, where its tokens have room.
    """
    if not moments:
        return empty("no round has begun")
    last = moments[-1].tree
    if last.missing is not None:
        return empty(last.missing)
    look = _Look(selected, dark, last.n_columns > _WIDEST and last.n_rows <= _NARROW)
    across, down = (last.n_rows, last.n_columns) if look.tall else (last.n_columns, last.n_rows)
    row = _TALL_ROW if look.tall else _ROW if down <= _NARROW * 4 else _TIGHT_ROW
    out = figure(_traces(last, look), _CONTROLS + row * max(2, down), showlegend=False)
    out.frames = [go.Frame(name=str(k), data=_traces(m.tree, look)) for k, m in enumerate(moments)]
    out.update_layout(
        sliders=[slider(moments)], updatemenus=[buttons()], margin={"l": 8, "r": 8, "t": 8, "b": 100},
        clickmode="event+select",
    )  # fmt: skip
    quiet: dict[str, Any] = {"visible": False, "fixedrange": True}
    out.update_xaxes(range=[-0.6, max(1, across) - 0.4 + look.tall], **quiet)
    out.update_yaxes(range=[down - 0.3, -0.6], **quiet)
    return out


@dataclass(frozen=True, slots=True)
class _Look:
    """`tall`: depth runs downwards."""

    selected: int | None
    dark: bool
    tall: bool

    def place(self, column: int, row: int) -> tuple[int, int]:
        return (row, column) if self.tall else (column, row)


def _traces(tree: Tree, look: _Look) -> list[Any]:
    nodes, dark = list(tree.nodes), look.dark
    places = [look.place(n.column, n.row) for n in nodes]
    chosen = [n.id == look.selected for n in nodes]
    own = [colour(n.mark, dark) for n in nodes]
    dots = go.Scatter(
        x=[x for x, _ in places], y=[y for _, y in places], mode="markers+text", name="nodes",
        marker={
            "symbol": [SYMBOLS[n.mark] for n in nodes], "color": own, "opacity": 1,
            "size": [22 if c else 16 if n.fresh else 14 for n, c in zip(nodes, chosen, strict=True)],
            "line": {"width": [3 if c else 1 for c in chosen],
                     "color": [colour("testing", dark) if c else o for o, c in zip(own, chosen, strict=True)]},
        },
        text=[f"  {label(n)}" if look.tall else label(n) for n in nodes], cliponaxis=False,
        textposition="middle right" if look.tall else "bottom center", textfont={"color": own, "size": 13},
        customdata=[n.id for n in nodes], hovertext=[hover(n) for n in nodes], hoverinfo="text",
        selected={"marker": {"opacity": 1}}, unselected={"marker": {"opacity": 1}},
    )  # fmt: skip
    return [_edges(tree, False, look), _edges(tree, True, look), _folds(tree, look), dots]


def _folds(tree: Tree, look: _Look) -> go.Scatter:
    """What was folded away, counted where it stood."""
    places = [look.place(f.column, f.row) for f in tree.folds]
    return go.Scatter(
        x=[x for x, _ in places], y=[y for _, y in places], mode="text", text=[sentence(f.text) for f in tree.folds],
        textfont={"color": _QUIET, "size": 12}, hoverinfo="skip", name="folded",
    )  # fmt: skip


def _edges(tree: Tree, winning: bool, look: _Look) -> go.Scatter:
    places = {n.id: (n.column, n.row) for n in tree.nodes}
    xs: list[float | None] = []
    ys: list[float | None] = []
    for node in tree.nodes:
        if node.parent in places and node.id != -1 and (node.winning and _wins(tree, node.parent)) is winning:
            (x0, y0), (x1, y1) = places[node.parent], places[node.id]
            bend = x0 + _BEND  # beside the parent's label, not through it
            xs += [x0, bend, bend, x1, None]
            ys += [y0, y0, y1, y1, None]
    line = {"color": colour("accepted" if winning else "untested", look.dark), "width": 3 if winning else 1.2}
    xs, ys = (ys, xs) if look.tall else (xs, ys)
    return go.Scatter(x=xs, y=ys, mode="lines", line=line, hoverinfo="skip", name="kept" if winning else "drafted")


def _wins(tree: Tree, node: int) -> bool:
    found = tree.node(node)
    return found is not None and found.winning


def label(node: TreeNode) -> str:
    """`✓ ▁the`: the status before the token, never by colour alone."""
    return f"{node.glyph} {short(node.shown)}"


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
    return "<br>".join([*lines, sentence(node.note)] if node.note else lines)


def tree_alt(moment: Frame) -> str:
    """The takeaway, for people who cannot see the picture."""
    tree = moment.tree
    kept = [n.shown for n in tree.nodes if n.winning and n.id != -1]
    return f"Draft tree of round {moment.round}: {moment.counts.text}. Kept path: {' '.join(kept) or 'nothing'}."


def tree_rows(tree: Tree) -> list[dict[str, Any]]:
    """The table twin: every node in reading order."""
    rows = []
    for n in sorted(tree.nodes, key=lambda n: (n.row, n.column)):
        v = n.values
        rows.append({
            "node": node_name(n.id), "below": node_name(n.parent) if n.id != -1 else "", "depth": n.depth,
            "token": n.shown, "status": f"{n.glyph} {n.word}", "q draft": v.q, "p target": v.p, "p/q": v.ratio,
            "left by siblings": v.left, "threshold": v.thr, "u": v.u, "keep from": v.lo, "keep to": v.hi,
            "target's rank": v.rank,
        })  # fmt: skip
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
        return empty(_GREEDY if greedy else "no test of this round has its random number on record", 90)
    bands = [
        go.Scatter(
            x=[k, k], y=list(_band(n) or (0, 0)), mode="lines", hoverinfo="skip", showlegend=False,
            line={"color": colour("accepted", dark), "width": 18}, opacity=0.35,
        )
        for k, n in enumerate(tested)
    ]  # fmt: skip
    marks = go.Scatter(
        x=list(range(len(tested))), y=[n.values.u for n in tested], mode="markers+text", name="u",
        marker={"symbol": "diamond", "size": 12, "color": [colour(n.mark, dark) for n in tested]},
        text=[n.glyph for n in tested], textposition="middle right", hovertext=[hover(n) for n in tested],
        hoverinfo="text", customdata=[n.id for n in tested],
    )  # fmt: skip
    out = figure([*bands, marks], 240, showlegend=False)
    out.update_xaxes(
        tickvals=list(range(len(tested))), ticktext=[short(n.shown, _TICK) for n in tested], fixedrange=True
    )
    out.update_xaxes(range=[-0.6, len(tested) - 0.4], showgrid=False)
    out.update_yaxes(range=[-0.03, 1.03], title="u ◆ in the band: kept", fixedrange=True)
    return out


def _band(node: TreeNode) -> tuple[float, float] | None:
    v = node.values
    if v.lo is not None and v.hi is not None:
        return (v.lo, v.hi)
    return None if v.thr is None else (0.0, min(1.0, v.thr))


def fig_pq(nodes: Sequence[TreeNode], dark: bool = False) -> go.Figure:
    """What the draft said of every drafted token beside the target's p: q, or its own odds where it drew nothing."""
    said = {n.id: n.values.conf if n.values.q is None else n.values.q for n in nodes}
    known = [n for n in nodes if n.id >= 0 and (said[n.id] is not None or n.values.p is not None)][:MOST]
    if not known:
        return empty("neither p nor q is on record for this round", 110)
    places = list(range(len(known)))
    pairs = (("draft", [said[n.id] for n in known], "drafted"), ("target", [n.values.p for n in known], "accepted"))
    bars = [
        go.Bar(x=places, y=values, name=name, marker={"color": colour(mark, dark)},  # type: ignore[arg-type]
               hovertext=[hover(n) for n in known], hoverinfo="text")
        for name, values, mark in pairs
    ]  # fmt: skip
    out = figure(bars, 240, barmode="group", bargap=0.25)
    ticks = [f"{n.glyph} {short(n.shown, _TICK)}" for n in known]
    out.update_xaxes(tickvals=places, ticktext=ticks, fixedrange=True)
    out.update_yaxes(range=[0, 1.02], tickformat=".1f", fixedrange=True)
    return out


def fig_residual(residual: Residual, dark: bool = False) -> go.Figure:
    """The row the closing token was drawn from: what is left of the target where the draft said too much."""
    entries = list(residual.entries)[:MOST]
    if not entries:
        return empty(residual.note or "the row is not on record", 110)
    drawn, plain = colour("recovered", dark), colour("untested", dark)
    bar = go.Bar(
        x=[e.prob for e in entries], y=list(range(len(entries))), orientation="h",
        marker={"color": [drawn if e.drawn else plain for e in entries]}, text=[e.text for e in entries],
        textposition="outside", textangle=0, cliponaxis=False, hoverinfo="text",
        hovertext=[safe(e.shown) + (" · drafted and rejected" if e.drafted else "") for e in entries],
    )  # fmt: skip
    out = figure([bar], 50 + 26 * len(entries), showlegend=False, bargap=0.3)
    ticks = [f"{glyph('recovered') + ' ' if e.drawn else ''}{short(e.shown)}" for e in entries]
    out.update_yaxes(tickvals=list(range(len(entries))), ticktext=ticks, autorange="reversed", fixedrange=True)
    out.update_xaxes(rangemode="tozero", fixedrange=True, nticks=5, title="share of the draw")
    out.update_layout(margin={"l": 8, "r": 40, "t": 8, "b": 8})
    return out
