"""Layout: where each node of a round stands. Computed once from the final tree, so that nothing jumps while it
appears.

Depth is the column, siblings stack in id order, a parent stands beside its first child. The closing token hangs
below its last sibling. Folded, only the kept path, what was tested beside it and the way to the cursor remain; what
is left out is counted where it stood.
"""

from collections.abc import Callable
from dataclasses import dataclass

from specviz.runlog.tree import RoundTree
from specviz.view.frame.frame import Fold, Folding, TreeLine
from specviz.view.words.numbers import plural
from specviz.view.words.palette import CLOSING, ROOT, LinkShape


@dataclass(frozen=True, slots=True)
class TreeLayout:
    """Places of all nodes (`(column, row)` by id), the lines between them and what was folded.

    `links` are those of the finished tree, `open_links` those before the closing token hangs in it.
    """

    places: dict[int, tuple[int, int]]
    links: tuple[TreeLine, ...]
    open_links: tuple[TreeLine, ...]
    folds: tuple[Fold, ...]
    n_columns: int
    n_rows: int
    order: tuple[int, ...]  # depth first, the order of a vertical list


@dataclass
class _Builder:
    family: RoundTree
    hidden: Callable[[int], bool]  # left out, and counted where it stood
    drafted: Callable[[int], bool] = lambda node: True  # not left out without a word

    def __post_init__(self) -> None:
        self.places: dict[int, tuple[int, int]] = {}
        self.links: list[TreeLine] = []
        self.open_links: list[TreeLine] = []
        self.folds: list[Fold] = []
        self.order: list[int] = []
        self.n_rows = 0

    def build(self) -> TreeLayout:
        self._place(ROOT, 0)
        columns = 1 + max((column for column, _ in self.places.values()), default=0)
        links, open_links = tuple(self.links), tuple(self.open_links)
        return TreeLayout(self.places, links, open_links, tuple(self.folds), columns, self.n_rows, tuple(self.order))

    def _place(self, node: int, column: int) -> None:
        """Put the node in the next free row, its children from that row on."""
        row = self.n_rows
        self.places[node] = (column, row)
        self.order.append(node)
        below = (*self.family.children.get(node, ()), *((CLOSING,) if self._closes(node) else ()))
        every = [child for child in below if self.drafted(child)]
        shown = [child for child in every if not self.hidden(child)]
        rows = []
        for child in shown:
            rows.append(max(self.n_rows, row))
            self.n_rows = rows[-1]
            self._place(child, column + 1)
        if not shown:
            self.n_rows = row + 1
        self._fold(node, column, [c for c in every if self.hidden(c)], bool(shown))
        self.links += _lines(column, rows)
        self.open_links += _lines(column, rows[:-1] if shown and shown[-1] == CLOSING else rows)

    def _closes(self, node: int) -> bool:
        closing = self.family.record.closing
        return closing is not None and closing.kind != "none" and node == self.family.stop

    def _fold(self, node: int, column: int, gone: list[int], beside: bool) -> None:
        if not gone:
            return
        count = sum(1 + sum(map(self.drafted, self.family.descendants(child))) for child in gone)
        if beside:
            text = f"+ {plural(len(gone), 'other branch', 'other branches')}"
        else:
            text = f"+ {plural(count, 'node')} below"
        row = self.n_rows - (0 if beside else 1)
        self.folds.append(Fold(column + 1, row, node, count, text))
        self.n_rows += 1 if beside else 0


def _lines(column: int, rows: list[int]) -> list[TreeLine]:
    """The lines from a node to its children's rows; `rows[0]` is the node's own."""
    if not rows:
        return []
    shapes: dict[int, LinkShape] = dict.fromkeys(range(rows[0], rows[-1] + 1), "bar")
    for row in rows[1:-1]:
        shapes[row] = "branch"
    shapes[rows[-1]] = "corner"
    shapes[rows[0]] = "tee" if len(rows) > 1 else "line"
    return [TreeLine(column, row, shape) for row, shape in shapes.items()]


def layout(family: RoundTree, folding: Folding = "none", selected: int | None = None) -> TreeLayout:
    """The places of a round's tree. `losers` leaves out what lost and led nowhere, except the way to `selected`."""

    def kept(node: int) -> bool:
        return node in (CLOSING, selected) or family.nodes[node].kept

    if folding == "losers":
        keep = kept_in_view(family, selected)
        return _Builder(family, lambda node: node not in keep, kept).build()
    if folding == "pruned":
        return _Builder(family, lambda node: False, kept).build()
    return _Builder(family, lambda node: False).build()


def kept_in_view(family: RoundTree, selected: int | None) -> set[int]:
    """What folding leaves: the kept path, every tested node, the closing token and the selected node's line."""
    keep = {ROOT, CLOSING, *family.accepted, *(v.node for v in family.tests)}
    if not family.record.verdicts:  # nothing judged yet: there are no losers
        keep |= set(family.nodes)
    if selected in family.nodes:
        keep |= {selected, *family.ancestors(selected), *family.children.get(selected, ())}
    return keep
