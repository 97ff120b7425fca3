"""The draft tree of one round as an animation: a Plotly frame per moment, a slider and a play button, no reruns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from specviz.view import Frame
from specviz.view.frame.frame import Mark, Tree, TreeNode
from specviz.view.words.numbers import fine
from specviz.view.words.palette import colour
from specviz_app.figures.base import empty, figure, safe, sentence, short
from specviz_app.figures.playing import buttons, slider

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
