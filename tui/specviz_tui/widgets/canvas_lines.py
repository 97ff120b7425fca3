"""The lines of the tree canvas as a whole, and the ruler above the columns."""

from specviz.runlog.run import Mark
from specviz.view.words.numbers import bar as spark
from specviz_tui.common.paint import BARRED, FAINT
from specviz_tui.widgets.tree_columns import ColumnGrid
from specviz_tui.widgets.tree_line import Row

_TOLD: tuple[Mark, ...] = ("accepted", "recovered", "bonus", "rejected")  # what the ruler tells of a depth


class CanvasLines:
    """The lines of a canvas, each painted when it is asked for: some above the grid, the grid, some below it."""

    def __init__(self, head: list[Row] | None = None, grid: ColumnGrid | None = None, tail: list[Row] | None = None):
        self._head, self._grid, self._tail = head or [], grid, tail or []
        self._painted: dict[int, Row] = {}

    def __len__(self) -> int:
        return len(self._head) + (self._grid.n_rows if self._grid is not None else 0) + len(self._tail)

    def row(self, y: int) -> Row:
        at = y - len(self._head)
        if at < 0:
            return self._head[y]
        if self._grid is None or at >= self._grid.n_rows:
            return self._tail[at - (self._grid.n_rows if self._grid is not None else 0)]
        if y not in self._painted:
            self._painted[y] = self._grid.row(at)
        return self._painted[y]

    def same(self, other: "CanvasLines", y: int) -> bool:
        """Whether a line looks as it does there."""
        here, there = y < len(self), y < len(other)
        if not here or not there:
            return here == there
        one, two = self.row(y), other.row(y)
        return one.pieces == two.pieces and one.pinned == two.pinned

    @property
    def widest(self) -> int:
        """Cells of the lines that scroll sideways; of a grid by its columns."""
        return max(
            [row.cells for row in self._head if not row.pinned] + ([self._grid.plan.cells] if self._grid else []),
            default=0,
        )

    @property
    def cursor(self) -> int | None:
        """The line with the cursor."""
        if self._grid is None:
            return next((y for y, row in enumerate(self._head) if row.cursor is not None), None)
        at = next((node.row for node in self._grid.tree.nodes if node.cursor), None)
        return None if at is None else at + len(self._head)


def ruler(grid: ColumnGrid, width: int) -> Row:
    """Depths on the left; on the right how many nodes each depth has, in the colour of what became of it there."""
    row, minimap = grid.ruler(), grid.tree.map
    if minimap is None or not minimap.n_folded or not minimap.cells:
        return row
    words = f" {minimap.n_nodes - minimap.n_folded} of {minimap.n_nodes} shown "
    if row.cells + len(words) + len(minimap.sizes) > width:
        words = words.rstrip()
        if row.cells + len(words) <= width:
            row.to(width - len(words))
            row.add(words, FAINT)
        return row
    row.to(width - len(words) - len(minimap.sizes))
    row.add(words, FAINT)
    most = max(minimap.sizes)
    for size, *cells in zip(minimap.sizes, *minimap.cells, strict=True):
        marks = [cell.mark for cell in cells if cell is not None]
        kept = next((mark for mark in _TOLD if mark in marks), None)
        row.add(spark(size, most), (grid.painter.tint(kept) if kept is not None else FAINT) + BARRED)
    return row
