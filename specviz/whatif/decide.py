"""A round decided again: the verifier's own plan, walked over every completion of the rows with keyed draws.

Where all completions end alike, that is the answer; where two differ, or a draw falls where the record does not say
whose mass lies there, none is given. What the run's own verifier met is not worked out but read off the record: its
thresholds and tokens at the states it came through, and what it drew from the target's own rows. Such a draw is keyed
by the position alone, so any other rule draws the same token there.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from specviz.events import Verify
from specviz.probability.arrays import np
from specviz.probability.draft import ROOT, Draft
from specviz.probability.draws import Drawn, Tested
from specviz.probability.philox import Stream, uniform
from specviz.probability.plan import Draw, Outcome, Plan, State, Step, Test, Verifier
from specviz.probability.rows import dense
from specviz.whatif.complete import SmallRound
from specviz.whatif.decision import TestAgain
from specviz.whatif.recorded import UNKNOWN_TOKEN, CannotTell, PartialRow, RecordedRound, follows

ROUNDED = 1e-4  # relative: thresholds made of logs with six figures
SHARE = 2e-5  # absolute: ends of the intervals that tokens have in a row


@dataclass(slots=True)
class Recalled:
    """What is on record of draws and tests. By state: of the run's own plan. By node, as in the trace: of any plan."""

    thresholds: dict[State, float] = field(default_factory=dict)
    tokens: dict[State, int] = field(default_factory=dict)
    drawn: dict[int, int] = field(default_factory=dict)  # from the target's own row after a node
    intervals: dict[int, tuple[float, float]] = field(default_factory=dict)  # of a drafted token in that row


@dataclass(frozen=True, slots=True)
class DrawsAgain:
    """Where uniforms come from: the record's key or another, and those that were set by hand, by small node."""

    seed: int
    round: int
    tests: Mapping[int, float] = field(default_factory=dict)
    rows: Mapping[int, float] = field(default_factory=dict)  # of draws after a node
    moved: bool = False  # another seed than the recorded one


@dataclass(frozen=True, slots=True)
class Walked:
    """How the round goes, by small nodes. `other`: what closes it is not on record, but is not the recorded token."""

    outcome: Outcome
    tests: tuple[TestAgain, ...]
    other: bool


class _At(float):
    """A threshold that knows the state and the node it stands for."""

    state: State
    node: int
    exact: bool

    def __new__(cls, threshold: float, state: State, node: int, exact: bool) -> "_At":
        threshold_at = super().__new__(cls, threshold)
        threshold_at.state, threshold_at.node, threshold_at.exact = state, node, exact
        return threshold_at


@dataclass(frozen=True, slots=True)
class _Row:
    """The row of a draw: `weights` `[V]`, and the tokens whose share of it is known."""

    state: State
    step: Draw
    weights: Any
    known: PartialRow


def recall(of: RecordedRound, verifier: Verifier | None, small: SmallRound) -> Recalled:
    """What the record holds. `verifier`: the run's own, where its plan takes the whole draft, which is `small`'s."""
    recorded = Recalled()
    for i in of.draft.ids:
        verdict = of.record.verdicts[i]
        if verdict.interval is not None and verdict.kind == "draw":
            recorded.intervals[i] = verdict.interval
    if verifier is not None:
        plan = _located(verifier, small, 0, of, Recalled())
        walk = _AsRecorded(of, small, recorded)
        with suppress(CannotTell):  # the record may end before its round does
            plan.untested(plan.walk(walk, of.n), walk, of.n)
    header = of.run.header
    if header is not None and header.keeps_tokens:
        _recall_text(of, recorded)
    return recorded


def _recall_text(of: RecordedRound, recorded: Recalled) -> None:
    """The whole text was drawn so, where the run's verifier draws every token so; not where its law was moved."""
    commit = of.record.commit
    text = follows(of.record) if not of.run.mixed else tuple(commit.tokens if commit is not None else ())
    for node in range(ROOT, of.draft.n_fed):
        path = of.draft.path(node)
        if len(path) < len(text) and path == text[: len(path)]:
            recorded.drawn.setdefault(of.draft.ids[node] if node != ROOT else ROOT, text[len(path)])


