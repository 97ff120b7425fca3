"""`multi_traversal`: a drawn tree judged from its leaves to its root, depth first (after Weng et al. 2025).

A node carries a weight w and the row R required below it, at first the target's. A child y drawn
from q gets min(1, w R(y)/q(y)). A node whose children have all failed is kept with chance w, and the closing token
comes from R. If it fails, its parent goes on with R <- (w R - q)+ normalised and w <- S / (S + 1 - w), S the mass of
that residual, at its next child. On one chain this is `blockwise`. Against `multi_hsd` neither dominates.

What a child gives to its own weight and to those of its younger siblings are single entries of rows and laws: all are
gathered at once, and the arithmetic of weights is done on the host. Whole rows are needed for S alone, and only where
a child has failed. On a device, where every number costs a wait, a descent (an eldest child, its eldest child, and so
on) is weighed together: one copy to the host.
"""

import math
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from specviz.probability.draft import ROOT, Draft
from specviz.probability.plan import Draw, Plan, PlanStop, State, Step, Test, Verifier
from specviz.probability.rows import CertainRows, Row, Rows
from specviz.probability.surplus import SURPLUS, SurplusOf
from specviz.traits import VerifierTraits
from specviz.verifiers import _joint
from specviz.verifiers._candidates import RequiredRow, in_memory, kind, like_rows, masses, misfit, ordinals, surplus

Place = tuple[int, int]


