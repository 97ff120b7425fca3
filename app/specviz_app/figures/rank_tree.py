"""The tree of a round with where every node came from: its block in the sign, slot and rank beside the token."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from specviz.view.panels.ranks.model import BUCKETS, ExpansionView, RankNode, RankTree
from specviz.view.words.numbers import fine, prob
from specviz.view.words.palette import CLOSING, ROOT, colour
from specviz_app.figures import base
from specviz_app.figures.base import safe, sentence, short
from specviz_app.figures.tree import Edge, branches, node_name

_ROW, _CONTROLS, _TOKEN = 24, 130, 9  # pixels of a row and of what is below the tree; cells of a token
_BEND, _NEAR = 0.84, 0.07  # of a column: where a line leaves the parent's label, and where it meets the child
_BADGE = '<span style="font-size:10px;color:#8C8C8C">{}</span>'


def fig_rank_tree(
    tree: RankTree | None, expansions: Sequence[ExpansionView] = (), selected: int | None = None, dark: bool = False
) -> go.Figure:
    """Depth to the right. Number: the block (or level) that offered the node; circle: a slot's best token, square: a
    sibling; ring: a block starts here. It plays how the tree grew, block by block, and then the verdict.
    """
    if tree is None or tree.missing is not None or len(tree.nodes) < 2:
        return base.empty(tree.missing if tree is not None and tree.missing else "nothing was drafted in this round")
    look = _Look(
        selected,
        dark,
        _rows(tree.nodes),
        {(e.parent, e.block, e.slot): e for e in expansions},
        1 + max(n.depth for n in tree.nodes),
    )
    homes = sorted({_home(n) for n in tree.nodes if n.id >= 0})
    stages = [(h, f"{_unit(tree)} {h}") for h in homes] + [(None, "verdict")]
    n_rows = max(look.rows.values()) + 1
    across = [-0.15, max(2, *(n.depth for n in tree.nodes)) + 0.98]
    out = base.figure(
        _traces(tree, None, look),
        _CONTROLS + _ROW * max(4, n_rows),
        {**base.HIDDEN, "range": across},
        {**base.HIDDEN, "range": [n_rows - 0.4, -0.6]},
        showlegend=False,
    )
    return base.played(out, [(name, _traces(tree, home, look)) for home, name in stages], "▶ play how it grew")


@dataclass(frozen=True, slots=True)
class _Look:
    selected: int | None
    dark: bool
    rows: dict[int, int]  # by node id
    said: Mapping[tuple[int, int, int], ExpansionView]  # by parent, block and slot
    columns: int

    def room(self, node: RankNode) -> float:
        """Where a label ends, in columns of a desk's page: lines begin behind it."""
        return 0.15 + 0.0085 * self.columns * (len(_brief(node.shown)) + 0.8 * len(_badge(node)) + 2)


def _rows(nodes: Sequence[RankNode]) -> dict[int, int]:
    """Nodes come depth first: a first child stands in its parent's row, every other one begins a row."""
    rows: dict[int, int] = {}
    parents: set[int] = set()
    last = 0
    for node in nodes:
        if node.id not in rows and node.parent in rows and node.parent not in parents:
            rows[node.id] = rows[node.parent]
        else:
            rows[node.id] = last + 1 if rows else 0
        if node.id != ROOT:
            parents.add(node.parent)
        last = max(last, rows[node.id])
    return rows


def _home(node: RankNode) -> int:
    """The call that offered it; none for what the target drew itself."""
    if node.id == CLOSING:
        return -1
    return node.block if node.block is not None else 1 if node.head is not None else node.depth


def _unit(tree: RankTree) -> str:
    some = next((n for n in tree.nodes if n.id >= 0), None)
    if some is None or some.block is not None:
        return "block"
    return "call" if some.head is not None else "level"


def _traces(tree: RankTree, until: int | None, look: _Look) -> list[Any]:
    """What is there after a block; with None, everything and the verdict."""
    shown = [n for n in tree.nodes if n.id == ROOT or until is None or 0 <= _home(n) <= until]
    judged = until is None
    at = [(n.depth, look.rows[n.id]) for n in shown]
    own = [colour(n.mark if judged or n.id < 0 else "drafted", look.dark) for n in shown]
    chosen = [n.id == look.selected for n in shown]
    ring = colour("recovered", look.dark)
    ink = "#FFFFFF" if not look.dark else "#10141A"
    signs = base.scatter(
        "markers+text",
        "nodes",
        hover=[hover(n, look.said) for n in shown],
        **base.spots(at),
        **base.STEADY,
        text=[f"<b>{_home(n)}</b>" if n.id >= 0 and n.kept else "" for n in shown],
        textfont={"size": 10, "color": ink},
        customdata=[n.id for n in shown],
        marker={
            "symbol": [_symbol(n) for n in shown],
            "color": own,
            "opacity": 1,
            "size": [20 if c else 15 for c in chosen],
            "line": {
                "width": [
                    3 if c or n.start is not None else 0 if n.kept else 1.5 for c, n in zip(chosen, shown, strict=True)
                ],
                "color": [
                    colour("testing", look.dark) if c else ring if n.start is not None else o
                    for c, n, o in zip(chosen, shown, own, strict=True)
                ],
            },
        },
    )
    words = base.scatter(
        "text",
        "tokens",
        **base.spots([(x + _NEAR, y) for x, y in at]),
        textposition="middle right",
        text=[_label(n, judged) for n in shown],
        textfont={"size": 12, "color": own},
        cliponaxis=False,
    )
    return [*branches(list(_edges(shown, judged, look)), look.dark, 1), words, signs]


def _symbol(node: RankNode) -> str:
    shape = "circle" if node.id < 0 or node.spine else "square"
    return shape if node.id < 0 or node.kept else f"{shape}-open"


