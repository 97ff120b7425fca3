"""Lines of the tree canvas: pure functions from a `TreeFrame` to styled pieces with the spots a click can hit."""

from collections import defaultdict
from dataclasses import dataclass, field

from rich.cells import cell_len
from rich.style import Style

from specviz.text import clip
from specviz.view.frame.frame import Fold, TreeFrame, TreeLine, TreeNode
from specviz.view.words import palette
from specviz.view.words.numbers import prob, ratio
from specviz_tui.common.paint import CURSOR, FAINT, PLAIN, STRONG, Painter, bar

Piece = tuple[str, Style]
Thing = TreeNode | TreeLine | Fold
LINK, GAP = 3, 1
# Widest token, bar: the first that fits is taken.
FITS = ((18, 6), (18, 4), (18, 3), (18, 2), (18, 0), (12, 3), (12, 0), (9, 0), (7, 0))


@dataclass(slots=True)
class Row:
    """One line: pieces left to right, `(x0, x1, node)` spots, and the spot of the cursor."""

    pieces: list[Piece] = field(default_factory=list)
    spots: list[tuple[int, int, int]] = field(default_factory=list)
    cursor: tuple[int, int] | None = None
    cells: int = 0
    pinned: bool = False  # it does not scroll sideways

    def add(self, text: str, style: Style = PLAIN) -> None:
        if text:
            self.pieces.append((text, style))
            self.cells += cell_len(text)

    def to(self, x: int, fill: str = " ", style: Style = PLAIN) -> None:
        """Fill up to a column."""
        self.add(fill * (x - self.cells), style)

    def spot(self, x0: int, node: TreeNode) -> None:
        """Mark what was added since `x0` as the node's."""
        self.spots.append((x0, self.cells, node.id))
        if node.cursor:
            self.cursor = (x0, self.cells)


@dataclass(frozen=True, slots=True)
class _Columns:
    """Where columns begin and end, and the cells their tokens, values and bars have."""

    starts: tuple[int, ...]
    tokens: tuple[int, ...]
    values: tuple[int, ...]
    bar: int

    def end(self, column: int) -> int:
        """The first cell behind a column's nodes."""
        value = self.values[column]
        room = 2 + self.tokens[column] + (GAP + value if value else 0)
        return self.starts[column] + room + (GAP + self.bar if self.bar and value else 0)


def _columns(tree: TreeFrame, most: int, bar_cells: int) -> _Columns:
    tokens = tuple(min(cells, most) for cells in tree.column_cells)
    values = [0] * tree.n_columns
    for node in tree.nodes:
        values[node.column] = max(values[node.column], cell_len(node.value))
    starts = [1]
    for column in range(tree.n_columns):
        plan = _Columns(tuple(starts), tokens, tuple(values), bar_cells)
        starts.append(plan.end(column) + 2 * GAP + LINK)
    return _Columns(tuple(starts), tokens, tuple(values), bar_cells)


def columns(tree: TreeFrame, painter: Painter, width: int) -> list[Row]:
    """Columns by depth, as wide as their tokens; bars as long as the width allows, none when it is short."""
    if not tree.nodes:
        return []
    plans = (_columns(tree, most, bar_cells) for most, bar_cells in FITS)
    fitting = (plan for plan in plans if plan.end(tree.n_columns - 1) < width)
    plan = next(fitting, None) or _columns(tree, 12, 0)  # which scrolls sideways
    by_row: dict[int, list[Thing]] = defaultdict(list)
    things: list[Thing] = [*tree.nodes, *tree.links, *tree.folds]
    for thing in things:
        by_row[thing.row].append(thing)
    rows = []
    for y in range(max(by_row) + 1):
        row = Row()
        for thing in sorted(by_row[y], key=lambda t: (t.column, isinstance(t, TreeLine))):
            _place(row, thing, plan, painter)
        rows.append(row)
    return rows


def _place(row: Row, thing: Thing, plan: _Columns, painter: Painter) -> None:
    if isinstance(thing, TreeLine):
        x = plan.end(thing.column) + GAP
        if thing.shape in ("line", "tee"):
            row.to(row.cells + GAP)
            row.to(x, palette.link("line")[0], FAINT)
        row.to(x)
        row.add(palette.link(thing.shape), FAINT)
        return
    row.to(plan.starts[thing.column])
    if isinstance(thing, Fold):
        row.add(thing.text, FAINT)
        return
    _node(row, thing, plan, painter)


