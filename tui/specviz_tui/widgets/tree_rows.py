"""Lines of the tree canvas with a node each: the tree as a list, and the table of what was judged.

Pure functions from a `TreeFrame` to styled pieces with the spots a click can hit; columns are in `tree_columns`.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from rich.cells import cell_len

from specviz.numerals import UNKNOWN, prob
from specviz.text import clip
from specviz.view.frame.frame import TreeFrame, TreeNode
from specviz.view.words.numbers import apart, within
from specviz_tui.common.paint import CURSOR, FAINT, PLAIN, Painter, bar
from specviz_tui.widgets.tree_columns import columns
from specviz_tui.widgets.tree_line import Row

__all__ = ["Row", "columns", "fits_below", "judged", "listed", "tests"]


def listed(
    tree: TreeFrame,
    painter: Painter,
    width: int,
    room: int = 0,
    badges: Mapping[int, str] | None = None,
    bars: str = "",
) -> list[Row]:
    """One node a line, depth as indent: all of them where `room` lines hold them, else the path to the cursor, what was
    kept, the siblings beside them, and as many more as there is room for. `badges`: by node, where it came from, in
    place of what decided; `bars`: of what its bar is, where that is not q."""
    shown = tree.nodes if len(tree.nodes) <= room else _near_cursor(tree, room)
    nodes = sorted(shown, key=lambda n: (n.row, n.column))
    below = _hidden_below(tree, nodes)
    number_at = min(26, 8 + max((n.depth + min(cell_len(n.shown), 14) for n in nodes), default=0))
    return [_listed(node, below.get(node.id, 0), painter, number_at, width, badges, bars) for node in nodes]


def _near_cursor(tree: TreeFrame, room: int) -> list[TreeNode]:
    by_id = {node.id: node for node in tree.nodes}
    open_ids = {node.id for node in tree.nodes if node.winning or node.cursor or node.depth == 0}
    at = next((node for node in tree.nodes if node.cursor), None)
    while at is not None and at.depth > 0:
        at = by_id.get(at.parent)
        if at is not None:
            open_ids.add(at.id)
    shown = {node.id for node in tree.nodes if node.depth == 0 or node.parent in open_ids}
    for node in sorted(tree.nodes, key=lambda node: (node.row, node.column)):  # a parent before its children
        if len(shown) < room and node.parent in shown:
            shown.add(node.id)
    return [node for node in tree.nodes if node.id in shown]


def _hidden_below(tree: TreeFrame, shown: list[TreeNode]) -> dict[int, int]:
    """How many nodes are left out under each shown one."""
    by_id, ids = {node.id: node for node in tree.nodes}, {node.id for node in shown}
    below: dict[int, int] = defaultdict(int)
    for node in tree.nodes:
        at: TreeNode | None = node
        while at is not None and at.id not in ids:
            at = by_id.get(at.parent)
        if at is not None and at is not node:
            below[at.id] += 1
    for fold in tree.folds:
        below[fold.parent] += fold.n_nodes
    return below


def _listed(
    node: TreeNode,
    n_below: int,
    painter: Painter,
    number_at: int,
    width: int,
    badges: Mapping[int, str] | None,
    bars: str,
) -> Row:
    row, style, tint = Row(), painter.mark(node.mark), painter.tint(node.mark)
    lit = CURSOR if node.cursor else PLAIN
    row.add(" " * (1 + node.depth))
    x0 = row.cells
    row.add(f"{node.glyph} ", tint + lit)
    row.add(clip(node.shown, max(4, number_at - row.cells - 1)), style + lit)
    row.spot(x0, node)
    row.to(number_at)
    if badges is not None:
        row.add(badges.get(node.id, node.note), PLAIN if node.id in badges else FAINT)
        return row
    if node.texts.q or node.texts.p:
        row.add(f"q {node.texts.q or UNKNOWN:>4} p {node.texts.p or UNKNOWN:>4} ", tint)
    if node.bar is not None:
        row.add(f"{bars and f'bar {bars} '}▕{bar(node.bar, 8)}▏ ", tint)
    row.add(drawn(node), tint)
    more = " · ".join(filter(None, (node.note, f"+ {n_below} below" if n_below else "")))
    if row.cells + cell_len(more) > width:
        more = f"+ {n_below}" if n_below else ""
    row.add(more if row.cells + cell_len(more) <= width else "", FAINT)
    return row


def said(node: TreeNode) -> float | None:
    """What the draft said: q, or its raw confidence where the token was not drawn from q."""
    return node.values.q if node.values.q is not None else node.values.conf


def drawn(node: TreeNode) -> str:
    """The draw that decided: against a threshold, or against the token's stretch of [0, 1)."""
    values, kept = node.values, node.mark == "accepted"
    if values.u is None:
        return ""
    if values.lo is not None and values.hi is not None and node.id >= 0:
        if values.hi <= values.lo:
            return f"u {prob(values.u)} never  "
        u, stretch = within(values.u, values.lo, values.hi, 2)
        return f"u {u} {'in' if kept else 'not in'} {stretch}  "
    if values.thr is None:
        return f"u {prob(values.u)}  "
    below = values.u < values.thr
    why = "" if below or not kept else "a longer one passed  "
    u, thr = apart(values.u, values.thr, least=2)
    return f"u {u} {'<' if below else '≥'} {thr}  {why}"


