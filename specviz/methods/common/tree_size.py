"""How large a drafted tree is worth being: nodes and calls until a round brings no more tokens for its time.

A round with the n likeliest nodes commits 1 + their chances together, and takes the drafter's calls and a pass over
1 + n rows, in passes over one row. Both the drafter's own chances and the costs are known without a clock, so a seed
gives the same trees everywhere. What the nodes below a node will get is guessed before the call that makes them: level
by level as much as the levels above got on average. Pure functions of numbers: no model, no device.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from specviz.methods.common.tree_builder import Levels, ScoredNode, ScoredTree

N = TypeVar("N", bound=ScoredNode)


@dataclass(frozen=True, slots=True)
class TreeCost:
    """In passes over one row: `rows(k)` of a pass over k of them, `call` of one call of the drafter."""

    rows: Callable[[int], float]
    call: float

    def of(self, nodes: int, calls: int) -> float:
        """A round with so many nodes sent, by so many calls."""
        return self.rows(1 + nodes) + calls * self.call

    def best(self, chances: Sequence[float], calls: int, most: int) -> tuple[int, float]:
        """How many of the likeliest nodes to send, at most `most`, and tokens a pass's time then. `chances`: that the
        text goes through a node, likeliest first. One is always sent: it costs next to nothing, and shows what the
        drafter said."""
        committed, best = 1.0, (0, 0.0)
        for n, chance in enumerate(chances[:most], 1):
            committed += chance
            rate = committed / self.of(n, calls)
            if rate > best[1]:
                best = n, rate
        return best

    def paying(
        self, chances: Sequence[float], hoped: Mapping[int, Sequence[float]], calls: int, most: int
    ) -> list[int]:
        """Of the nodes that one call more may go on from, those whose first child would be sent; none where the call
        does not pay. `hoped`: by node, the chances of the nodes it would get, first child first."""
        _, now = self.best(chances, calls, most)
        both = sorted([*chances, *(chance for line in hoped.values() for chance in line)], reverse=True)
        n, then = self.best(both, calls + 1, most)
        return [node for node, line in hoped.items() if line[0] >= both[n - 1]] if then > now else []


def chances(tree: ScoredTree[N]) -> list[float]:
    """Of a tree's nodes, likeliest first."""
    return sorted((math.exp(node.cum) for node in tree.nodes), reverse=True)


def hoped(tree: ScoredTree[N], nodes: Sequence[int], levels: int) -> dict[int, list[float]]:
    """What the best nodes below some nodes, one a level, may get: of what their children leave."""
    left = {node: math.exp(tree.cum(node)) for node in nodes}
    for grown in tree.nodes:
        if grown.parent in left:
            left[grown.parent] -= math.exp(grown.cum)
    rates = {node: math.exp(tree.cum(node) / tree.depth(node)) for node in nodes}
    return {node: [max(0.0, left[node]) * rates[node] ** n for n in range(1, levels + 1)] for node in nodes}


class PayingLevels(Levels):
    """Levels that are grown as long as one more can be expected to pay, from the nodes whose children could."""

    def __init__(self, k: int, deepest: int, ends: Callable[[int], bool], cost: TreeCost, most: int) -> None:
        super().__init__(k, deepest, ends)
        self.cost, self.most, self.calls = cost, most, 1

    def size(self, budget: int) -> int:
        """As many as pay."""
        return self.cost.best(chances(self), self.calls, self.most)[0]

    def next(self) -> list[int]:
        """Of the nodes that would be expanded, those that pay."""
        chosen = hoped(self, super().next(), 1)
        paying = self.cost.paying(chances(self), chosen, self.calls, self.most)
        self.calls += bool(paying)
        self.unpaid = bool(chosen) and not paying
        return paying
