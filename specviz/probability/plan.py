"""`Plan`: a verifier's decision as an automaton of tests and draws.

One object, four uses: `walk(keys)` samples it, `law()` pushes probability through it, drawing it explains the decision,
walking it with other draws answers "what if". Steps are opened when visited (`open(state)`), because a node may be
reached with different rows once there are several candidates; rows are recipes, made when asked.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import msgspec

from specviz.knobs import Knobs, KnobSpec
from specviz.probability.draft import ROOT, Carry, Draft
from specviz.probability.draws import Drawn, Tested
from specviz.probability.philox import Stream
from specviz.probability.rows import Certain, Row, at, dense
from specviz.traits import VerifierTraits

State = Any  # hashable, in the verifier's own terms


@dataclass(frozen=True, slots=True)
class Test:
    """Keep `node` when `u < threshold`. `p`, `q`: its mass in the row required here, in the law it was drawn from."""

    __test__ = False  # not a pytest class

    node: int
    threshold: float
    kept: State
    failed: State
    p: float
    q: float | None = None  # None: point mass
    ordinal: int = 0
    residual: bool = False  # the row required here is what failed tests left, so `p` is not the target's own mass


@dataclass(frozen=True, slots=True)
class Draw:
    """Draw a token from `row()` after `node`; a drawn token follows its edge, or closes the round there."""

    node: int  # the row belongs to the text that ends in this node
    row: Callable[[], Row]
    edges: Mapping[int, tuple[int, State]]  # token -> (node kept, next state)
    stream: Stream
    kind: Literal["recovered", "bonus"]
    fallback: bool = False  # the residual had no mass, the row is the plain one
    mass: float | None = None  # of the residual before it was normalised; None: the row is a plain one
    carry: Callable[[int], Carry | None] | None = None  # what a closing token hands to the next round


@dataclass(frozen=True, slots=True)
class PlanStop:
    """The round closes without a drawn token: `node` has no row of its own."""

    node: int


Step = Test | Draw | PlanStop


@dataclass(frozen=True, slots=True)
class TestResult:
    """A test that was made, with the outcome. `shown`: the node it decides about, of those that spell `step.node`."""

    __test__ = False

    step: Test
    pos: int
    u: float
    passed: bool
    shown: int


@dataclass(frozen=True, slots=True)
class DrawResult:
    """A draw that was made. `kept`: the node its token follows, or None when the token closes the round.

    `judged`: the drafted nodes it decides about, in id order; the first `n_tested` of them were met one by one until
    the drawn token was among them.
    """

    step: Draw
    pos: int
    drawn: Drawn
    kept: int | None
    judged: tuple[int, ...] = ()
    n_tested: int = 0


StepResult = TestResult | DrawResult


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where a walk stopped: accepted nodes root to leaf, the closing token if any, every step in order."""

    accepted: tuple[int, ...]
    closing: int | None
    kind: Literal["recovered", "bonus"] | None
    steps: tuple[StepResult, ...]
    carry: Carry | None = None  # set: the next round is carried, it continues this block

    @property
    def stop(self) -> int:
        """The last kept node, or the root."""
        return self.accepted[-1] if self.accepted else ROOT

    @property
    def n_tested(self) -> int:
        """Drafted nodes that were decided about one by one."""
        return sum(1 if isinstance(result, TestResult) else result.n_tested for result in self.steps)

    @property
    def by_draw(self) -> bool:
        """Whether drawn tokens decided about the draft, also about nodes that were never reached."""
        return any(isinstance(result, DrawResult) and result.judged for result in self.steps)

    @property
    def n_host_reads(self) -> int:
        """Device reads of the verdict: the gathered thresholds of all tests are one, every draw is one."""
        draws = sum(isinstance(result, DrawResult) for result in self.steps)
        return draws + (len(self.steps) > draws)


class Draws(Protocol):
    """What a plan needs to be walked; `specviz.probability.draws.Keys` is the one of production."""

    def passes(self, pos: int, threshold: float, index: int = 0) -> Tested: ...
    def draw(self, stream: Stream, pos: int, row: Row, index: int = 0) -> Drawn: ...