def _located(verifier: Verifier, small: SmallRound, which: int, of: RecordedRound, recorded: Recalled) -> Plan:
    """The plan on one completion, whose thresholds and rows know where they stand."""
    draft = small.drafts[which]
    plan = verifier.plan(draft, small.rows[which])

    def located(state: State) -> Step:
        step = plan.step(state)
        if isinstance(step, Test):
            threshold = recorded.thresholds.get(state, float(step.threshold))
            exact = state in recorded.thresholds or of.certain
            return replace(step, threshold=_At(threshold, state, step.node, exact))
        if isinstance(step, Draw):
            carry = step.carry  # asked alone for how much is left to write, which no token changes
            left = None if carry is None else lambda _: carry(0)
            return replace(step, row=lambda: _row(small, draft, of, recorded, state, step), carry=left)
        return step

    return Plan(draft, plan.start, located)


def _row(small: SmallRound, draft: Draft, of: RecordedRound, recorded: Recalled, state: State, step: Draw) -> _Row:
    weights = dense(step.row())
    if of.certain:
        return _Row(state, step, weights, PartialRow({}))
    if step.stream == "target":
        return _Row(state, step, weights, small.plain[step.node + 1])
    total = float(weights.sum())
    named = range(len(small.tokens)) if total > 0 else ()
    return _Row(state, step, weights, PartialRow({t: float(weights[t]) / total for t in named if weights[t] > 0}))


class _AsRecorded:
    """The draws of the recorded round, as far as they are on record; writes down where each was met."""

    def __init__(self, of: RecordedRound, small: SmallRound, recorded: Recalled) -> None:
        self.of, self.small, self.recorded = of, small, recorded
        numbers = {i: k for k, i in enumerate(of.draft.ids)}
        self.tests: dict[int, Verify] = {}  # by the node that was tested
        for verdict in of.record.verdicts.values():
            tested = numbers.get(verdict.node if verdict.judged is None else verdict.judged)
            if tested is not None and verdict.kind == "test" and verdict.thr is not None and verdict.u is not None:
                self.tests[tested] = verdict
        place = {token: k for k, token in enumerate(small.tokens)}
        commit = of.record.commit
        self.text = [place.get(token, UNKNOWN_TOKEN) for token in (commit.tokens if commit is not None else ())]

    def passes(self, pos: int, threshold: float, index: int = 0) -> Tested:
        assert isinstance(threshold, _At)
        verdict = self.tests.get(threshold.node)
        if verdict is None or verdict.thr is None or verdict.u is None:
            raise CannotTell("the record ends here")
        self.recorded.thresholds[threshold.state] = verdict.thr
        return Tested(verdict.u < verdict.thr, verdict.u)

    def draw(self, stream: Stream, pos: int, row: Any, index: int = 0) -> Drawn:
        assert isinstance(row, _Row)
        place = pos - self.of.n
        token = self.text[place] if place < len(self.text) else UNKNOWN_TOKEN
        if token == UNKNOWN_TOKEN:
            raise CannotTell("the record ends here")
        self.recorded.tokens[row.state] = self.small.name(token)
        if stream == "target":
            node = row.step.node
            self.recorded.drawn[self.of.draft.ids[node] if node != ROOT else ROOT] = self.small.name(token)
        return Drawn(token, None)


