"""`Plan`: a verifier's decision as an automaton of tests and draws.

One object, four uses: `walk(keys)` samples it, `law()` pushes probability through it, drawing it explains the decision,
walking it with other draws answers "what if". Steps are opened when visited (`open(state)`), because a node may be
reached with different rows once there are several candidates; rows are recipes, made when asked.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from specviz.knobs import Knobs, KnobSpec
from specviz.probability.draft import ROOT, Carry, Draft
from specviz.probability.draws import Drawn, Stream, Tested
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
class Stop:
    """The round closes without a drawn token: `node` has no row of its own."""

    node: int


Step = Test | Draw | Stop


@dataclass(frozen=True, slots=True)
class TestResult:
    """A test that was made, with the outcome."""

    __test__ = False

    step: Test
    pos: int
    u: float
    passed: bool


@dataclass(frozen=True, slots=True)
class DrawResult:
    """A draw that was made. `kept`: the node its token follows, or None when the token closes the round."""

    step: Draw
    pos: int
    drawn: Drawn
    kept: int | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where a walk stopped: accepted nodes root to leaf, the closing token if any, every step in order."""

    accepted: tuple[int, ...]
    closing: int | None
    kind: Literal["recovered", "bonus"] | None
    trace: tuple[TestResult | DrawResult, ...]
    carry: Carry | None = None  # set: the next round is carried, it continues this block

    @property
    def stop(self) -> int:
        """The last kept node, or the root."""
        return self.accepted[-1] if self.accepted else ROOT


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
        trace: list[TestResult | DrawResult] = []
        state = self.start
        while True:
            step = self.step(state)
            if isinstance(step, Stop):
                return Outcome(self._kept(step.node, trace), None, None, tuple(trace))
            if isinstance(step, Test):
                pos = n - 1 + self.depth(step.node)
                tested = keys.passes(pos, step.threshold, step.ordinal)
                trace.append(TestResult(step, pos, tested.u, tested.passed))
                state = step.kept if tested.passed else step.failed
                continue
            pos = n + self.depth(step.node)
            drawn = keys.draw(step.stream, pos, step.row())
            edge = step.edges.get(drawn.token)
            trace.append(DrawResult(step, pos, drawn, edge[0] if edge else None))
            if edge is None:
                carry = step.carry(drawn.token) if step.carry else None
                return Outcome(self._kept(step.node, trace), drawn.token, step.kind, tuple(trace), carry)
            state = edge[1]

    def _kept(self, node: int, trace: list[TestResult | DrawResult]) -> tuple[int, ...]:
        """The kept nodes, root to leaf: of the candidate whose node passed last, among those that spell the same."""
        for result in reversed(trace):
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
        if isinstance(step, Stop):
            yield (self.draft.path(step.node), None), prob
        elif isinstance(step, Test):
            yield from self._outcomes(step.kept, prob * step.threshold)
            yield from self._outcomes(step.failed, prob * (1 - step.threshold))
        else:
            yield from self._draw_outcomes(step, prob)

    def _draw_outcomes(self, step: Draw, prob: float) -> Iterator[tuple[tuple[tuple[int, ...], int | None], float]]:
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


@dataclass(frozen=True, slots=True)
class Verifier:
    """A named rule. `plan` is pure; `refuses(draft)` says why a draft does not fit, or None.

    One with knobs of its own brings their specs; `tuned(knobs)` is the verifier as a snapshot of knobs wants it.
    `traits`: what is to be known of it above, where nobody asks for its name.
    """

    name: str
    lossless: bool
    keeps_tokens: bool  # the same tokens as plain decoding, not only the same law
    help: str
    plan: PlanOf
    refuses: Callable[[Draft], str | None]
    distance: float | None = None  # of one that is not lossless: total variation from the target on case A, gamma 2
    carries: bool = False  # a round may hand the rest of its block to the next one (`Outcome.carry`)
    knobs: tuple[KnobSpec, ...] = ()
    tune: Callable[[Knobs], "Verifier"] | None = None
    traits: VerifierTraits = field(default_factory=VerifierTraits)

    def tuned(self, knobs: Knobs) -> "Verifier":
        """This verifier under `knobs`: its plan and its distance."""
        return self.tune(knobs) if self.tune else self
