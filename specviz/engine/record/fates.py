"""What a walk's trace says of every node of a draft: tested or drawn, in which order, implied, or never looked at.

A test or a draw decides about a text. Where several nodes spell it (parallel chains), it is shown on the node of the
candidate that was kept, with the number of the node that was judged: its uniform is keyed by that one. A prefix that a
backward scan kept with a longer one was not tested; what its test would have been is worked out all the same, so that
"would have failed" can be shown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from specviz.engine.decode.round import Round
from specviz.probability.draws import intervals
from specviz.probability.plan import DrawResult, Test, TestResult
from specviz.probability.rows import CertainRows, at
from specviz.verifiers.spelling import Spelling


@dataclass(slots=True)
class Fate:
    """What the trace says of one node. `implied`: kept with a longer prefix; a `test` it has then was never made.

    The test is `test.step.node`'s, which may be a twin of this node.
    """

    order: int | None = None
    test: TestResult | None = None
    draw: DrawResult | None = None
    thr: float | None = None  # of a draw: p / mass left, in id order
    edges: tuple[float, float] | None = None
    implied: bool = False


class Fates:
    """`nodes[i]`: the fate of node i. `by_draw`: drawn tokens decide, also about nodes never reached."""

    def __init__(self, done: Round) -> None:
        assert done.outcome is not None
        self.done, self.draft, self.accepted = done, done.draft, done.outcome.accepted
        self.nodes = [Fate() for _ in self.draft.tokens]
        self.n_tested = 0
        self.by_draw = False
        for result in done.outcome.trace:
            if isinstance(result, TestResult):
                self._tested(self._shown(result)).test = result
            elif result.step.edges:
                self.by_draw = True
                self._drawn(result)

    @cached_property
    def _spelling(self) -> Spelling:
        return Spelling(self.draft)

    def _tested(self, node: int) -> Fate:
        fate = self.nodes[node]
        fate.order = self.n_tested
        self.n_tested += 1
        return fate

    def _shown(self, result: TestResult) -> int:
        """The node a test is shown on: its own, or the kept one that spells the same."""
        node, depth = result.step.node, self.draft.depths[result.step.node]
        if self.draft.is_chain or not result.passed or depth > len(self.accepted):
            return node
        kept = self.accepted[depth - 1]
        return kept if self._spelling.first(kept) == self._spelling.first(node) else node

    def candidates(self, node: int) -> Sequence[int]:
        """The judged nodes that follow the text of a node, in id order; in a chain no two nodes spell the same."""
        return self.draft.children.get(node, ()) if self.draft.is_chain else self._spelling.candidates(node)

    def _named(self, result: DrawResult) -> Sequence[int]:
        """The nodes a draw judges; of those the drawn token names, only the kept one."""
        children, drawn = self.candidates(result.step.node), result.drawn.token
        if self.draft.is_chain:
            return children
        named = [child for child in children if self.draft.tokens[child] == drawn]
        shown = next((child for child in named if child in self.accepted), named[0] if named else None)
        return [child for child in children if child == shown or child not in named]

    def _drawn(self, result: DrawResult) -> None:
        """Shown as tests in id order: sibling by sibling, until the drawn one is met."""
        children, drawn = self._named(result), result.drawn
        tokens = [self.draft.tokens[child] for child in children]
        row = None if isinstance(self.done.target_probs, CertainRows) else result.step.row()
        masses = [float(token == drawn.token) if row is None else at(row, token) for token in tokens]
        edges = [None] * len(tokens) if row is None or drawn.u is None else intervals(row, tokens)
        left, met = 1.0, False
        struck: set[int] = set()
        for child, token, mass, edge in zip(children, tokens, masses, edges, strict=True):
            p = 0.0 if token in struck else mass  # a twin of a sibling that was passed over
            struck.add(token)
            fate = self.nodes[child]
            fate.draw, fate.edges = result, edge
            if not met:
                self._tested(child).thr = min(1.0, p / left) if left > 1e-12 else 0.0
            met, left = met or token == drawn.token, left - p

    def imply(self) -> None:
        """Mark what was kept untested, with the tests a scan would have gone on to: u is a function of its key."""
        if self.by_draw or all(self.nodes[node].test for node in self.accepted):
            return
        assert self.done.outcome is not None
        for node in self.accepted:
            self.nodes[node].implied = self.nodes[node].test is None
        for result in self.done.outcome.trace:
            if isinstance(result, TestResult) and result.passed:
                self._go_on(result)

    def _go_on(self, result: TestResult) -> None:
        """The tests that would have followed had this one failed, as far as they are about shorter prefixes of it."""
        plan, keys = self.done.plan, self.done.keys
        assert plan is not None
        assert keys is not None
        node, step = result.step.node, plan.step(result.step.failed)
        while isinstance(step, Test) and step.node == self.draft.parents[node]:
            node = step.node
            pos = self.done.n - 1 + self.draft.depths[node]
            tested = keys.passes(pos, step.threshold, step.ordinal)
            would = TestResult(step, pos, tested.u, tested.passed)
            fate = self.nodes[self._shown(TestResult(step, pos, tested.u, True))]
            if fate.implied and fate.test is None:
                fate.test = would
            step = plan.step(step.failed)
