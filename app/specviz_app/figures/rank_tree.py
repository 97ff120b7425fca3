"""Where the nodes of a round's tree came from, as a table; and one slot's distribution, drawn."""

import re
from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go

from specviz.view.frame.frame import TreeFrame
from specviz.view.panels.ranks.model import ExpansionView
from specviz.view.words.numbers import fine
from specviz.view.words.palette import colour
from specviz_app.figures import base
from specviz_app.figures.base import safe, short
from specviz_app.figures.tree import node_name

_TOKEN = 9  # cells of a token


def _brief(shown: str) -> str:
    """A token as a label, long indents counted: `⏎▁×8`."""
    return short(re.sub("▁{3,}", lambda run: f"▁×{len(run[0])}", shown), _TOKEN)


def rank_tree_rows(tree: TreeFrame, badges: Mapping[int, str]) -> list[dict[str, Any]]:
    """The table twin of the tree: what every node is, and where it came from."""
    return [
        {
            "node": node_name(n.id),
            "below": node_name(n.parent),
            "depth": n.depth,
            "token": n.shown,
            "status": f"{n.glyph} {n.word}",
            "came from": badges.get(n.id, ""),
        }
        for n in tree.nodes
        if n.id >= 0
    ]


# One distribution ---------------------------------------------------------------------------------------------------


def fig_offers(expansion: ExpansionView | None, dark: bool = False) -> go.Figure:
    """An expansion's best tokens: filled those that became children; ★ the target's best token, ✓ what was written."""
    if expansion is None:
        return base.empty("no block went on from this node")
    if not expansion.offers:
        return base.empty("distributions are recorded with --level full alone")
    names = [f"{o.rank} {_brief(o.shown)}{' ★' if o.best else ''}{' ✓' if o.written else ''}" for o in expansion.offers]
    about = [
        f"<b>{safe(o.shown)}</b> · rank {o.rank}<br>{fine(o.prob)}<br>{'a child' if o.child else 'beyond the width'}"
        f"{'<br>the target’s best token' if o.best else ''}{'<br>what was written' if o.written else ''}"
        for o in expansion.offers
    ]
    marks = [
        colour("accepted" if o.best or o.written else "untested" if o.child else "pruned", dark)
        for o in expansion.offers
    ]
    bar = base.bar(
        "draft",
        [o.prob for o in expansion.offers],
        list(range(len(names))),
        about,
        orientation="h",
        marker={
            "color": marks,
            "opacity": [1 if o.child else 0.35 for o in expansion.offers],
            "pattern": {
                "shape": ["" if o.child else "/" for o in expansion.offers],
                "fillmode": "overlay",
                "fgopacity": 0.5,
            },
        },
    )
    edge = sum(o.child for o in expansion.offers) - 0.5
    x = {"title": "draft probability (dashed: the width)", "rangemode": "tozero"}
    return base.figure(
        [bar],
        60 + 19 * len(names),
        x,
        {**base.ticks(names), "autorange": "reversed"},
        showlegend=False,
        bargap=0.2,
        shapes=[base.level(edge, colour("exit", dark))],
    )


def offer_rows(expansion: ExpansionView | None) -> list[dict[str, Any]]:
    return base.table(
        "rank | token | draft | child | target's best | written",
        [
            (o.rank, o.shown, o.prob, o.child, o.best, o.written)
            for o in (expansion.offers if expansion is not None else ())
        ],
    )
