"""The table under a small tree: every judged node with q beside p, their ratio and the draw that decided."""

from dataclasses import dataclass

from rich.cells import cell_len

from specviz.text import clip
from specviz.view.frame.frame import Tree, TreeNode
from specviz.view.words.numbers import prob, ratio
from specviz_tui.common.paint import CURSOR, FAINT, PLAIN, Painter, bar
from specviz_tui.widgets.tree.rows import Row, drawn, said

TABLED = ("accepted", "rejected", "testing", "recovered", "bonus", "plain")
RATIO = 11  # cells of `  p/q 1.02 `


@dataclass(frozen=True, slots=True)
class _Columns:
    token: int
    bar: int
    ratio: int


def judged(tree: Tree, painter: Painter, width: int, room: int) -> list[Row]:
    """One row a node, in the order of the tests; [] when there is no room. Of a chain, the untested nodes too."""
    is_chain = max((node.row for node in tree.nodes if node.id >= 0), default=0) == 0
    nodes = [n for n in tree.nodes if n.depth and (n.mark in TABLED or is_chain)]
    if not nodes or len(nodes) + 1 > room:
        return []
    plan = _Columns(
        token=min(max(cell_len(node.shown) for node in nodes), 16 if width >= 92 else 11),
        bar=8 if width >= 92 else 5 if width >= 76 else 0,
        ratio=RATIO if any(node.values.ratio is not None for node in nodes) else 0,
    )
    in_order = sorted(nodes, key=lambda node: (node.depth, node.row))
    return [Row(pinned=True), *(_judged(node, plan, painter) for node in in_order)]


def _judged(node: TreeNode, plan: _Columns, painter: Painter) -> Row:
    row, values, tint = Row(pinned=True), node.values, painter.tint(node.mark)
    row.add(f" {node.depth:>2} ", FAINT)
    x0 = row.cells
    row.add(f"{node.glyph} ", tint)
    row.add(clip(node.shown, plan.token), painter.mark(node.mark) + (CURSOR if node.cursor else PLAIN))
    row.spot(x0, node)
    row.to(x0 + 2 + plan.token)
    for name, value in (("q", said(node)), ("p", values.p)):
        row.add(f"  {name} ", FAINT)
        row.add(f"{prob(value):>4} ", tint)
        row.add(f"▕{bar(value, plan.bar)}▏" if plan.bar else "", tint)
    ratio_end = row.cells + plan.ratio
    if values.ratio is not None:
        row.add("  p/q ", FAINT)
        row.add(ratio(values.ratio), tint)
    row.to(ratio_end)
    row.add(f"  {drawn(node)}", tint)
    row.add(node.note, FAINT)
    return row