class _RedrawnWalk:
    """The draws of one walk."""

    def __init__(self, of: RecordedRound, small: SmallRound, which: int, draws: DrawsAgain, recorded: Recalled) -> None:
        self.of, self.small, self.draws, self.recorded = of, small, draws, recorded
        self.draft = small.drafts[which]
        self.place = {token: k for k, token in enumerate(small.tokens)}
        self.text = follows(of.record)
        self.tests: list[TestAgain] = []
        self.other = False

    def passes(self, pos: int, threshold: float, index: int = 0) -> Tested:
        assert isinstance(threshold, _At)
        u = self.draws.tests.get(threshold.node)
        if u is None:
            u = uniform(self.draws.seed, "accept", self.draws.round, pos, index)
        passed = u < threshold
        high = threshold * (1 + ROUNDED) if threshold < 1 else threshold
        if not threshold.exact and threshold * (1 - ROUNDED) <= u < high:
            name = self._name(threshold.node)
            raise CannotTell(f"the u of {name} falls upon its threshold, in the digits that are on record")
        self.tests.append(TestAgain(threshold.node, u, float(threshold), passed))
        return Tested(passed, u)

    def draw(self, stream: Stream, pos: int, row: Any, index: int = 0) -> Drawn:
        assert isinstance(row, _Row)
        if self.of.certain:
            return Drawn(int(np.argmax(row.weights)), None)
        u = self.draws.rows.get(row.step.node) if row.step.edges else None  # a step without edges uses its own draw
        if u is None and not self.draws.moved and (interval := self._told(row)) is not None:
            return Drawn(interval, None)
        if u is None:
            u = uniform(self.draws.seed, stream, 0 if stream == "target" else self.draws.round, pos, index)
        race = self.of.record.knobs.get("draw", "cdf") != "cdf"  # over all tokens: it may have been any
        may = [*row.known.known, UNKNOWN_TOKEN] if race else self._drawn_by(u, row)
        if len(may) == 1 and may[0] != UNKNOWN_TOKEN:
            return Drawn(may[0], u)
        if any(token in row.step.edges for token in may):
            raise CannotTell(f"which token is drawn behind {self._name(row.step.node)} is not on record")
        was = self.text[pos - self.of.n] if pos - self.of.n < len(self.text) else UNKNOWN_TOKEN
        names = [self.small.name(token) for token in may]
        drafted = [self.draft.tokens[node] for node in self.draft.candidates(row.step.node)]
        self.other = was not in names and (UNKNOWN_TOKEN not in names or self.place.get(was) in drafted)
        return Drawn(UNKNOWN_TOKEN, u)

    def _told(self, row: _Row) -> int | None:
        """The token that is on record for this draw."""
        token = self.recorded.tokens.get(row.state)
        if token is None and row.step.stream == "target":
            node = row.step.node
            token = self.recorded.drawn.get(self.draft.ids[node] if node != ROOT else ROOT)
        return None if token is None else self.place.get(token)

    def _drawn_by(self, u: float, row: _Row) -> list[int]:
        """Every token that `u` may draw; UNKNOWN_TOKEN stands for all that are not named.

        The rest of the mass may lie before a token or behind it, all of it or in part.
        """
        rest = row.known.rest
        ends: dict[int, tuple[float, float, float, float]] = {}
        before = 0.0
        for token, mass in sorted(row.known.known.items()):
            ends[token] = (before, before + rest, before + mass, before + mass + rest)
            before += mass
        if row.step.stream == "target":
            for node in self.draft.candidates(row.step.node):
                if (interval := self.recorded.intervals.get(self.draft.ids[node])) is not None:
                    ends[self.draft.tokens[node]] = (interval[0], interval[0], interval[1], interval[1])
        sure = [token for token, (_, low, high, _) in ends.items() if low + SHARE <= u < high - SHARE]
        may = [token for token, (low, _, _, high) in ends.items() if low - SHARE <= u < high + SHARE]
        return sure[:1] or [*may, *([UNKNOWN_TOKEN] if rest > SHARE or not may else [])]

    def _name(self, node: int) -> str:
        return f"n{self.draft.ids[node]}" if node != ROOT else "the text before it"


def walk_again(of: RecordedRound, rule: Verifier, small: SmallRound, draws: DrawsAgain, recorded: Recalled) -> Walked:
    """How the round goes on every completion. Raises CannotTell where two differ."""
    walks = []
    for which in range(len(small.rows)):
        again = _RedrawnWalk(of, small, which, draws, recorded)
        walks.append((_located(rule, small, which, of, recorded).walk(again, of.n), again))
    (outcome, again), *others = walks
    if any(_fate(other, theirs.tests) != _fate(outcome, again.tests) for other, theirs in others):
        raise CannotTell("this rule goes by sums over whole rows that are not on record")
    tests = tuple(_same_test(at_place) for at_place in zip(*(decided.tests for _, decided in walks), strict=True))
    if any(other.closing != outcome.closing for other, _ in others):
        return Walked(replace(outcome, closing=UNKNOWN_TOKEN), tests, other=False)
    return Walked(outcome, tests, again.other)


def _fate(outcome: Outcome, tests: list[TestAgain]) -> tuple[Any, ...]:
    return outcome.accepted, outcome.kind, [(test.node, test.passed) for test in tests]


def _same_test(tests: tuple[TestAgain, ...]) -> TestAgain:
    """One test on all completions: with its threshold where they agree on it."""
    first = tests[0]
    assert first.threshold is not None
    apart = max(abs((test.threshold or 0.0) - first.threshold) for test in tests)
    return first if apart <= 2 * ROUNDED else replace(first, threshold=None)