def _label(node: RankNode, judged: bool) -> str:
    if node.id < 0:
        return f"  {node.glyph if node.id != ROOT else ''} {_brief(node.shown)}"
    text = f"  {node.glyph if judged else '?'} {_brief(node.shown)}"
    return f"{text} {_BADGE.format(sentence(_badge(node)))}"


def _brief(shown: str) -> str:
    """A token as a label, long indents counted: `⏎▁×8`."""
    return short(re.sub("▁{3,}", lambda run: f"▁×{len(run[0])}", shown), _TOKEN)


def _badge(node: RankNode) -> str:
    """Slot and rank; the block stands in the sign."""
    place = f"s{node.slot}" if node.slot is not None else f"h{node.head}" if node.head is not None else ""
    rank = f"#{node.rank}" if node.rank is not None else ""
    merged = f"+{node.merged}" if node.merged else ""
    return " ".join(filter(None, (place, rank, merged)))


def _edges(shown: Sequence[RankNode], judged: bool, look: _Look) -> Iterator[tuple[Edge, bool]]:
    """From behind the parent's label to the child, and whether the path that was kept runs there."""
    by = {n.id: n for n in shown}
    for node in shown:
        above = by.get(node.parent)
        if node.id == ROOT or above is None:
            continue
        x0, y0, y1 = above.depth, look.rows[above.id], look.rows[node.id]
        bend = x0 + _BEND
        edge: Edge = [(min(bend, x0 + look.room(above)), y0), (bend, y0), (bend, y1), (x0 + 1 - _NEAR, y1)]
        yield edge, judged and node.path and (above.path or above.id == ROOT)


def hover(node: RankNode, said: Mapping[tuple[int, int, int], ExpansionView]) -> str:
    """Everything known of a node: where it came from, what the slot that offered it expected, what was true."""
    if node.id < 0:
        return f"<b>{safe(node.shown)}</b> · the last committed token"
    lines = [f"<b>{safe(node.shown)}</b> · {sentence(node.word)}", sentence(", ".join((node.badge, *node.flags)))]
    lines += [f"path chance {sentence(node.chance)}"] if node.chance else []
    made = said.get((node.parent, node.block or 0, node.slot if node.slot is not None else -1))
    if made is not None:
        lines += _said(made)
    return base.told(*lines)


def _said(made: ExpansionView) -> list[str]:
    """What the distribution that offered a node expected."""
    odds = ", ".join(f"{name} {prob(p)}" for name, p in zip(BUCKETS, made.probs, strict=False))
    lines = [f"its slot expects rank {sentence(made.bucket_text)}" + (f" ({odds})" if odds else "")]
    lines += [f"width {made.width} ({made.reason.replace('_', ' ')}), {made.n_children} children"]
    if made.true_rank is not None:
        lines += [f"the target's best token has rank {made.true_rank} there"]
    elif made.true_bucket is not None:
        lines += ["the draft vocabulary lacks the target's best token"]
    return lines


def rank_tree_alt(tree: RankTree | None) -> str:
    """The takeaway, for people who cannot see the picture."""
    if tree is None or tree.missing is not None:
        return (tree.missing if tree is not None else None) or "No tree."
    kept = " ".join(n.shown for n in tree.nodes if n.path and n.id >= 0)
    return f"Tree of the round: {tree.text}. Kept path: {kept or 'nothing'}."


def rank_tree_rows(tree: RankTree | None) -> list[dict[str, Any]]:
    return [
        {
            "node": node_name(n.id),
            "below": node_name(n.parent),
            "depth": n.depth,
            "token": n.shown,
            "status": f"{n.glyph} {n.word}",
            "block": n.block,
            "slot": n.slot if n.head is None else n.head,
            "rank": n.rank,
            "path chance": n.chance,
            "log": n.cum,
            "": ", ".join(n.flags),
        }
        for n in (tree.nodes if tree is not None else ())
        if n.id >= 0
    ]


# One distribution ---------------------------------------------------------------------------------------------------


def fig_offers(said: ExpansionView | None, dark: bool = False) -> go.Figure:
    """An expansion's best tokens: filled those that became children; ★ the target's best token, ✓ what was written."""
    if said is None:
        return base.empty("no block went on from this node")
    if not said.offers:
        return base.empty("distributions are on record at level full only")
    names = [f"{o.rank} {_brief(o.shown)}{' ★' if o.best else ''}{' ✓' if o.written else ''}" for o in said.offers]
    about = [
        f"<b>{safe(o.shown)}</b> · rank {o.rank}<br>{fine(o.prob)}<br>{'a child' if o.child else 'beyond the width'}"
        f"{'<br>the target’s best token' if o.best else ''}{'<br>what was written' if o.written else ''}"
        for o in said.offers
    ]
    marks = [
        colour("accepted" if o.best or o.written else "untested" if o.child else "pruned", dark) for o in said.offers
    ]
    bar = base.bar(
        "draft",
        [o.prob for o in said.offers],
        list(range(len(names))),
        about,
        orientation="h",
        marker={
            "color": marks,
            "opacity": [1 if o.child else 0.35 for o in said.offers],
            "pattern": {
                "shape": ["" if o.child else "/" for o in said.offers],
                "fillmode": "overlay",
                "fgopacity": 0.5,
            },
        },
    )
    edge = sum(o.child for o in said.offers) - 0.5
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


def offer_rows(said: ExpansionView | None) -> list[dict[str, Any]]:
    return base.table(
        "rank | token | draft | child | target's best | written",
        [(o.rank, o.shown, o.prob, o.child, o.best, o.written) for o in (said.offers if said is not None else ())],
    )