@dataclass(frozen=True)
class Plan:
    """An automaton over `draft`; `open(state)` gives the step of a state, once."""

    draft: Draft
    start: State
    open: Callable[[State], Step]
    steps: dict[State, Step] = field(default_factory=dict)

    def step(self, state: State) -> Step:
        """The step of a state, opened at the first visit."""
        if state not in self.steps:
            self.steps[state] = self.open(state)
        return self.steps[state]

    def depth(self, node: int) -> int:
        """Depth of a node; 0 for the root."""
        return 0 if node == ROOT else self.draft.depths[node]

    def walk(self, keys: Draws, n: int) -> Outcome:
        """Sample the plan. `n` is the committed length: a node of depth d stands at position `n - 1 + d`."""
        steps: list[StepResult] = []
        state = self.start
        while True:
            step = self.step(state)
            if isinstance(step, PlanStop):
                return self._closed(step.node, steps)
            if isinstance(step, Test):
                result = self._test(step, keys, n)
                steps.append(result)
                state = step.kept if result.passed else step.failed
                continue
            pos = n + self.depth(step.node)
            drawn = keys.draw(step.stream, pos, step.row())
            edge = step.edges.get(drawn.token)
            steps.append(DrawResult(step, pos, drawn, edge[0] if edge else None))
            if edge is None:
                carry = step.carry(drawn.token) if step.carry else None
                return self._closed(step.node, steps, drawn.token, step.kind, carry)
            state = edge[1]

    def untested(self, walked: Outcome, keys: Draws, n: int) -> dict[int, TestResult | None]:
        """The nodes that a backward scan kept with a longer prefix, without a test of their own.

        With it, where there is one, comes the test that the scan would have gone on to had the longer one failed: its
        uniform is a function of its key.
        """
        tested = {result.shown for result in walked.steps if isinstance(result, TestResult)}
        left: dict[int, TestResult | None] = dict.fromkeys(node for node in walked.accepted if node not in tested)
        if not left or walked.by_draw:
            return {}
        for result in walked.steps:
            if isinstance(result, TestResult) and result.passed:
                node, step = result.step.node, self.step(result.step.failed)
                while isinstance(step, Test) and step.node == self.draft.parents[node]:
                    node = step.node
                    would = self._test(step, keys, n)
                    shown = self._shown(node, walked.accepted)
                    if shown in left and left[shown] is None:
                        left[shown] = replace(would, shown=shown)
                    step = self.step(step.failed)
        return left

    def _test(self, step: Test, keys: Draws, n: int) -> TestResult:
        pos = n - 1 + self.depth(step.node)
        tested = keys.passes(pos, step.threshold, step.ordinal)
        return TestResult(step, pos, tested.u, tested.passed, step.node)

    def _closed(
        self,
        node: int,
        steps: list[StepResult],
        closing: int | None = None,
        kind: Literal["recovered", "bonus"] | None = None,
        carry: Carry | None = None,
    ) -> Outcome:
        """The outcome of a walk that stopped at `node`; only now is known which of several twins was kept."""
        accepted = self._kept(node, steps)
        return Outcome(accepted, closing, kind, tuple(self._settled(result, accepted) for result in steps), carry)

    def _settled(self, result: StepResult, accepted: tuple[int, ...]) -> StepResult:
        """A step with the nodes it decides about.

        A test or a draw decides about a text. Where several nodes spell it (parallel chains), it is shown on the node
        of the candidate that was kept; its uniform is keyed by the node that was judged. Of the siblings that a drawn
        token names only the kept one is judged.
        """
        if isinstance(result, TestResult):
            shown = self._shown(result.step.node, accepted) if result.passed else result.step.node
            return result if shown == result.step.node else replace(result, shown=shown)
        if not result.step.edges:
            return result
        siblings, tokens = self.draft.candidates(result.step.node), self.draft.tokens
        named = [node for node in siblings if tokens[node] == result.drawn.token]
        shown = next((node for node in named if node in accepted), named[0] if named else ROOT)
        judged = tuple(node for node in siblings if node == shown or node not in named)
        return replace(result, judged=judged, n_tested=judged.index(shown) + 1 if named else len(judged))

    def _shown(self, node: int, accepted: tuple[int, ...]) -> int:
        """The kept node that spells the same as `node`, else itself."""
        depth = self.depth(node)
        kept = accepted[depth - 1] if depth <= len(accepted) else node
        return kept if kept == node or self.draft.path(kept) == self.draft.path(node) else node

    def _kept(self, node: int, steps: list[StepResult]) -> tuple[int, ...]:
        """The kept nodes, root to leaf: of the candidate whose node passed last, among those that spell the same."""
        for result in reversed(steps):
            if isinstance(result, TestResult) and result.passed:
                tested = result.step.node
                # A twin that has no row of its own does not stand for one whose row was drawn from.
                if self.depth(tested) == self.depth(node) and self.draft.has_row(tested) == self.draft.has_row(node):
                    node = tested
                break
        out: list[int] = []
        while node != ROOT:
            out.append(node)
            node = self.draft.parents[node]
        return tuple(reversed(out))

    def law(self) -> dict[tuple[tuple[int, ...], int | None], float]:
        """Probability of every (accepted tokens, closing token), given the draft. Opens all states: for small V.

        Refused for a `shared` draft, whose tokens and target draws are not independent: enumerate the session instead.
        """
        if self.draft.shared:
            raise ValueError("the law of a shared draft depends on its noise; enumerate the session")
        out: dict[tuple[tuple[int, ...], int | None], float] = {}
        for key, prob in self._outcomes(self.start, 1):
            out[key] = out.get(key, 0) + prob
        return out

    def _outcomes(self, state: State, prob: float) -> Iterator[tuple[tuple[tuple[int, ...], int | None], float]]:
        if not prob:
            return
        step = self.step(state)
        if isinstance(step, PlanStop):
            yield (self.draft.path(step.node), None), prob
        elif isinstance(step, Test):
            yield from self._outcomes(step.kept, prob * step.threshold)
            yield from self._outcomes(step.failed, prob * (1 - step.threshold))
        else:
            for token, share in shares(step.row()):
                if token in step.edges:
                    yield from self._outcomes(step.edges[token][1], prob * share)
                else:
                    yield (self.draft.path(step.node), token), prob * share


