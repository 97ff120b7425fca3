"""`decide(run, index, change)`: a recorded round with something changed, without a model.

The answer stands on the text before the round as it was recorded. What came after it is another text from the place
where the two part, so nothing is said of it: the decision of a round is about this round alone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from specviz.errors import SpecvizError
from specviz.knobs import Knobs, KnobSpec
from specviz.probability.draft import ROOT, Draft
from specviz.probability.plan import DrawResult, Outcome, TestResult, Verifier
from specviz.runlog.fold import Run
from specviz.runlog.run import RoundRecord
from specviz.runlog.tree import RoundTree
from specviz.verifiers import all_verifiers
from specviz.whatif.changes import Change, cut, cutting, deepest_left, fitting, verifier_of
from specviz.whatif.complete import SmallRound, completions
from specviz.whatif.decide import DrawsAgain, MergedPlan, Way, every_way
from specviz.whatif.decision import Decision, RoundAgain, Status, TestAgain
from specviz.whatif.recorded import UNKNOWN_TOKEN, CannotTell, RecordedRound, follows
from specviz.whatif.told import remember, remember_draws, remember_text


def decide(run: Run, record: RoundRecord, change: Change) -> Decision:
    """One round again. `change` is checked (`changes.checked`).

    Raises SpecvizError for a verifier that does not take the draft and for a node that was not drafted.
    """
    family = RoundTree(record)
    header = run.header
    if header is None:
        raise SpecvizError("the trace has no header: it cannot be said what decided its rounds")
    rule = verifier_of(header, change)
    was = as_recorded(family)
    deepest = max((family.depth[i] for i in was.marks), default=0)
    base = Decision(record.q, record.r, record.index, record.start.n, rule.name, was, deepest, follows=follows(record))
    try:
        of = RecordedRound(run, family)
        draft = cut(header, record, of.draft, change.knobs)
        _refuse(rule, draft, record, change, of.draft)
        ways = _Again(of, draft, rule, header.verifier == rule.name, change).ways()
    except CannotTell as error:
        return replace(base, why=str(error))
    gone = tuple(i for i in of.draft.ids if i not in draft.ids)
    if gone and run.method_traits.pipelined and (unknown := _open_end(family, gone, ways)):
        return replace(base, why=unknown, gone=gone)
    most = deepest_left(header, record, change.knobs)
    if most is not None and not run.method_traits.pipelined:
        if gone and rule.traits.backward:
            if any(_refilled(family, gone, most, node, None) for node in (ROOT, *draft.ids)):
                return replace(base, why=_OTHERS, gone=gone)
        elif gone:
            sure = rule.traits.draws or record.temperature == 0
            ways = [_grown(family, gone, most, way, sure) for way in ways]
    return replace(base, ways=tuple(ways), gone=gone)


_OTHERS = "other nodes would have taken the place of those cut off, and what the target says of them is not on record"


def _refilled(family: RoundTree, gone: tuple[int, ...], most: int, node: int, token: int | None) -> bool:
    """Whether a node may have had further children: drafted ones that were not sent, of a known `token` alone, or any
    where none were drafted."""
    if family.depth.get(node, 0) >= most:
        return False
    born = [i for i in family.children.get(node, ()) if i in family.record.nodes and i not in gone]
    spare = [i for i in born if not family.nodes[i].kept and token in (None, family.nodes[i].token)]
    return bool(spare) or not family.children.get(node)


def _grown(family: RoundTree, gone: tuple[int, ...], most: int, way: RoundAgain, sure: bool) -> RoundAgain:
    """The way where nodes in place of those cut off may go on from its end. They come behind their siblings, so what
    was kept stays. `sure`: the closing token was drawn, or chosen, whatever was drafted: a node must spell it."""
    if way.kind == "none" or not _refilled(family, gone, most, way.stop, way.closing if sure else None):
        return way
    open_end = (*way.tokens[: len(way.accepted)], UNKNOWN_TOKEN)
    return replace(way, tokens=open_end, may_close=(UNKNOWN_TOKEN,), never=(), more=most - len(way.accepted))


@dataclass(frozen=True, slots=True)
class Movable:
    """What may be another in a round: verifiers that take its draft, knobs of the one that decides and those that leave
    a part of the draft, and the uniforms of the tests that were made, by node."""

    verifiers: tuple[str, ...]
    knobs: tuple[KnobSpec, ...]
    uniforms: Mapping[int, float]


def movable(run: Run, record: RoundRecord, change: Change) -> Movable:
    """What may be asked of a round; nothing but its own rule where its draft is not on record."""
    header = run.header
    if header is None:
        raise SpecvizError("the trace has no header: it cannot be said what decided its rounds")
    drawn = {
        node: verdict.u for node, verdict in record.verdicts.items() if verdict.kind == "test" and verdict.u is not None
    }
    try:
        names = fitting(RecordedRound(run, RoundTree(record)).draft) if record.start.carry is None else ()
    except CannotTell:
        names = ()
    return Movable(names or (header.verifier,), (*verifier_of(header, change).knobs, *cutting(header)), drawn)


class Unfit(SpecvizError):
    """A draft that the rule does not take."""


def _refuse(rule: Verifier, draft: Draft, record: RoundRecord, change: Change, whole: Draft) -> None:
    for node in change.uniforms:
        if node not in draft.ids:
            fate = "is cut off" if node in whole.ids else "was not judged"
            raise SpecvizError(f"n{node} {fate} in round {record.r}; judged there: {_listed(draft.ids)}")
    if record.start.carry is not None:
        raise CannotTell("it goes on with the block of the round before, which nothing but the run's own rule writes")
    if (why := rule.refuses(draft)) is not None:
        raise Unfit(f"verifier {rule.name} does not take this draft: {why}; these do: {', '.join(fitting(draft))}")


def _listed(ids: tuple[int, ...]) -> str:
    names = [f"n{i}" for i in ids]
    return ", ".join(names[:8]) + (f" .. {names[-1]}" if len(names) > 8 else "") if names else "nothing"


def _open_end(family: RoundTree, gone: tuple[int, ...], ways: list[RoundAgain]) -> str:
    """Why it cannot be told how a round goes whose drafter works ahead: what it would have put in place of the cut."""
    ends = {family.parent(node) for node in gone}
    if any(way.stop in ends for way in ways):
        return "the draft would end where it was cut, and what its drafter would have put there is not on record"
    return ""


class _Again:
    """One round under one rule."""

    def __init__(self, of: RecordedRound, draft: Draft, rule: Verifier, own: bool, change: Change) -> None:
        self.of, self.draft, self.change = of, draft, change
        self.rule = rule.tuned(Knobs({**of.record.knobs, **change.knobs}))
        self.whole = len(draft) == len(of.draft)
        self.own = own and not any(spec.name in change.knobs for spec in rule.knobs)

    def ways(self) -> list[RoundAgain]:
        """All of them, each once."""
        small = completions(self.of, self.draft)
        merged = MergedPlan(self.rule, small, self.of)
        self._remember(merged, small)
        found: dict[tuple[Any, ...], RoundAgain] = {}
        for way in every_way(merged, self._draws()):
            again = self._again(way, small)
            found.setdefault((tuple(again.marks.items()), again.tokens), again)
        return list(found.values())

    def _remember(self, merged: MergedPlan, small: SmallRound) -> None:
        """What the run's rule met. Of a part of a draft its thresholds may be others: a scan begins at the end."""
        if self.own and self.whole:
            remember(merged)
            return
        header = self.of.run.header
        assert header is not None
        mine = all_verifiers().get(header.verifier)
        if mine is not None and mine.refuses(self.of.draft) is None:
            whole = small if self.whole else completions(self.of, self.of.draft)
            own = MergedPlan(mine.tuned(Knobs(self.of.record.knobs)), whole, self.of)
            remember(own)
            remember_draws(merged, own)
        if header.keeps_tokens:
            remember_text(merged)

    def _draws(self) -> DrawsAgain:
        seed, numbers = self.change.seed, {i: k for k, i in enumerate(self.draft.ids)}
        given = {numbers[i]: u for i, u in self.change.uniforms.items()}
        rows = {self._row_of(node): u for node, u in given.items()}
        chosen = self.of.seed if seed is None else seed + self.of.record.q
        own = self._recorded_uniforms(numbers) if seed is None and self.whole else {}
        return DrawsAgain(chosen, self.of.record.r, own | given, rows, chosen != self.of.seed)

    def _recorded_uniforms(self, numbers: dict[int, int]) -> dict[int, float]:
        """Those of tests that were made, by the node that was judged: what its key gives, unless set by hand."""
        out: dict[int, float] = {}
        for verdict in self.of.record.verdicts.values():
            tested = numbers.get(verdict.node if verdict.judged is None else verdict.judged)
            if tested is not None and verdict.kind == "test" and verdict.u is not None:
                out[tested] = verdict.u
        return out

    def _row_of(self, node: int) -> int:
        """The node that stands for the text a node is drawn after."""
        parent = self.draft.parents[node]
        return parent if parent == ROOT else self.draft.spelling.first(parent)

    def _again(self, way: Way, small: SmallRound) -> RoundAgain:
        outcome, ids = way.outcome, self.draft.ids
        tokens = [self.draft.tokens[node] for node in outcome.accepted]
        if outcome.closing is not None:
            tokens.append(small.name(outcome.closing))
        left = _cut_at(self.of.record, tokens)
        kept = outcome.accepted[:left]
        return RoundAgain(
            accepted=tuple(ids[node] for node in kept),
            marks=dict(zip(ids, marks(outcome, len(self.draft), len(kept)), strict=True)),
            tests=tuple(TestAgain(ids[t.node], t.u, t.low, t.high, t.passed) for t in way.tests),
            tokens=tuple(tokens[:left]),
            kind=outcome.kind if outcome.kind is not None and len(tokens[:left]) > len(kept) else "none",
            may_close=tuple(small.name(token) for token in way.may_close) if left == len(tokens) else (),
            never=tuple(small.name(token) for token in way.never) if left == len(tokens) else (),
            carries=outcome.carry.left if outcome.carry is not None and left == len(tokens) else 0,
        )


