"""`multi_traversal`: a drawn tree judged from its leaves to its root, depth first (after Weng et al. 2025).

verification.md 3.7. A node carries a weight w and the row R required below it, at first the target's. A child y drawn
from q gets min(1, w R(y)/q(y)). A node whose children have all failed is kept with chance w, and the closing token
comes from R. If it fails, its parent goes on with R <- (w R - q)+ normalised and w <- S / (S + 1 - w), S the mass of
that residual, at its next child. On one chain this is `blockwise`. Against `multi_hsd` neither dominates.

Nodes in a row, each the eldest child of the one before, are weighed together: one copy to the host a descent.
"""

import math
from functools import cached_property
from typing import Any

from specviz.probability.draft import ROOT, Draft
from specviz.probability.plan import Draw, Plan, PlanStop, State, Step, Test, Verifier
from specviz.probability.rows import Certain, Rows
from specviz.traits import VerifierTraits
from specviz.verifiers import _joint
from specviz.verifiers._candidates import RequiredRow, misfit, ordinals

Descent = tuple[_joint.JointChain, _joint.WeighedChain]


class _Traversal:
    """States: `("test", v)`, all children of v have failed; `("stop", v)`, v is kept.

    A place `(v, k)` is node v after its first k children failed.
    """

    def __init__(self, draft: Draft, target_probs: Rows) -> None:
        self.draft, self.target_probs = draft, target_probs
        self.ordinals = ordinals(draft)
        self.homes: dict[int, tuple[Descent, int]] = {}  # of eldest children
        self.descents: dict[tuple[int, int], Descent] = {}
        self.rows: dict[tuple[int, int], RequiredRow] = {}

    @cached_property
    def place(self) -> dict[int, tuple[int, int]]:
        """Parent and number among its siblings of every judged node."""
        return {child: (node, k) for node, born in self.draft.children.items() for k, child in enumerate(born)}

    def children(self, node: int) -> tuple[int, ...]:
        """Judged children, eldest first."""
        return self.draft.children.get(node, ())

    def home(self, node: int, k: int) -> tuple[Descent, int]:
        """The descent that holds child k of a node, and how many of its tokens come before that child."""
        if k > 0 or node == ROOT:
            return self.descent(node, k), 0
        if node not in self.homes:
            descent, before = self.home(*self.place[node])
            self.homes[node] = descent, before + 1
        return self.homes[node]

    def descent(self, node: int, k: int) -> Descent:
        """Child k of a node, its eldest child, and so on to a leaf; weighed from the weight of the place."""
        if (node, k) not in self.descents:
            nodes = [self.children(node)[k]]
            while further := self.children(nodes[-1]):
                nodes.append(further[0])
            part = _joint.chain(self.draft, nodes, self.target_probs, self.row(node, k).row if k else None)
            self.descents[node, k] = part, _joint.weigh(part, start=self.start(node, k, part.exact))
        return self.descents[node, k]

    def chance(self, node: int, k: int) -> Any:
        """The chance in [0, 1] to come to a place: its weight."""
        if node == ROOT and k == 0:
            return 1
        (_, weighed), before = self.home(*self.place[node]) if k == 0 else self.home(node, k - 1)
        return weighed.a[before + 1] if k == 0 else weighed.keep(before)

    def start(self, node: int, k: int, exact: bool) -> Any:
        """The weight of a place, where a descent begins, as `weigh` wants it."""
        chance = self.chance(node, k)
        return chance if exact else math.log(chance) if chance > 0 else -math.inf

    def row(self, node: int, k: int) -> RequiredRow:
        """The row `[V]` required at a place."""
        if k == 0:
            return RequiredRow(self.target_probs[node + 1])
        if (node, k) not in self.rows:
            (part, weighed), before = self.home(node, k - 1)
            mass, row = weighed.lack[before], _joint.residual(part, weighed, before)
            row = row if isinstance(row, Certain) or not mass > 0 else row / mass
            self.rows[node, k] = self.row(node, k - 1).after(row, mass)
        return self.rows[node, k]

    def after(self, node: int, k: int) -> State:
        """The state of a place: the next leaf below it, or the node itself when no child is left."""
        while k < len(self.children(node)):
            node, k = self.children(node)[k], 0
        return ("stop", ROOT) if node == ROOT else ("test", node)

    def open(self, state: State) -> Step:
        kind, node = state
        return self.test(node) if kind == "test" else self.stop(node)

    def test(self, node: int) -> Test:
        """Whether a node is kept, none of its children being kept."""
        parent, k = self.place[node]
        (_, weighed), before = self.home(parent, k)
        law = None if self.draft.row_of[node] < 0 else weighed.q[before]
        chance = self.chance(node, len(self.children(node)))
        failed = self.after(parent, k + 1)
        # Below an eldest child rows are the target's own; only the head of a later descent meets a residual.
        left = k > 0
        return Test(node, chance, ("stop", node), failed, weighed.p[before], law, self.ordinals[node], left)

    def stop(self, node: int) -> Step:
        """The end of the round at a node whose children have all failed."""
        count = len(self.children(node))
        if not count:
            node = self.draft.spelling.first(node)  # a twin may have the row this one lacks
            plain = self.target_probs[node + 1] if self.draft.has_row(node) else None
            return PlanStop(node) if plain is None else Draw(node, lambda: plain, {}, "target", "bonus")
        return self.row(node, count).closing(node)


def plan(draft: Draft, target_probs: Rows) -> Plan:
    """The plan of a traversal. `target_probs` `[n_fed + 1, V]`: row 0 after the root, row i + 1 after node i."""
    rule = _Traversal(draft, target_probs)
    return Plan(draft, rule.after(ROOT, 0), rule.open)


VERIFIER = Verifier(
    name="multi_traversal",
    lossless=True,
    keeps_tokens=False,
    help="a drawn tree or several chains, judged from the leaves to the root by the joint weight",
    traits=VerifierTraits(direction="backward", order="leaves"),
    plan=plan,
    refuses=misfit,
    layouts=("parallel", "caterpillar", "drawn_tree"),
)