def shares(row: Row) -> Iterator[tuple[int, float]]:
    """`(token, probability)` of every token with weight."""
    if isinstance(row, Certain):
        yield row.token, 1
        return
    row = dense(row)
    total = row.sum()
    for token in range(len(row)):
        if row[token] > 0:
            yield token, at(row, token) / (total.item() if hasattr(total, "item") else total)


PlanOf = Callable[[Draft, Any], Plan]
Refuses = Callable[[Draft], str | None]


@dataclass(frozen=True, slots=True)
class VerifierAlias:
    """Another name of a rule, which is asked for, listed and proved like a rule of its own.

    `traits`: its own; `refuses`: None where it takes what the rule takes.
    """

    name: str
    help: str
    traits: VerifierTraits = field(default_factory=VerifierTraits)
    refuses: Refuses | None = None
    layouts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verifier:
    """A named rule. `plan` is pure; `refuses(draft)` says why a draft does not fit, or None.

    One with knobs of its own brings their specs; `tuned(knobs)` is the verifier as a snapshot of knobs wants it.
    `traits`: what is to be known of it above, where nobody asks for its name. `layouts`: the draft layouts it is proved
    on, best first; none: on all that it takes.
    """

    name: str
    lossless: bool
    keeps_tokens: bool  # the same tokens as plain decoding, not only the same law
    help: str
    plan: PlanOf
    refuses: Refuses
    distance: float | None = None  # of one that is not lossless: total variation from the target on case A, gamma 2
    carries: bool = False  # a round may hand the rest of its block to the next one (`Outcome.carry`)
    knobs: tuple[KnobSpec, ...] = ()
    tune: Callable[[Knobs], "Verifier"] | None = None
    traits: VerifierTraits = field(default_factory=VerifierTraits)
    layouts: tuple[str, ...] = ()
    aliases: tuple[VerifierAlias, ...] = ()

    def other_names(self) -> Iterator["Verifier"]:
        """The same rule under each of its other names."""
        for alias in self.aliases:
            yield replace(
                self,
                name=alias.name,
                help=alias.help,
                refuses=alias.refuses or self.refuses,
                layouts=alias.layouts,
                traits=msgspec.structs.replace(alias.traits, same_rule_as=self.name),
                aliases=(),
            )

    def tuned(self, knobs: Knobs) -> "Verifier":
        """This verifier under `knobs`: its plan and its distance."""
        return self.tune(knobs) if self.tune else self
