"""The decisions of a round made again from the rows of two tables, by nothing but the rules and the keys of the draws.

Written for tests, apart from the verifiers, the plan and the probe: tests in the order a rule makes them, each with the
node judged, what the row required there gives its token, the keep chance and the uniform of its own ordinal.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from specviz import events as ev
from specviz.probability.philox import uniform

Text = tuple[int, ...]
RowOf = Callable[[Text], Any]  # [V] after prompt + text


@dataclass(frozen=True)
class Made:
    """A test as it must have been made. `left`: what failed tests left of its row, None for the target's own row."""

    node: int
    p: float
    left: float | None
    thr: float
    u: float

    @property
    def passed(self) -> bool:
        return self.u < self.thr


@dataclass
class Judge:
    """One round of drafted `nodes`; `target`, `draft` give the rows below the root; `distinct`: no repeats."""

    nodes: Sequence[ev.Node]
    target: RowOf
    draft: RowOf
    seed: int
    r: int
    distinct: bool = False
    slack: float = 0.25
    verdicts: list[Made] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.by_id = {n.node: n for n in self.nodes}
        self.texts: dict[int, Text] = {}
        for n in self.nodes:
            self.texts[n.node] = (*self.texts.get(n.parent, ()), n.token)
        self.children: dict[int, list[int]] = {}
        for n in self.nodes:
            self.children.setdefault(n.parent if n.parent in self.by_id else -1, []).append(n.node)

    def above(self, node: int) -> Text:
        return self.texts[node][:-1]

    def law(self, node: int) -> Any:
        """`[V]` the node was drawn from: no earlier siblings where they may not repeat; one-hot if a point mass."""
        born = self.by_id[node]
        row = np.array(self.draft(self.above(node)), dtype=float)
        if born.logq is None:
            return np.eye(len(row))[born.token]
        if self.distinct:
            row[[self.by_id[i].token for i in self.children[born.parent] if i < node]] = 0
        return row / row.sum()

    def u(self, node: int) -> float:
        level = [n.node for n in self.nodes if n.pos == self.by_id[node].pos]
        return uniform(self.seed, "accept", self.r, self.by_id[node].pos, level.index(node))

    def test(self, node: int, threshold: float, chance: float, residual: bool) -> bool:
        p = float(self.target(self.above(node))[self.by_id[node].token])
        verdict = Made(node, p, float(threshold) if residual else None, float(chance), self.u(node))
        self.verdicts.append(verdict)
        return verdict.passed

    def run(self, verifier: str) -> list[Made]:
        rules: dict[str, Callable[[], object]] = {
            "tokenwise": self.tokenwise,
            "multi_tokenwise": self.tokenwise,
            "slack": lambda: self.tokenwise(self.slack),
            "multi_hsd": self.candidates,
            "multi_traversal": lambda: self.traverse(-1, (), 1.0, 0.0, False),
        }
        rules.get(verifier, lambda: self.chain(verifier))()
        return self.verdicts

    def tokenwise(self, slack: float = 0.0) -> None:
        """Children of all that spell the text, in id order, R <- (R - q)+."""
        text: Text = ()
        while True:
            row, failed = self.target(text), False
            for node in [n.node for n in self.nodes if self.above(n.node) == text]:
                token, law = self.by_id[node].token, self.law(node)
                chance = min(1.0, min(1.0, row[token] / law[token]) + slack)
                if self.test(node, row[token], chance, failed):
                    text = self.texts[node]
                    break
                rest = np.clip(row - law, 0, None)
                row, failed = rest / rest.sum() if rest.sum() > 0 else row, True
            else:
                return

    def chain(self, verifier: str) -> None:
        """`blockwise`, `hsd`, `hsd_naive` and `hsd_ref`, on one chain."""
        nodes = [n.node for n in self.nodes]
        rows = [self.target(self.above(n)) for n in nodes]
        self.scan(nodes, rows, False, capped=verifier != "hsd_naive", last_capped=verifier != "hsd_ref")

    def scan(
        self, nodes: list[int], rows: list[Any], residual: bool, capped: bool = True, last_capped: bool = True
    ) -> tuple[int, Any]:
        """`(how many are kept, the row left over)`."""
        laws, tokens = [self.law(n) for n in nodes], [self.by_id[n].token for n in nodes]
        r, w = [1.0], [1.0]
        for row, law, token in zip(rows, laws, tokens, strict=True):
            r.append(r[-1] * row[token] / law[token])
            w.append(min(1.0, w[-1] * row[token] / law[token]) if capped else r[-1])
        for t in range(len(nodes), 0, -1):
            if t == len(nodes):
                chance = min(1.0, w[t] if last_capped else r[t])
            elif w[t] >= 1 - 1e-12:
                chance = 1.0
            else:
                lack = np.clip(w[t] * rows[t] - laws[t], 0, None).sum()
                chance = lack / (lack + 1 - w[t])
            if self.test(nodes[t - 1], rows[t - 1][tokens[t - 1]], chance, residual and t == 1):
                break
        else:
            t = 0
        if t == len(nodes):
            return t, None
        rest = np.clip(w[t] * rows[t] - laws[t], 0, None)
        return t, rest / rest.sum() if rest.sum() > 1e-14 else rows[t]

    def candidates(self) -> None:
        """`multi_hsd`: candidates in the order their first own node was drawn."""
        text: Text = ()
        row, residual = self.target(text), False
        for head in [n.node for n in self.nodes]:
            kin = self.children[self.by_id[head].parent if self.by_id[head].parent in self.by_id else -1]
            if kin[0] == head and self.by_id[head].parent in self.by_id:
                continue  # an eldest child continues its parent's candidate
            path = [head]
            while path[-1] in self.children:
                path.append(self.children[path[-1]][0])
            while self.by_id[path[0]].parent in self.by_id:
                path.insert(0, self.by_id[path[0]].parent)
            leaf, shared = self.texts[path[-1]], len(self.texts[head]) - 1
            if len(leaf) <= len(text) or leaf[: len(text)] != text or shared > len(text):
                continue
            own = path[len(text) :]
            kept, rest = self.scan(own, [row, *(self.target(self.above(n)) for n in own[1:])], residual)
            text = leaf[: len(text) + kept]
            if kept == len(own):
                return
            row, residual = rest, True

    def traverse(self, node: int, text: Text, weight: float, threshold: float, residual: bool) -> bool:
        """Leaf to root: a node is kept with the weight that its failed children left it."""
        row, failed = self.target(text), False
        for child in self.children.get(node, ()):
            token, law = self.by_id[child].token, self.law(child)
            below = min(1.0, weight * row[token] / law[token])
            if self.traverse(child, self.texts[child], below, row[token], failed):
                return True
            rest = np.clip(weight * row - law, 0, None)
            lack = rest.sum()
            weight = 1.0 if weight >= 1 - 1e-12 else lack / (lack + 1 - weight)
            row, failed = rest / lack if lack > 1e-14 else row, True
        return node == -1 or self.test(node, threshold, weight, residual)
