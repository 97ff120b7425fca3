"""A round decided again: the verifier's own plan, walked over every completion of the rows at once.

`MergedPlan` opens one state of the plans of all completions together: a test has a threshold between two bounds, a draw
a token among several. `Walker` walks it with the recorded draws, or with others: where a draw falls between the bounds
both ways are gone, so the answer is the list of all ways a round can have gone that the record allows. One way is an
answer that is certain.

What the run's own verifier did is not worked out but read (`specviz.whatif.told`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from specviz.probability.draws import Drawn, Stream, Tested, uniform
from specviz.probability.plan import Draw, Outcome, Plan, State, Step, Test, Verifier
from specviz.probability.rows import dense
from specviz.whatif.complete import SmallRound
from specviz.whatif.recorded import UNKNOWN_TOKEN, CannotTell, PartialRow, RecordedRound

ROUNDED = 1e-4  # relative: thresholds made of logs with six figures
SHARE = 2e-5  # absolute: ends of the intervals that tokens have in a row
MOST_WAYS = 64


class Chance(float):
    """A threshold between two bounds; as a number, their middle."""

    low: float
    high: float
    node: int

    def __new__(cls, low: float, high: float, node: int) -> "Chance":
        made = super().__new__(cls, (low + high) / 2)
        made.low, made.high, made.node = low, high, node
        return made


@dataclass(frozen=True, slots=True)
class Law:
    """The row of a draw: `bounds[token]` holds the least and most of both ends of its interval, outermost first.

    `rest`: whether tokens that nobody named may be drawn. `edges`: tokens that are drafted nodes. `told`: the token
    that is on record. `drafted`: the tokens drafted here, whose weight is known always.
    """

    node: int
    bounds: Mapping[int, tuple[float, float, float, float]]
    rest: bool
    edges: frozenset[int]
    told: int | None = None
    drafted: frozenset[int] = frozenset()

    def drawn_by(self, u: float) -> list[int]:
        """Every token that `u` may draw; UNKNOWN_TOKEN stands for all that are not named."""
        sure = [t for t, (_, low, high, _) in self.bounds.items() if low <= u < high]
        if sure:
            return sure[:1]
        may = [t for t, (low, _, _, high) in self.bounds.items() if low <= u < high]
        return [*may, *([UNKNOWN_TOKEN] if self.rest or not may else [])]


@dataclass(frozen=True, slots=True)
class OneTest:
    """A test as it was made again. `low`, `high`: bounds of the threshold."""

    node: int
    u: float
    low: float
    high: float
    passed: bool


@dataclass(frozen=True, slots=True)
class Way:
    """One way the round can have gone. `may_close`: every token it may have ended with; `never`: some it cannot."""

    outcome: Outcome
    tests: tuple[OneTest, ...]
    may_close: tuple[int, ...]
    never: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DrawsAgain:
    """Where uniforms come from: the record's key or another, and those that were set by hand, by small node."""

    seed: int
    round: int
    tests: Mapping[int, float] = field(default_factory=dict)
    rows: Mapping[int, float] = field(default_factory=dict)  # of draws after a node
    moved: bool = False  # another seed than the recorded one


class MergedPlan:
    """The plans of all completions as one. `told` and `tokens`: by state, what the record says (`told`)."""

    def __init__(self, verifier: Verifier, small: SmallRound, of: RecordedRound) -> None:
        self.small, self.of = small, of
        self.plans = [verifier.plan(draft, rows) for draft, rows in zip(small.drafts, small.rows, strict=True)]
        self.told: dict[State, float] = {}
        self.tokens: dict[State, int] = {}
        self.plain_tokens: dict[int, int] = {}  # drawn from the target's own row after a node
        self.plain_edges: dict[int, tuple[int, float, float]] = {}  # by drafted node: its recorded interval there
        self.plan = Plan(small.drafts[0], self.plans[0].start, self.open)

    def open(self, state: State) -> Step:
        steps = [plan.step(state) for plan in self.plans]
        first = steps[0]
        if isinstance(first, Test):
            return self._test(state, [step for step in steps if isinstance(step, Test)])
        if isinstance(first, Draw):
            return self._draw(state, [step for step in steps if isinstance(step, Draw)])
        return first

    def _test(self, state: State, steps: list[Test]) -> Test:
        first = steps[0]
        self._same(len(steps), all(s.node == first.node and s.ordinal == first.ordinal for s in steps))
        low, high = (float(pick(step.threshold for step in steps)) for pick in (min, max))
        if state in self.told:
            low = high = self.told[state]
        elif not self.of.certain:
            low, high = low * (1 - ROUNDED), high * (1 + ROUNDED) if high < 1 else high
        return _replaced(first, Chance(low, high, first.node))

    def _draw(self, state: State, steps: list[Draw]) -> Draw:
        first = steps[0]
        self._same(len(steps), all(s.node == first.node and s.stream == first.stream for s in steps))

        def row() -> Law:
            return self._law(state, steps)

        carry = first.carry  # asked alone for how much is left to write, which no token changes
        left = None if carry is None else lambda _: carry(0)
        return Draw(first.node, row, first.edges, first.stream, first.kind, first.fallback, first.mass, left)

    def _same(self, n: int, alike: bool) -> None:
        if n != len(self.plans) or not alike:
            raise CannotTell("this rule goes by numbers that are not on record")

    def _law(self, state: State, steps: list[Draw]) -> Law:
        first = steps[0]
        edges = frozenset(first.edges)
        draft = self.small.drafts[0]
        drafted = frozenset(draft.tokens[node] for node in draft.candidates(first.node))
        told = self.tokens.get(state)
        if first.stream == "target" and told is None:
            told = self.plain_tokens.get(first.node)
        if self.of.certain:
            rows = [int(np.argmax(dense(step.row()))) for step in steps]
            return Law(first.node, {}, False, edges, rows[0], drafted)
        if first.stream == "target":
            bounds, rest = _bounds([self.small.plain[first.node + 1]], len(self.small.tokens))
            for token, low, high in self._recorded_edges(first.node):
                bounds[token] = (low, low, high, high)
            return Law(first.node, bounds, rest, edges, told, drafted)
        weights = [dense(step.row()) for step in steps]
        named = [PartialRow(_shares(row, len(self.small.tokens))) for row in weights]
        bounds, rest = _bounds(named, len(self.small.tokens))
        return Law(first.node, bounds, rest, edges, told, drafted)

    def _recorded_edges(self, node: int) -> list[tuple[int, float, float]]:
        return [self.plain_edges[i] for i in self.small.drafts[0].candidates(node) if i in self.plain_edges]