TABLED = ("accepted", "rejected", "testing", "recovered", "bonus", "plain")
RATIO = 11  # cells of `  p/q 1.02 `


@dataclass(frozen=True, slots=True)
class _JudgedColumns:
    token: int
    bar: int
    ratio: int


def judged(tree: TreeFrame, painter: Painter, width: int, room: int) -> list[Row]:
    """One row a node, in the order of the tests; [] when there is no room. Of a chain, the untested nodes too."""
    nodes = _to_judge(tree)
    if not nodes or len(nodes) + 1 > room:
        return []
    plan = _JudgedColumns(
        token=min(max(cell_len(node.shown) for node in nodes), 16 if width >= 92 else 11),
        bar=8 if width >= 92 else 5 if width >= 76 else 0,
        ratio=RATIO if any(node.values.ratio is not None for node in nodes) else 0,
    )
    in_order = sorted(nodes, key=lambda node: (node.depth, node.row))
    return [Row(pinned=True), *(_judged(node, plan, painter) for node in in_order)]


def _to_judge(tree: TreeFrame) -> list[TreeNode]:
    chain = is_chain(tree)
    return [n for n in tree.nodes if n.depth and (n.mark in TABLED or chain)]


def is_chain(tree: TreeFrame) -> bool:
    """Whether no node has a drafted sibling."""
    return max((node.row for node in tree.nodes if node.id >= 0), default=0) == 0


def fits_below(tree: TreeFrame, height: int, beside: bool) -> bool:
    """Whether the table of what was judged has its place below the tree: that of a chain, and where none is beside."""
    return (
        bool(tree.nodes)
        and (is_chain(tree) or not beside)
        and 1 + max(n.row for n in tree.nodes) + len(_to_judge(tree)) + 2 <= height
    )


def _judged(node: TreeNode, plan: _JudgedColumns, painter: Painter) -> Row:
    row, values, tint = Row(pinned=True), node.values, painter.tint(node.mark)
    row.add(f" {node.depth:>2} ", FAINT)
    x0 = row.cells
    row.add(f"{node.glyph} ", tint)
    row.add(clip(node.shown, plan.token), painter.mark(node.mark) + (CURSOR if node.cursor else PLAIN))
    row.spot(x0, node)
    row.to(x0 + 2 + plan.token)
    for name, value, text in (("q", said(node), node.texts.q), ("p", values.p, node.texts.p)):
        row.add(f"  {name} ", FAINT)
        row.add(f"{text or UNKNOWN:>4} ", tint)
        row.add(f"▕{bar(value, plan.bar)}▏" if plan.bar else "", tint)
    ratio_end = row.cells + plan.ratio
    if values.ratio is not None:
        row.add("  p/q ", FAINT)
        row.add(node.texts.ratio, tint)
    row.to(ratio_end)
    row.add(f"  {drawn(node)}", tint)
    row.add(node.note, FAINT)
    return row


_TESTS = 33  # cells of a line of `tests` without the token


def tests(tree: TreeFrame, painter: Painter, width: int, room: int) -> list[Row]:
    """What was judged, in the order of the tests, a column for each number; the first lines where `room` is short."""
    nodes = sorted((n for n in tree.nodes if n.depth and n.mark in TABLED), key=lambda n: (n.depth, n.row))
    if not nodes or room < 2:
        return []
    token = min(max(5, *(cell_len(node.shown) for node in nodes)), max(width - _TESTS, 8))
    head = Row(pinned=True)
    head.add(f"  d   {'token':<{token}}    q    p     u  kept if", FAINT)
    lines = [head, *(_tested(node, token, painter) for node in nodes[: room - 1])]
    left_out = len(nodes) - (room - 1)
    if left_out > 0:
        lines[-1] = Row(pinned=True)
        lines[-1].add(f"      + {left_out + 1} more", FAINT)
    return lines


def _tested(node: TreeNode, token: int, painter: Painter) -> Row:
    row, values, tint = Row(pinned=True), node.values, painter.tint(node.mark)
    row.add(f" {node.depth:>2} ", FAINT)
    x0 = row.cells
    row.add(f"{node.glyph} ", tint)
    row.add(clip(node.shown, token), painter.mark(node.mark) + (CURSOR if node.cursor else PLAIN))
    row.spot(x0, node)
    row.to(x0 + 2 + token)
    row.add(f" {node.texts.q or UNKNOWN:>4} {node.texts.p or UNKNOWN:>4}", tint)
    if values.u is not None:
        u, wanted = _kept_if(node, values.u)
        row.add(f"  {u:>4}", tint)
        row.add(f"  {wanted}", FAINT)
    return row


def _kept_if(node: TreeNode, u: float) -> tuple[str, str]:
    """The draw, and `< .29` or the stretch in which it draws the token."""
    values = node.values
    if values.lo is not None and values.hi is not None and values.hi > values.lo:
        shown, stretch = within(u, values.lo, values.hi, 2)
        return shown, f"in {stretch}"
    if values.thr is None:
        return prob(u), "" if values.lo is None else "never"
    shown, thr = apart(u, values.thr, least=2)
    return shown, f"< {thr}" if (u < values.thr) == (node.mark == "accepted") else "a longer one"
