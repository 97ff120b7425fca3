"""What is shown of a tree that is larger than its room, and the small map of all of it.

Nodes come in by what they say: the path that was kept and the closing token, the selected node with its neighbours, the
tested ones in the order of their tests, then those that the draft was surest of. A node brings the way to it. What is
left out is counted where it stood. The choice is made from the finished round, so nothing jumps while it is played.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from specviz.runlog.run import Mark
from specviz.runlog.tree import RoundTree
from specviz.view.frame.frame import MapCell, TreeMap, TreeViewport
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
_WEIGHTS = {mark: weight for weight, mark in enumerate(_WEIGHT)}


def below(tree: RoundTree, node: int) -> tuple[int, ...]:
    """The children of a node as they stand below each other: the closing token is the last one of its parent."""
    born, closing = tree.children.get(node, ()), tree.record.closing if node == tree.stop else None
    return (*born, CLOSING) if closing is not None and closing.kind != "none" else born


@dataclass(frozen=True, slots=True)
class TreeChildren:
    """The tree to fit into the viewport. `born`: children by node, closing token included; `n_below`: descendants."""

    round_tree: RoundTree
    born: Mapping[int, list[int]]
    n_below: Mapping[int, int]

    @classmethod
    def of(cls, tree: RoundTree, eligible: Callable[[int], bool]) -> "TreeChildren":
        born = {node: [child for child in below(tree, node) if eligible(child)] for node in (ROOT, *tree.nodes)}
        sizes = dict.fromkeys((ROOT, *tree.nodes), 0)
        for node in sorted(tree.nodes, key=lambda i: -tree.depth[i]):  # from the leaves up
            sizes[tree.parent(node)] += sizes[node] + eligible(node)
        return cls(tree, born, sizes)

    def among(self, keep: set[int]) -> "TreeChildren":
        """Only some of them; sizes stay."""
        born = {node: [child for child in born if child in keep] for node, born in self.born.items()}
        return TreeChildren(self.round_tree, born, self.n_below)


def every_kin(tree: RoundTree) -> TreeChildren:
    """All nodes of a round."""
    return TreeChildren.of(tree, lambda node: True)


def drafted_kin(tree: RoundTree, selected: int | None) -> TreeChildren:
    """Without what was pruned before the target saw it, but for the selected node; worked out once for a round."""
    odd = selected if selected in tree.nodes and not tree.nodes[selected].kept else None
    key = ("kin", odd)
    if key not in tree.known:
        tree.known[key] = TreeChildren.of(tree, lambda node: node in (CLOSING, odd) or tree.nodes[node].kept)
    kin: TreeChildren = tree.known[key]
    return kin


class TreePruner:
    """The lines that a choice of nodes takes: one for a node without shown children, one for a count of hidden ones
    beside shown ones. In a list one for each node. `kin`: nodes that may be shown at all."""

    def __init__(self, kin: TreeChildren, room: TreeViewport) -> None:
        round_tree = self.round_tree = kin.round_tree
        self.listed, self.kin = room.listed, kin.born
        self.parent = {child: node for node, born in self.kin.items() for child in born}
        self.surest = _by_odds(round_tree)
        self._begin(room.rows)

    def _begin(self, most: int) -> None:
        self.most, self.rows = most, 1
        self.shown = {ROOT}
        self.n_shown = dict.fromkeys(self.kin, 0)

    def fitted(self, rows: int, selected: int | None) -> set[int]:
        """The nodes that are shown in so many lines; a few more where the selected one needs them."""
        self._begin(rows)
        for node in (*self.round_tree.accepted, *((CLOSING,) if CLOSING in self.parent else ())):
            self.take(node, must=True)
        for node, must in _around(self.round_tree, self, selected):
            self.take(node, must)
        for verdict in self.round_tree.tests:
            self.take(verdict.node)
        for node in self.surest:
            self.take(node)
        return self.shown

    def take(self, node: int, must: bool = False) -> None:
        """Show a node and the way to it, if there is room."""
        way = []
        while node not in self.shown:
            if node not in self.parent:
                return
            way.append(node)
            node = self.parent[node]
        rows = len(way) if self.listed else self._more(node, way)
        if way and (must or self.rows + rows <= self.most):
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


def _around(tree: RoundTree, fit: TreePruner, selected: int | None) -> Iterator[tuple[int, bool]]:
    """The selected node, its neighbours, then all its siblings and children, the nearest first."""
    if selected is None or selected == ROOT or selected not in fit.parent:
        born = fit.kin[ROOT] if selected == ROOT else []
        yield from ((child, at < _BESIDE) for at, child in enumerate(born))
        return
    yield selected, True
    if fit.listed:  # the lines before and behind it, wherever they hang
        order = list(fit.in_order(ROOT))
        here = order.index(selected)
        yield from ((node, True) for node in order[max(0, here - 1) : here + 2])
    children, siblings = fit.kin.get(selected, []), fit.kin[fit.parent[selected]]
    at = siblings.index(selected)
    near = sorted(siblings, key=lambda child: abs(siblings.index(child) - at))
    yield from ((child, abs(siblings.index(child) - at) < _BESIDE) for child in near)
    yield from ((child, place < _BESIDE) for place, child in enumerate(children))


def _by_odds(tree: RoundTree) -> list[int]:
    """All nodes, the surest first; worked out once for a round."""
    if "by_odds" not in tree.known:
        tree.known["by_odds"] = sorted(tree.nodes, key=_surest(tree))
    ranked: list[int] = tree.known["by_odds"]
    return ranked


def _surest(tree: RoundTree) -> Callable[[int], tuple[float, int]]:
    """Sorts nodes by the odds that the draft gave their paths, the likeliest first; a parent before its children."""
    odds: dict[int, float] = {ROOT: 0.0}
    for node, born in tree.nodes.items():
        log_odds = born.logq if born.logq is not None else born.log_conf
        siblings = tree.children[tree.parent(node)]
        here = log_odds if log_odds is not None else -_LATER * (1 + siblings.index(node))
        odds[node] = odds.get(tree.parent(node), 0.0) + min(here, 0.0)
    return lambda node: (-odds[node], tree.depth[node])


def tree_map(
    marks: Mapping[int, Mark],
    places: Mapping[int, tuple[int, int]],
    shown: set[int],
    selected: int | None,
    most: int,
) -> TreeMap:
    """All nodes that are there by now (`marks`), in at most `most` lines: `places` are `(column, row)` with nothing
    folded."""
    n_rows = 1 + max((row for _, row in places.values()), default=0)
    n_columns = 1 + max((column for column, _ in places.values()), default=0)
    lines = min(n_rows, most)
    cells: list[list[MapCell | None]] = [[None] * n_columns for _ in range(lines)]
    here = [node for node in places if node in marks]
    sizes = [0] * n_columns
    for node in here:
        column, row = places[node]
        sizes[column] += 1
        line = row * lines // n_rows
        cell = MapCell(marks[node], node in shown, node == selected)
        cells[line][column] = _weightier(cells[line][column], cell)
    folded = sum(node not in shown for node in here)
    return TreeMap(tuple(map(tuple, cells)), tuple(sizes), len(here), folded)


def _weightier(old: MapCell | None, new: MapCell) -> MapCell:
    if old is None:
        return new
    heavy = new if _WEIGHTS[new.mark] > _WEIGHTS[old.mark] else old
    return MapCell(heavy.mark, old.shown or new.shown, old.cursor or new.cursor)