class _Traversal:
    """States: `("test", v)`, all children of v have failed; `("stop", v)`, v is kept.

    A place `(v, k)` is node v after its first k children failed. Weights are floats, or Fractions where rows are.
    """

    def __init__(self, draft: Draft, target_probs: Rows) -> None:
        self.draft, self.target_probs, self.born = draft, target_probs, draft.children
        self.rows, self.laws = in_memory(target_probs), in_memory(draft.law_rows)
        self.exact = any(kind(x) == "O" for x in (self.rows, self.laws))
        self.unit = int if self.exact else float  # of a truth value: Fractions must meet no float
        self.certain = isinstance(self.rows, CertainRows)
        self.whole = any(kind(x) is None for x in (self.laws, self.rows) if not isinstance(x, CertainRows | None))
        self.p: dict[int, Any] = {}
        self.q: dict[tuple[int, int], Any] = {}
        self.weights: dict[int, Any] = {ROOT: 1 if self.exact else 0.0}
        self.chances: dict[Place, Any] = {}
        self.masses: dict[Place, Any] = {}
        self.residuals: dict[Place, Row] = {}  # as they are, of places whose row a sibling needs
        self.required: dict[Place, RequiredRow] = {}
        self.shares: dict[int, Any] = {}  # what is required gives younger siblings
        if not self.whole:
            self._gather()

    @cached_property
    def ordinals(self) -> dict[int, int]:
        """The index of every node's accept draw."""
        return ordinals(self.draft)

    @cached_property
    def place(self) -> dict[int, Place]:
        """Parent and number among its siblings of every judged node."""
        return {child: (node, k) for node, born in self.born.items() for k, child in enumerate(born)}

    def _gather(self) -> None:
        """What the target gives every judged token, and what a node's law gives it and its younger siblings' tokens."""
        tokens, row_of = self.draft.tokens, self.draft.row_of
        pairs = [
            (elder, node) for child in self.born.values() for k, node in enumerate(child) for elder in child[: k + 1]
        ]
        self.q = {(elder, node): self.unit(tokens[elder] == tokens[node]) for elder, node in pairs}
        drawn = [at for at in pairs if row_of[at[0]] >= 0]
        laws = self._picked(self.laws, [(row_of[elder], tokens[node]) for elder, node in drawn])
        self.q |= zip(drawn, laws, strict=True)
        rows = self._picked(self.rows, [(self.draft.parents[node] + 1, tokens[node]) for node in self.draft.judged])
        self.p = dict(zip(self.draft.judged, rows, strict=True))

    def _picked(self, rows: Rows, at: list[tuple[int, int]]) -> list[Any]:
        """Entries of rows `[n, V]`, at once."""
        if isinstance(rows, CertainRows):
            return [self.unit(rows.tokens[row] == token) for row, token in at]
        picked: list[Any] = rows[[row for row, _ in at], [token for _, token in at]].tolist() if at else []
        return picked

    def children(self, node: int) -> tuple[int, ...]:
        """Judged children, eldest first."""
        return self.born.get(node, ())

    # Weights: single numbers ------------------------------------------------------------------------------------------

    def weight(self, node: int) -> Any:
        """`min(1, w R(y)/q(y))`: the weight a node begins with, its log where numbers are floats."""
        if node in self.weights:
            return self.weights[node]
        line = [node]  # from the top, so that a long chain takes no deep recursion
        while line[-1] not in self.weights and self.place[line[-1]][1] == 0:
            line.append(self.place[line[-1]][0])
        for ancestor in reversed(line):
            if ancestor not in self.weights and self.whole:
                self._weigh(*self.place[ancestor])
            elif ancestor not in self.weights:
                self.weights[ancestor] = self._weight(ancestor)
        return self.weights[node]

    def _weight(self, node: int) -> Any:
        parent, k = self.place[node]
        p, q = self.residual_p(node), self.q[node, node]
        # A token the draft law cannot give breaks the contract: it counts as rejected.
        if self.exact:
            return min(1, self.chance(parent, k) * Fraction(p) / Fraction(q)) if q > 0 else 0
        return min(0.0, self._start(parent, k) + _log(p) - _log(q)) if p > 0 and q > 0 else -math.inf

    def _start(self, node: int, k: int) -> float:
        return float(self.weight(node)) if k == 0 else _log(self.chance(node, k))

    def _weigh(self, node: int, k: int) -> None:
        """All numbers of the descent that begins with child k of a node, by one copy to the host."""
        places = [(node, k)]
        while self.children(child := self.children(places[-1][0])[places[-1][1]]):
            places.append((child, 0))
        nodes = [self.children(v)[j] for v, j in places]
        part = _joint.chain(self.draft, nodes, self.rows, self.row(node, k).row if k else None)
        weights = _joint.weigh(part, start=self._start(node, k))
        self.weights |= zip(nodes, weights.log_w[1:], strict=True)
        self.masses |= zip(places, weights.lack, strict=True)
        self.p |= zip(nodes, weights.p, strict=True)
        self.q |= zip(((node, node) for node in nodes), weights.q, strict=True)

    def chance(self, node: int, k: int) -> Any:
        """The weight of a place: the chance in [0, 1] to come to it."""
        chance = self.chances.get((node, k))
        if chance is None:
            chance = self.chances[node, k] = self._first(node) if k == 0 else self._later(node, k - 1)
        return chance

    def _first(self, node: int) -> Any:
        weight = self.weight(node)
        return weight if self.exact else 1.0 if abs(weight) < _joint.ROUNDING else math.exp(weight)

    def _later(self, node: int, k: int) -> Any:
        """Behind the failure of child k."""
        before = self.chance(node, k)
        if before >= 1:
            return 1
        mass = self.mass(node, k)
        return mass / (mass + 1 - before)

    def residual_p(self, node: int) -> Any:
        """Probability of a node's token in the residual row left by its elder siblings."""
        parent, k = self.place[node]
        if k == 0 or self.certain or self.whole:
            return self.p[node]
        if node not in self.shares:
            prob = self.p[node]
            for j, elder in enumerate(self.born[parent][:k]):
                mass = self.mass(parent, j)
                if mass > 0:
                    prob = min(1, max(0, self.chance(parent, j) * prob - self.q[elder, node]) / mass)
            self.shares[node] = prob
        return self.shares[node]

    # Residuals: whole rows --------------------------------------------------------------------------------------------

    def mass(self, node: int, k: int) -> Any:
        """S, the mass of the residual that the failure of child k leaves."""
        if (node, k) not in self.masses:
            if self.whole:
                self.weight(self.children(node)[k])
            elif self.certain:
                self.masses[node, k] = max(0, self.chance(node, k) - self._at_certain(node, k))
            else:
                wanted = k + 1 < len(self.children(node))  # by the next child
                self.masses[node, k], row = self._surplus(node, k, wanted)
                if wanted:
                    self.residuals[node, k] = row
        return self.masses[node, k]

    def _at_certain(self, node: int, k: int) -> Any:
        """What the law of child k gives the only token of a certain row."""
        child, token = self.children(node)[k], self.rows.tokens[node + 1]
        row = self.draft.row_of[child]
        return self.unit(self.draft.tokens[child] == token) if row < 0 else self._picked(self.laws, [(row, token)])[0]

    def _surplus(self, node: int, k: int, wanted: bool = True) -> tuple[Any, Any]:
        """The mass of `(w R - q)+` `[V]`, of a place whose row is not certain; and these entries where wanted."""
        child, chance = self.children(node)[k], self.chance(node, k)
        number = self.draft.row_of[child]
        if number < 0 or self.exact or self.whole:
            law = None if number < 0 else self.laws[number : number + 1]
            left = surplus(self.row(node, k).row[None], law, [self.draft.tokens[child]], [chance])[0]
            mass = masses(left)
            return (mass if self.exact or self.whole else float(mass)), left
        row, mass = self._unscaled(node, k)
        weight = chance / mass
        return self.surplus.left(row, number, weight) if wanted else (self.surplus.mass(row, number, weight), None)

    @cached_property
    def surplus(self) -> SurplusOf:
        """Of the rows over the laws of the draft."""
        return SURPLUS.of(self.rows, self.laws)

    def _unscaled(self, node: int, k: int) -> tuple[Any, float]:
        """The row required at a place, a number among the target's or a residual as it is, and the mass that it has."""
        while k and not self.mass(node, k - 1) > 0:
            k -= 1  # reached by rounding only: the row stays
        return (self.residuals[node, k - 1], self.mass(node, k - 1)) if k else (node + 1, 1.0)

    def row(self, node: int, k: int) -> RequiredRow:
        """The row `[V]` required at a place."""
        if k == 0:
            return RequiredRow(self.rows[node + 1])
        if (node, k) not in self.required:
            before, mass = self.row(node, k - 1), self.mass(node, k - 1)
            residual = before.row
            if mass > 0 and not self.certain:
                residual = self.residuals.get((node, k - 1))
                residual = (self._surplus(node, k - 1)[1] if residual is None else residual) / mass
            self.required[node, k] = before.after(residual, mass)
        return self.required[node, k]

    # The automaton ----------------------------------------------------------------------------------------------------

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
        chance, p = self.chance(node, len(self.born.get(node, ()))), self.residual_p(node)
        q = None if self.draft.row_of[node] < 0 else self.q[node, node]
        # Below an eldest child rows are the target's own; only the head of a later descent meets a residual.
        return Test(node, chance, ("stop", node), self.after(parent, k + 1), p, q, self.ordinals[node], k > 0)

    def stop(self, node: int) -> Step:
        """The end of the round at a node whose children have all failed."""
        count = len(self.children(node))
        if not count:
            node = self.draft.spelling.first(node)  # a twin may have the row this one lacks
            plain = self.target_probs[node + 1] if self.draft.has_row(node) else None
            return PlanStop(node) if plain is None else Draw(node, lambda: plain, {}, "target", "bonus")
        row = self.row(node, count)
        return replace(row, row=like_rows(self.target_probs, row.row)).closing(node)


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


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
