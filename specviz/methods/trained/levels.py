"""EAGLE-3's tree: expand the best nodes of each level, keep the best of all in the end. Pure functions of numbers.

Level 1 holds the `k` best children of the root. Each further level runs the `k` best nodes of the level before, by
path probability, and offers `k` children of each; finally the `budget` best of all are kept (rerank). With k = 10 and
8 levels that is 10 + 7 * 100 = 710 candidates for 8 drafter calls.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from specviz.probability.draft import ROOT


@dataclass(slots=True)
class Candidate:
    """A candidate node; `row`: number of the expanded node that offered it, 0 the root."""

    token: int
    parent: int
    depth: int
    log: float
    cum: float
    rank: int
    row: int


@dataclass(slots=True)
class Levels:
    """The raw tree. `ends(token)`: nothing follows that token."""

    k: int
    deepest: int
    ends: Callable[[int], bool] = lambda token: False
    nodes: list[Candidate] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)  # expanded nodes in the order they ran, the root first

    def offer(self, parents: Sequence[int], offers: Sequence[tuple[Sequence[int], Sequence[float]]]) -> None:
        """Children of expanded nodes: for each its tokens with their log-probabilities, best first."""
        for parent, (tokens, logs) in zip(parents, offers, strict=True):
            self.rows.append(parent)
            for rank, (token, log) in enumerate(zip(tokens[: self.k], logs, strict=False), 1):
                self.add(parent, token, log, rank)

    def add(self, parent: int, token: int, log: float, rank: int) -> None:
        """A node that the row expanded last offered."""
        low = min(0.0, log)
        cum, depth = (0.0, 0) if parent == ROOT else (self.nodes[parent].cum, self.nodes[parent].depth)
        self.nodes.append(Candidate(token, parent, depth + 1, low, cum + low, rank, len(self.rows) - 1))

    def next(self) -> list[int]:
        """The `k` best nodes of the deepest level, those that end the text left out; none when deep enough."""
        level = max((node.depth for node in self.nodes), default=0)
        if level >= self.deepest:
            return []
        last = [n for n, node in enumerate(self.nodes) if node.depth == level and not self.ends(node.token)]
        return sorted(last, key=lambda n: (-self.nodes[n].cum, n))[: self.k]

    def path(self, node: int) -> list[int]:
        """Drafted tokens down to a node."""
        out: list[int] = []
        while node != ROOT:
            out.append(self.nodes[node].token)
            node = self.nodes[node].parent
        return out[::-1]

    def kept(self, budget: int) -> list[int]:
        """The `budget` best by (score, depth, number), ascending; closed, as no child outscores its parent."""
        order = sorted(range(len(self.nodes)), key=lambda n: (-self.nodes[n].cum, self.nodes[n].depth, n))
        kept = sorted(order[:budget])
        inside = {ROOT, *kept}
        assert all(self.nodes[n].parent in inside for n in kept), "pruning cut a node off from its parent"
        return kept
