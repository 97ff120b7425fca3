"""The tree in columns by depth, root first. Where not all columns fit, those around the cursor are wide and hold `glyph
token value`, with a bar where there is room; the others shrink to their glyphs, so the whole depth stays in sight.

A line is painted when it is looked at: a tree may have thousands.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter

from rich.cells import cell_len

from specviz.text import clip
from specviz.view.frame.frame import Fold, TreeFrame, TreeLine, TreeNode
from specviz.view.words import palette
from specviz_tui.common.paint import CURSOR, FAINT, PLAIN, STRONG, Painter, bar
from specviz_tui.widgets.tree_line import Row

Thing = TreeNode | TreeLine | Fold
Cells = tuple[int, ...]
LINK, GAP = 3, 1
# Widest token, bar: the first that fits is taken.
FITS = ((18, 6), (18, 4), (18, 3), (18, 2), (18, 0), (12, 3), (12, 0), (9, 0), (7, 0))
SMALL = (14, 11, 9)  # widest token where only some columns are wide: what makes most of them wide is taken
ROOT_CELLS = 6  # of the root's token then
NEXT_TO = 3  # columns that come before the root's: the cursor's, the one behind it, the one in front
LEFT = 1  # the first cell of the root


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """Where columns begin (and what would stand behind the last), and the cells their tokens, values, bars and the
    lines behind them have. A column without cells for tokens is one of glyphs."""

    starts: tuple[int, ...]
    tokens: tuple[int, ...]
    values: tuple[int, ...]
    links: tuple[int, ...]
    bar: int

    def wide(self, column: int) -> bool:
        return self.tokens[column] > 0

    def end(self, column: int) -> int:
        """The first cell behind a column's nodes."""
        if not self.wide(column):
            return self.starts[column] + 1
        value = self.values[column]
        room = 2 + self.tokens[column] + (GAP + value if value else 0)
        return self.starts[column] + room + (GAP + self.bar if self.bar and value else 0)

    @property
    def cells(self) -> int:
        return self.end(len(self.tokens) - 1)


def column_plan(tree: TreeFrame, width: int, around: int) -> ColumnPlan:
    """The widest form that fits `width` cells; wide columns are those nearest to `around`."""
    values = [0] * tree.n_columns
    for node in tree.nodes:
        values[node.column] = max(values[node.column], cell_len(node.value))
    return _planned(tree.column_cells[: tree.n_columns], tuple(values), width, around)


@lru_cache(64)
def _planned(cells: Cells, values: Cells, width: int, around: int) -> ColumnPlan:
    every = range(len(cells))
    for most, bar_cells in FITS:
        plan = _plan(cells, values, most, bar_cells, every)
        if plan.cells < width:
            return plan
    some = [_around(cells, values, most, width, around) for most in SMALL]
    plans = [plan for plan in some if plan is not None] or [_plan(cells, values, 0, 0, ())]
    return max(plans, key=lambda plan: sum(map(bool, plan.tokens)))


def _around(cells: Cells, values: Cells, most: int, width: int, around: int) -> ColumnPlan | None:
    wide: list[int] = []
    nearest = None
    for column in _nearest(len(cells), around):
        plan = _plan(cells, values, most, 0, [*wide, column])
        if plan.cells >= width:
            break
        wide.append(column)
        nearest = plan
    return nearest


def _nearest(n: int, around: int) -> Iterator[int]:
    """Columns by their distance, the one behind before the one in front, for that is what comes next; the root early,
    for all hangs on it."""
    order = sorted(range(n), key=lambda column: (abs(column - around), column < around))
    before = sorted(range(n), key=lambda column: (abs(column - around), column > around))
    yield from dict.fromkeys([*order[:NEXT_TO], 0, *before] if n else [])