def _replaced(step: Test, threshold: float) -> Test:
    return Test(step.node, threshold, step.kept, step.failed, step.p, step.q, step.ordinal, step.residual)


def _shares(row: Any, n_named: int) -> dict[int, float]:
    """What the named tokens have of a row `[V]`, normalised."""
    total = float(row.sum())
    return {token: float(row[token]) / total for token in range(n_named) if row[token] > 0} if total > 0 else {}


def _bounds(rows: list[PartialRow], size: int) -> tuple[dict[int, tuple[float, float, float, float]], bool]:
    """By token: least and most of its interval's lower end, then of its upper end; and whether anything is left over.

    The rest may lie before a token or behind it, all of it or in part.
    """
    out: dict[int, tuple[float, float, float, float]] = {}
    left = max((row.rest for row in rows), default=1.0)
    before = [0.0] * len(rows)
    for token in range(size):
        ends = [(sum_, sum_ + row.known.get(token, 0.0), row.rest) for sum_, row in zip(before, rows, strict=True)]
        before = [high for _, high, _ in ends]
        if any(high > low for low, high, _ in ends):
            out[token] = (
                min(low for low, _, _ in ends) - SHARE,
                max(low + rest for low, _, rest in ends) + SHARE,
                min(high for _, high, _ in ends) - SHARE,
                max(high + rest for _, high, rest in ends) + SHARE,
            )
    return out, left > SHARE


@dataclass
class Walker:
    """The draws of one walk, `script` telling which way to go where several are open. What it met is kept."""

    draws: DrawsAgain
    merged: MergedPlan
    script: list[int]
    open_ways: list[int] = field(default_factory=list)  # how many there were at each such place
    tests: list[OneTest] = field(default_factory=list)
    may_close: tuple[int, ...] = ()
    never: tuple[int, ...] = ()

    def passes(self, pos: int, threshold: float, index: int = 0) -> Tested:
        assert isinstance(threshold, Chance)
        node = threshold.node
        u = self.draws.tests.get(node)
        if u is None:
            u = uniform(self.draws.seed, "accept", self.draws.round, pos, index)
        passed = self._choose(2) == 0 if threshold.low <= u < threshold.high else u < threshold.low
        self.tests.append(OneTest(node, u, threshold.low, threshold.high, passed))
        return Tested(passed, u)

    def draw(self, stream: Stream, pos: int, row: Any, index: int = 0) -> Drawn:
        assert isinstance(row, Law)
        u = self.draws.rows.get(row.node) if row.edges else None  # a draw that decides about nothing has its own
        if self.merged.of.certain:
            return self._drawn([row.told if row.told is not None else UNKNOWN_TOKEN], row, None)
        if row.told is not None and u is None and not self.draws.moved:
            return self._drawn([row.told], row, None)
        if self.merged.of.record.knobs.get("draw", "cdf") != "cdf":
            tokens = [*row.bounds, UNKNOWN_TOKEN]  # a race over all tokens: it may have been any
            return self._drawn(tokens, row, None)
        if u is None:
            u = uniform(self.draws.seed, stream, 0 if stream == "target" else self.draws.round, pos, index)
        return self._drawn(row.drawn_by(u), row, u)

    def _drawn(self, tokens: list[int], row: Law, u: float | None) -> Drawn:
        """One of the drafted tokens among them, or one of the others, which all close the round."""
        followed = [token for token in tokens if token in row.edges]
        closing = [token for token in tokens if token not in row.edges]
        ways = len(followed) + bool(closing)
        taken = self._choose(ways) if ways > 1 else 0
        if taken < len(followed):
            return Drawn(followed[taken], u)
        self.may_close, self.never = tuple(closing), tuple(row.drafted.difference(closing))
        return Drawn(closing[0] if len(closing) == 1 else UNKNOWN_TOKEN, u)

    def _choose(self, ways: int) -> int:
        place = len(self.open_ways)
        self.open_ways.append(ways)
        if place == len(self.script):
            self.script.append(0)
        return self.script[place]


def every_way(merged: MergedPlan, draws: DrawsAgain) -> list[Way]:
    """All ways the round can have gone that the record allows. Raises CannotTell when they are too many."""
    found: list[Way] = []
    script: list[int] = []
    while True:
        walker = Walker(draws, merged, script)
        outcome = merged.plan.walk(walker, merged.of.n)
        may, never = (walker.may_close, walker.never) if outcome.closing is not None else ((), ())
        found.append(Way(outcome, tuple(walker.tests), may, never))
        script = walker.script
        while script and script[-1] + 1 >= walker.open_ways[len(script) - 1]:
            script.pop()
        if not script:
            return found
        script[-1] += 1
        if len(found) >= MOST_WAYS:
            raise CannotTell(f"more than {MOST_WAYS} ways are open")
