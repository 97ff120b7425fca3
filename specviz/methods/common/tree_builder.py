"""Growing a draft tree by path probability: which nodes to expand next, and which to keep in the end.

Pure functions of numbers: no model, no device. `ScoredTree` is what every tree drafter grows by. `Levels` is EAGLE-3's
rule, also that of a draft model's best continuations: expand the best nodes of each level, keep the best of all.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from specviz.probability.draft import ROOT


class ScoredNode(Protocol):
    """A node below `parent`, `depth` levels from the root; `cum`: log of the probability of its path."""

    token: int
    parent: int
    depth: int
    cum: float


N = TypeVar("N", bound=ScoredNode)


class ScoredTree(Generic[N]):
    """Nodes by number, in the order they were made. `ends(token)`: nothing follows that token."""

    def __init__(self, ends: Callable[[int], bool] = lambda token: False) -> None:
        self.ends = ends
        self.nodes: list[N] = []

    def depth(self, node: int) -> int:
        """Depth of a node, 0 for the root."""
        return 0 if node == ROOT else self.nodes[node].depth

    def cum(self, node: int) -> float:
        """Log of the drafted path's probability."""
        return 0.0 if node == ROOT else self.nodes[node].cum

    def path(self, node: int) -> list[int]:
        """Drafted tokens down to a node."""
        out: list[int] = []
        while node != ROOT:
            out.append(self.nodes[node].token)
            node = self.nodes[node].parent
        return out[::-1]

    def best(self, nodes: Iterable[int], n: int) -> list[int]:
        """The n most probable of some nodes, best first; of equals the older."""
        return sorted(nodes, key=lambda node: (-self.cum(node), node))[:n]

    def pruned(self, budget: int) -> list[int]:
        """The `budget` best nodes by (score, depth, number), ascending.

        Logs are at most 0 and joined scores are maxima, so no child outscores its parent: the set is closed.
        """
        order = sorted(range(len(self.nodes)), key=lambda n: (-self.nodes[n].cum, self.nodes[n].depth, n))
        kept = sorted(order[:budget])
        inside = {ROOT, *kept}
        assert all(self.nodes[n].parent in inside for n in kept), "pruning cut a node off from its parent"
        return kept


@dataclass(slots=True)
class LevelNode:
    """A candidate node; `row`: number of the expanded node that offered it, 0 the root; `rank` there, from 1."""

    token: int
    parent: int
    depth: int
    log: float
    cum: float
    rank: int
    row: int


class Levels(ScoredTree[LevelNode]):
    """A tree grown level by level: of each level the `k` best nodes are expanded, down to `deepest`.

    `rows`: expanded nodes in the order they ran, the root first. With k = 10 children each and 8 levels EAGLE-3 has
    10 + 7 * 100 = 710 candidates for 8 drafter calls.
    """

    def __init__(self, k: int, deepest: int, ends: Callable[[int], bool] = lambda token: False) -> None:
        super().__init__(ends)
        self.k, self.deepest = k, deepest
        self.rows: list[int] = []
        self.unpaid = False  # more could have been grown, and was not worth a call

    def size(self, budget: int) -> int:
        """How many nodes to send; a `budget` below 0 sets no bound."""
        return len(self.nodes) if budget < 0 else budget

    def offer(self, parents: Sequence[int], offers: Iterable[tuple[Sequence[int], Sequence[float]]]) -> None:
        """Children of expanded nodes: for each its tokens with their log-probabilities, best first."""
        for parent, (tokens, logs) in zip(parents, offers, strict=True):
            self.rows.append(parent)
            for rank, (token, log) in enumerate(zip(tokens, logs, strict=True), 1):
                self.add(parent, token, log, rank)

    def add(self, parent: int, token: int, log: float, rank: int) -> None:
        """A node that the row expanded last offered."""
        low = min(0.0, log)
        row = len(self.rows) - 1
        self.nodes.append(LevelNode(token, parent, self.depth(parent) + 1, low, self.cum(parent) + low, rank, row))

    def alive(self) -> list[int]:
        """The nodes of the deepest level, those that end the text left out."""
        level = max((node.depth for node in self.nodes), default=0)
        return [n for n, node in enumerate(self.nodes) if node.depth == level and not self.ends(node.token)]

    def next(self) -> list[int]:
        """The nodes to expand: the `k` best of the deepest level; none when that is deep enough."""
        if self.nodes and self.nodes[-1].depth >= self.deepest:
            return []
        return self.best(self.alive(), self.k)
