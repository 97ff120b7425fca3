"""Layout: where each node of a round stands. Computed once from the final tree, so that nothing jumps while it appears.

Depth is the column, siblings stack in id order, a parent stands beside its first child. The closing token hangs below its
last sibling. Folded, only the kept path, what was tested beside it and the way to the cursor remain; what is left out is
counted where it stood.
"""

from collections.abc import Callable
from dataclasses import dataclass

from specviz.view.family import Family
from specviz.view.frame import CLOSING, ROOT, Fold, Link, LinkShape


@dataclass(frozen=True, slots=True)
class Layout:
    """Places of all nodes (`(column, row)` by id), the lines between them and what was folded."""

    places: dict[int, tuple[int, int]]
    links: tuple[Link, ...]
    folds: tuple[Fold, ...]
    n_columns: int
    n_rows: int
    order: tuple[int, ...]  # depth first, the order of a vertical list


@dataclass
class _Builder:
    family: Family
    hidden: Callable[[int], bool]

    def __post_init__(self) -> None:
        self.places: dict[int, tuple[int, int]] = {}
        self.links: list[Link] = []
        self.folds: list[Fold] = []
        self.order: list[int] = []
        self.n_rows = 0

    def build(self) -> Layout:
        self._place(ROOT, 0)
        columns = 1 + max((column for column, _ in self.places.values()), default=0)
        return Layout(
            self.places, tuple(self.links), tuple(self.folds), columns, self.n_rows, tuple(self.order)
        )  # fmt: skip

    def _place(self, node: int, column: int) -> None:
        """Put the node in the next free row, its children from that row on."""
        row = self.n_rows
        self.places[node] = (column, row)
        self.order.append(node)
        every = (*self.family.children.get(node, ()), *((CLOSING,) if self._closes(node) else ()))
        shown = [child for child in every if not self.hidden(child)]
        rows = []
        for child in shown:
            rows.append(max(self.n_rows, row))
            self.n_rows = rows[-1]
            self._place(child, column + 1)
        if not shown:
            self.n_rows = row + 1
        self._fold(node, column, [c for c in every if self.hidden(c)], bool(shown))
        self._link(column, rows)

    def _closes(self, node: int) -> bool:
        closing = self.family.record.closing
        return closing is not None and closing.kind != "none" and node == self.family.stop

    def _fold(self, node: int, column: int, gone: list[int], beside: bool) -> None:
        if not gone:
            return
        count = sum(1 + sum(1 for _ in self.family.descendants(child)) for child in gone)
        noun = "node" if not beside else "branch"
        n_named = count if not beside else len(gone)
        plural = {"node": "nodes", "branch": "branches"}[noun] if n_named != 1 else noun
        text = f"+ {n_named} other {plural}" if beside else f"+ {n_named} {plural} below"
        row = self.n_rows - (0 if beside else 1)
        self.folds.append(Fold(column + 1, row, node, count, text))
        self.n_rows += 1 if beside else 0

    def _link(self, column: int, rows: list[int]) -> None:
        """The lines from a node to its children's rows; `rows[0]` is the node's own."""
        if not rows:
            return
        at = dict.fromkeys(range(rows[0], rows[-1] + 1), "bar")
        for row in rows[1:-1]:
            at[row] = "branch"
        at[rows[-1]] = "corner"
        at[rows[0]] = "tee" if len(rows) > 1 else "line"
        self.links += [Link(column, row, _shape(shape)) for row, shape in at.items()]


def _shape(word: str) -> LinkShape:
    return word  # type: ignore[return-value]


def layout(family: Family, folded: bool = False, selected: int | None = None) -> Layout:
    """The places of a round's tree; `folded` leaves the losers out, except the way to `selected`."""
    if not folded:
        return _Builder(family, lambda node: False).build()
    keep = kept_in_view(family, selected)
    return _Builder(family, lambda node: node not in keep).build()


def kept_in_view(family: Family, selected: int | None) -> set[int]:
    """What folding leaves: the kept path, every tested node, the closing token and the selected node's line."""
    keep = {ROOT, CLOSING, *family.accepted, *(v.node for v in family.tests)}
    if not family.record.verdicts:  # nothing judged yet: there are no losers
        keep |= set(family.nodes)
    if selected in family.nodes:
        keep |= {selected, *family.ancestors(selected), *family.children.get(selected, ())}
    return keep