def _node(row: Row, node: TreeNode, plan: _Columns, painter: Painter) -> None:
    x0, style = row.cells, painter.mark(node.mark)
    tint = painter.tint(node.mark)
    lit = CURSOR if node.cursor else STRONG if node.fresh or node.winning else PLAIN
    shown = clip(node.shown, plan.tokens[node.column])
    row.add(f"{node.glyph} ", tint + lit)
    row.add(shown, style + lit)
    value = plan.values[node.column]
    if node.value:
        row.add(" " * (plan.tokens[node.column] - cell_len(shown)) + f" {node.value:>{value}}", tint + lit)
        if plan.bar and node.bar is not None:
            row.add(" ")
            row.add(bar(node.bar, plan.bar).rstrip(), tint)
    row.spot(x0, node)


def listed(tree: TreeFrame, painter: Painter, width: int) -> list[Row]:
    """One node a line, depth as indent: the path to the cursor, what was kept, and the siblings beside them."""
    nodes = sorted(_near_cursor(tree), key=lambda n: (n.row, n.column))
    below = _hidden_below(tree, nodes)
    number_at = min(26, 8 + max((n.depth + min(cell_len(n.shown), 14) for n in nodes), default=0))
    return [_listed(node, below.get(node.id, 0), painter, number_at, width) for node in nodes]


def _near_cursor(tree: TreeFrame) -> list[TreeNode]:
    by_id = {node.id: node for node in tree.nodes}
    open_ids = {node.id for node in tree.nodes if node.winning or node.cursor or node.depth == 0}
    at = next((node for node in tree.nodes if node.cursor), None)
    while at is not None and at.depth > 0:
        at = by_id.get(at.parent)
        if at is not None:
            open_ids.add(at.id)
    return [node for node in tree.nodes if node.depth == 0 or node.parent in open_ids]


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


def _listed(node: TreeNode, n_below: int, painter: Painter, number_at: int, width: int) -> Row:
    row, style, tint = Row(), painter.mark(node.mark), painter.tint(node.mark)
    lit = CURSOR if node.cursor else PLAIN
    row.add(" " * (1 + node.depth))
    x0 = row.cells
    row.add(f"{node.glyph} ", tint + lit)
    row.add(clip(node.shown, max(4, number_at - row.cells - 1)), style + lit)
    row.spot(x0, node)
    row.to(number_at)
    if said(node) is not None or node.values.p is not None:
        row.add(f"q {prob(said(node)):>4} p {prob(node.values.p):>4} ", tint)
    if node.bar is not None:
        row.add(f"▕{bar(node.bar, 8)}▏ ", tint)
    row.add(drawn(node), tint)
    row.add(node.note, FAINT)
    if n_below and row.cells < width - 10:
        row.add(f"  + {n_below} below", FAINT)
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
        return f"u {prob(values.u)} {'in' if kept else 'not in'} [{prob(values.lo, 3)}, {prob(values.hi, 3)})  "
    if values.thr is None:
        return f"u {prob(values.u)}  "
    return f"u {prob(values.u)} {'<' if kept else '≥'} {prob(values.thr)}  "


TABLED = ("accepted", "rejected", "testing", "recovered", "bonus", "plain")
RATIO = 11  # cells of `  p/q 1.02 `


@dataclass(frozen=True, slots=True)
class _JudgedColumns:
    token: int
    bar: int
    ratio: int


def judged(tree: TreeFrame, painter: Painter, width: int, room: int) -> list[Row]:
    """One row a node, in the order of the tests; [] when there is no room. Of a chain, the untested nodes too."""
    is_chain = max((node.row for node in tree.nodes if node.id >= 0), default=0) == 0
    nodes = [n for n in tree.nodes if n.depth and (n.mark in TABLED or is_chain)]
    if not nodes or len(nodes) + 1 > room:
        return []
    plan = _JudgedColumns(
        token=min(max(cell_len(node.shown) for node in nodes), 16 if width >= 92 else 11),
        bar=8 if width >= 92 else 5 if width >= 76 else 0,
        ratio=RATIO if any(node.values.ratio is not None for node in nodes) else 0,
    )
    in_order = sorted(nodes, key=lambda node: (node.depth, node.row))
    return [Row(pinned=True), *(_judged(node, plan, painter) for node in in_order)]


def _judged(node: TreeNode, plan: _JudgedColumns, painter: Painter) -> Row:
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