def _plan(cells: Cells, values: Cells, most: int, bar_cells: int, wide: Iterable[int]) -> ColumnPlan:
    open_ = set(wide)
    limit = [min(most, ROOT_CELLS) if column == 0 and len(open_) < len(cells) else most for column in range(len(cells))]
    tokens = tuple(max(1, min(widest, limit[c])) if c in open_ else 0 for c, widest in enumerate(cells))
    starts, links = [LEFT], []
    for column in range(len(cells)):
        plan = ColumnPlan(tuple(starts), tokens, values, (), bar_cells)
        both = column in open_ and column + 1 in open_
        links.append(2 * GAP + LINK if both else 1)
        starts.append(plan.end(column) + links[-1])
    return ColumnPlan(tuple(starts), tokens or (0,), values or (0,), tuple(links), bar_cells)


class ColumnGrid:
    """The lines of a tree in columns."""

    def __init__(self, tree: TreeFrame, painter: Painter, width: int, around: int | None = None) -> None:
        self.tree, self.painter, self.width = tree, painter, width
        self.plan = column_plan(tree, width, looked_at(tree) if around is None else around)
        self._things: dict[int, list[Thing]] = defaultdict(list)
        things: list[Thing] = [*tree.nodes, *tree.folds, *tree.links]
        for thing in sorted(things, key=attrgetter("column")):
            self._things[thing.row].append(thing)
        self.n_rows = 1 + max(self._things, default=-1)

    def row(self, y: int) -> Row:
        """A line, painted."""
        row, starts = Row(), self.plan.starts
        for thing in self._things.get(y, ()):
            if isinstance(thing, TreeLine):
                self._link(row, thing)
                continue
            row.to(starts[min(thing.column, len(starts) - 1)])
            if isinstance(thing, Fold):
                room = self.width - row.cells - 1
                short = " ".join(thing.text.split()[:2])  # `+ 9`
                row.add(thing.text if cell_len(thing.text) <= room else short if cell_len(short) <= room else "", FAINT)
            else:
                self._node(row, thing)
        return row

    def ruler(self) -> Row:
        """The line above: the depth of every wide column, a point for every other."""
        row = Row(pinned=True)
        for column, start in enumerate(self.plan.starts[: self.tree.n_columns]):
            if start < row.cells:
                continue
            row.to(start)
            name = str(column) if self.plan.wide(column) or not column % 5 else "·"
            row.add("depth 0" if not column and self.plan.end(0) > LEFT + len("depth 0") else name, FAINT)
        return row

    def _link(self, row: Row, line: TreeLine) -> None:
        through, narrow = line.shape in ("line", "tee"), self.plan.links[line.column] == 1
        x = self.plan.end(line.column) + (0 if narrow else GAP)
        if through:
            row.to(min(row.cells + GAP, x))
            row.to(x, palette.link("line")[0], FAINT)
        row.to(x)
        shape = palette.link(line.shape)
        row.add(shape[1] if narrow else shape, FAINT)

    def _node(self, row: Row, node: TreeNode) -> None:
        """Its glyph; where the column is wide, its token, value and bar too."""
        x0, plan, tint = row.cells, self.plan, self.painter.tint(node.mark)
        lit = CURSOR if node.cursor else STRONG if node.fresh or node.winning else PLAIN
        if not plan.wide(node.column):
            row.add(node.glyph, tint + lit)
            row.spot(x0, node)
            return
        shown = clip(node.shown, plan.tokens[node.column])
        row.add(f"{node.glyph} ", tint + lit)
        row.add(shown, self.painter.mark(node.mark) + lit)
        value = plan.values[node.column]
        if node.value:
            row.add(" " * (plan.tokens[node.column] - cell_len(shown)) + f" {node.value:>{value}}", tint + lit)
            if plan.bar and node.bar is not None:
                row.add(" ")
                row.add(bar(node.bar, plan.bar).rstrip(), tint)
        row.spot(x0, node)


def looked_at(tree: TreeFrame) -> int:
    """The column of the cursor; without one that of the last kept node."""
    at = next((node.column for node in tree.nodes if node.cursor), None)
    return at if at is not None else max((node.column for node in tree.nodes if node.winning), default=0)


def columns(tree: TreeFrame, painter: Painter, width: int) -> list[Row]:
    """Every line of the tree, painted."""
    grid = ColumnGrid(tree, painter, width)
    return [grid.row(y) for y in range(grid.n_rows)]
