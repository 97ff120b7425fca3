"""What is shown of a tree that is larger than its room, and the small map of all of it.

Nodes come in by what they say: the path that was kept and the closing token, the selected node with its neighbours, the
tested ones in the order of their tests, then those that the draft was surest of. A node brings the way to it. What is
left out is counted where it stood. The choice is made from the finished round, so nothing jumps while it is played.
"""

from collections.abc import Callable, Iterator, Mapping

from specviz.runlog.run import Mark
from specviz.runlog.tree import RoundTree
from specviz.view.frame.frame import MapCell, TreeMap, TreeRoom
from specviz.view.frame.steps import Moment
from specviz.view.words.palette import CLOSING, ROOT

_BESIDE = 2  # siblings on either side of the selected node, and first children, that are shown whatever the room
_LATER = 1e-3  # nats by which a sibling counts less than the one before it, where the draft gives no odds
# Of several nodes in one spot of the map, the first of these is seen.
_WEIGHT: tuple[Mark, ...] = (
    "pruned",
    "untested",
    "drafted",
    "rejected",
    "testing",
    "plain",
    "bonus",
    "recovered",
    "accepted",
    "root",
)


def below(family: RoundTree, node: int) -> tuple[int, ...]:
    """The children of a node as they stand below each other: the closing token is the last one of its parent."""
    born, closing = family.children.get(node, ()), family.record.closing if node == family.stop else None
    return (*born, CLOSING) if closing is not None and closing.kind != "none" else born


def fitted(family: RoundTree, room: TreeRoom, selected: int | None, eligible: Callable[[int], bool]) -> set[int]:
    """The nodes that are shown in `room.rows` lines; a few more where the selected one needs them. `eligible`: those
    that may be shown at all."""
    fit = _Fit(family, room, eligible)
    for node in (*family.accepted, *((CLOSING,) if CLOSING in fit.parent else ())):
        fit.take(node, must=True)
    for node, must in _around(family, fit, selected):
        fit.take(node, must)
    for verdict in family.tests:
        fit.take(verdict.node)
    for node in sorted(family.nodes, key=_surest(family)):
        fit.take(node)
    return fit.shown


class _Fit:
    """The lines that a choice of nodes takes: one for a node without shown children, one for a count of hidden ones
    beside shown ones. In a list one for each node."""

    def __init__(self, family: RoundTree, room: TreeRoom, eligible: Callable[[int], bool]) -> None:
        self.room = room
        self.kin: Mapping[int, list[int]] = {
            node: [child for child in below(family, node) if eligible(child)] for node in (ROOT, *family.nodes)
        }
        self.parent = {child: node for node, born in self.kin.items() for child in born}
        self.shown = {ROOT}
        self.n_shown = dict.fromkeys(self.kin, 0)
        self.rows = 1

    def take(self, node: int, must: bool = False) -> None:
        """Show a node and the way to it, if there is room."""
        way = []
        while node not in self.shown:
            if node not in self.parent:
                return
            way.append(node)
            node = self.parent[node]
        rows = len(way) if self.room.listed else self._more(node, way)
        if way and (must or self.rows + rows <= self.room.rows):
            self.rows += rows
            for child in way:
                self.shown.add(child)
                self.n_shown[self.parent[child]] += 1

    def in_order(self, node: int) -> Iterator[int]:
        """A node and all below it, as a list of all of them would have it."""
        yield node
        for child in self.kin.get(node, ()):
            yield from self.in_order(child)

    def _more(self, top: int, way: list[int]) -> int:
        """Lines for a way of new nodes below `top`, the last one first: all but that one have one shown child then."""
        if not way:
            return 0
        shown, every = self.n_shown[top], len(self.kin[top])
        counts = sum(len(self.kin[node]) > 1 for node in way[1:])
        return counts + int(shown > 0) + int(every > shown + 1) - int(0 < shown < every)


def _around(family: RoundTree, fit: _Fit, selected: int | None) -> Iterator[tuple[int, bool]]:
    """The selected node, its neighbours, then all its siblings and children, the nearest first."""
    if selected is None or selected == ROOT or selected not in fit.parent:
        born = fit.kin[ROOT] if selected == ROOT else []
        yield from ((child, at < _BESIDE) for at, child in enumerate(born))
        return
    yield selected, True
    if fit.room.listed:  # the lines before and behind it, wherever they hang
        order = list(fit.in_order(ROOT))
        here = order.index(selected)
        yield from ((node, True) for node in order[max(0, here - 1) : here + 2])
    children, siblings = fit.kin.get(selected, []), fit.kin[fit.parent[selected]]
    at = siblings.index(selected)
    near = sorted(siblings, key=lambda child: abs(siblings.index(child) - at))
    yield from ((child, abs(siblings.index(child) - at) < _BESIDE) for child in near)
    yield from ((child, place < _BESIDE) for place, child in enumerate(children))


def _surest(family: RoundTree) -> Callable[[int], tuple[float, int]]:
    """Sorts nodes by the odds that the draft gave their paths, the likeliest first; a parent before its children."""
    odds: dict[int, float] = {ROOT: 0.0}
    for node, born in family.nodes.items():
        said = born.logq if born.logq is not None else born.log_conf
        siblings = family.children[family.parent(node)]
        here = said if said is not None else -_LATER * (1 + siblings.index(node))
        odds[node] = odds.get(family.parent(node), 0.0) + min(here, 0.0)
    return lambda node: (-odds[node], family.depth[node])


def tree_map(
    family: RoundTree,
    now: Moment,
    places: Mapping[int, tuple[int, int]],
    shown: set[int],
    selected: int | None,
    most: int,
) -> TreeMap:
    """All nodes that are there by now, in at most `most` lines: `places` are `(column, row)` with nothing folded."""
    n_rows = 1 + max((row for _, row in places.values()), default=0)
    n_columns = 1 + max((column for column, _ in places.values()), default=0)
    lines = min(n_rows, most)
    cells: list[list[MapCell | None]] = [[None] * n_columns for _ in range(lines)]
    here = [node for node in places if now.visible(family, node)]
    sizes = [0] * n_columns
    for node in here:
        column, row = places[node]
        sizes[column] += 1
        line = row * lines // n_rows
        cell = MapCell(now.mark(family, node), node in shown, node == selected)
        cells[line][column] = _weightier(cells[line][column], cell)
    folded = sum(node not in shown for node in here)
    return TreeMap(tuple(map(tuple, cells)), tuple(sizes), len(here), folded)


def _weightier(old: MapCell | None, new: MapCell) -> MapCell:
    if old is None:
        return new
    heavy = max(old, new, key=lambda cell: _WEIGHT.index(cell.mark))
    return MapCell(heavy.mark, old.shown or new.shown, old.cursor or new.cursor)