def marks(outcome: Outcome, count: int, n_accepted: int) -> Iterator[Status]:
    """What becomes of every node of a draft, `n_accepted` of those kept being left by the end of the text."""
    kept, tried = outcome.accepted, set()
    for result in outcome.steps:
        if isinstance(result, TestResult):
            tried.add(result.shown)
        elif isinstance(result, DrawResult):
            tried.update(result.judged[: result.n_tested])
    for node in range(count):
        yield (
            "accepted"
            if node in kept[:n_accepted]
            else "rejected"
            if node in tried and node not in kept
            else "untested"
        )


def _cut_at(record: RoundRecord, tokens: list[int]) -> int:
    """How many of the tokens become text: the recorded round may have ended it, at the limit or by what it wrote."""
    commit = record.commit
    if commit is None or commit.finish is None:
        return len(tokens)
    by_place = commit.finish in ("length", "context")
    if by_place or tokens[: len(commit.tokens)] == commit.tokens:
        return min(len(tokens), len(commit.tokens))
    return len(tokens)


def as_recorded(family: RoundTree) -> RoundAgain:
    """The round as it was, in the same terms."""
    record = family.record
    commit, closing = record.commit, record.closing
    known: dict[int, Status] = {}
    for i, verdict in record.verdicts.items():
        if verdict.status != "pruned" and i in family.nodes:
            known[i] = verdict.status
    order = sorted(known, key=lambda i: (i in record.nodes and not family.nodes[i].fed, i))
    return RoundAgain(
        accepted=family.accepted,
        marks={i: known[i] for i in order},
        tests=tuple(
            TestAgain(v.node, v.u, v.thr, v.thr, v.u < v.thr)
            for v in family.tests
            if v.kind == "test" and v.u is not None and v.thr is not None
        ),
        tokens=tuple(commit.tokens) if commit is not None else (),
        kind=closing.kind if closing is not None else "none",
    )
