"""`decide(run, index, change)`: a recorded round with something changed, without a model.

The answer stands on the text before the round as it was recorded. What came after it is another text from the place
where the two part, so nothing is said of it: the decision of a round is about this round alone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from specviz.errors import SpecvizError
from specviz.events import Header
from specviz.knobs import Knobs, KnobSpec
from specviz.probability.draft import ROOT, Draft
from specviz.probability.plan import DrawResult, Outcome, TestResult, Verifier
from specviz.runlog.fold import Run
from specviz.runlog.run import RoundRecord
from specviz.runlog.tree import RoundTree
from specviz.verifiers import all_verifiers
from specviz.verifiers.lossy import LossyRule
from specviz.whatif.changes import Change, cut, cutting, deepest_left, fitting, verifier_of
from specviz.whatif.complete import SmallRound, completions
from specviz.whatif.decide import DrawsAgain, Recalled, Walked, recall, walk_again
from specviz.whatif.decision import Decision, RoundAgain, Status, TestAgain
from specviz.whatif.loosened import loosened
from specviz.whatif.recorded import CannotTell, RecordedRound, cut_at, follows


def decide(run: Run, record: RoundRecord, change: Change) -> Decision:
    """One round again. `change` is checked (`changes.checked`).

    Raises SpecvizError for a verifier that does not take the draft and for a node that was not drafted.
    """
    round_tree = RoundTree(record)
    header = run.header
    if header is None:
        raise SpecvizError("the trace has no header: it cannot be said what decided its rounds")
    rule = verifier_of(header, change)
    was = as_recorded(round_tree)
    deepest = max((round_tree.depth[i] for i in was.marks), default=0)
    base = Decision(record.q, record.r, record.index, record.start.n, rule.name, was, deepest, follows=follows(record))
    try:
        of = RecordedRound(run, round_tree)
        draft = cut(header, record, of.draft, change.knobs)
        _refuse(rule, draft, record, change, of.draft)
        if isinstance(rule, LossyRule):
            now = loosened(of, draft, rule, {**record.knobs, **change.knobs}, change.uniforms, change.seed)
        else:
            now = _ReplayedRound(of, draft, rule, header.verifier == rule.name, change).round()
    except CannotTell as error:
        return replace(base, why=f"{error}{_needs(header)}")
    gone = tuple(i for i in of.draft.ids if i not in draft.ids)
    if gone and (unknown := _in_their_place(run, round_tree, change, rule, gone, draft, now)):
        return replace(base, why=unknown, gone=gone)
    return replace(base, now=now, gone=gone)


def _needs(header: Header) -> str:
    """What a recording would need for more to be told."""
    if header.outside is not None or header.level == "none":
        return ""
    if header.level != "full":
        return f" with --level {header.level}; one with --level full holds more"
    return f" with its {header.topk} likeliest tokens a row; one with a larger topk holds more"


def _in_their_place(
    run: Run,
    tree: RoundTree,
    change: Change,
    rule: Verifier | LossyRule,
    gone: tuple[int, ...],
    draft: Draft,
    now: RoundAgain,
) -> str:
    """Why a round cannot be told whose drafter would have put others in the place of nodes cut off; "" where it can.

    They come behind their siblings, so what is kept stays: they matter where the round ends. A rule that draws, or
    chooses, its closing token whatever was drafted would follow only a node that spells it.
    """
    record = tree.record
    if run.method_traits.pipelined:  # it works ahead
        ends = {tree.parent(node) for node in gone}
        return _AHEAD if now.stop in ends else ""
    assert run.header is not None
    most = deepest_left(run.header, record, change.knobs)
    if most is None:
        return ""
    if rule.traits.backward:
        return _OTHERS if any(_refilled(tree, gone, most, node, None) for node in (ROOT, *draft.ids)) else ""
    sure = rule.traits.draws or record.temperature == 0
    more = now.kind != "none" and _refilled(tree, gone, most, now.stop, now.closing if sure else None)
    return _OTHERS if more else ""


_OTHERS = "other nodes would have taken the place of those cut off, and what the target says of them is not on record"
_AHEAD = "the draft would end where it was cut, and what its drafter would have put there is not on record"


def _refilled(tree: RoundTree, gone: tuple[int, ...], most: int, node: int, token: int | None) -> bool:
    """Whether a node may have had further children: drafted ones that were not sent, of a known `token` alone, or any
    where none were drafted."""
    if tree.depth.get(node, 0) >= most:
        return False
    born = [i for i in tree.children.get(node, ()) if i in tree.record.nodes and i not in gone]
    spare = [i for i in born if not tree.nodes[i].kept and token in (None, tree.nodes[i].token)]
    return bool(spare) or not tree.children.get(node)


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


def _refuse(rule: Verifier | LossyRule, draft: Draft, record: RoundRecord, change: Change, whole: Draft) -> None:
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


class _ReplayedRound:
    """One round under one rule."""

    def __init__(self, of: RecordedRound, draft: Draft, rule: Verifier, own: bool, change: Change) -> None:
        self.of, self.draft, self.change = of, draft, change
        self.rule = rule.tuned(Knobs({**of.record.knobs, **change.knobs}))
        self.whole = len(draft) == len(of.draft)
        self.own = own and not any(spec.name in change.knobs for spec in rule.knobs)

    def round(self) -> RoundAgain:
        """How it goes. Raises CannotTell."""
        small = completions(self.of, self.draft)
        recorded = self._recalled(small)
        return self._again(walk_again(self.of, self.rule, small, self._draws(), recorded), small)

    def _recalled(self, small: SmallRound) -> Recalled:
        """What the run's rule met. Of a part of a draft its thresholds may be others: a scan begins at the end."""
        header = self.of.run.header
        assert header is not None
        mine = all_verifiers().get(header.verifier)
        if mine is None or mine.refuses(self.of.draft) is not None:
            return recall(self.of, None, small)
        mine = mine.tuned(Knobs(self.of.record.knobs))
        recorded = recall(self.of, mine, small if self.whole else completions(self.of, self.of.draft))
        if not (self.own and self.whole):
            recorded.thresholds.clear()
            recorded.tokens.clear()
        return recorded

    def _draws(self) -> DrawsAgain:
        seed, numbers = self.change.seed, {i: k for k, i in enumerate(self.draft.ids)}
        uniforms = {numbers[i]: u for i, u in self.change.uniforms.items()}
        rows = {self._row_of(node): u for node, u in uniforms.items()}
        chosen = self.of.seed if seed is None else seed + self.of.record.q
        own = self._recorded_uniforms(numbers) if seed is None and self.whole else {}
        return DrawsAgain(chosen, self.of.record.r, own | uniforms, rows, chosen != self.of.seed)

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

    def _again(self, walked: Walked, small: SmallRound) -> RoundAgain:
        outcome, ids = walked.outcome, self.draft.ids
        tokens = [self.draft.tokens[node] for node in outcome.accepted]
        if outcome.closing is not None:
            tokens.append(small.name(outcome.closing))
        left = cut_at(self.of.record, tokens)
        kept = outcome.accepted[:left]
        return RoundAgain(
            accepted=tuple(ids[node] for node in kept),
            marks=dict(zip(ids, marks(outcome, len(self.draft), len(kept)), strict=True)),
            tests=tuple(replace(test, node=ids[test.node]) for test in walked.tests),
            tokens=tuple(tokens[:left]),
            kind=outcome.kind if outcome.kind is not None and len(tokens[:left]) > len(kept) else "none",
            other=walked.other and left == len(tokens),
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


def as_recorded(tree: RoundTree) -> RoundAgain:
    """The round as it was, in the same terms."""
    record = tree.record
    commit, closing = record.commit, record.closing
    known: dict[int, Status] = {}
    for i, verdict in record.verdicts.items():
        if verdict.status != "pruned" and i in tree.nodes:
            known[i] = verdict.status
    order = sorted(known, key=lambda i: (i in record.nodes and not tree.nodes[i].fed, i))
    return RoundAgain(
        accepted=tree.accepted,
        marks={i: known[i] for i in order},
        tests=tuple(
            TestAgain(v.node, v.u, v.thr, v.u < v.thr)
            for v in tree.tests
            if v.kind == "test" and v.u is not None and v.thr is not None
        ),
        tokens=tuple(commit.tokens) if commit is not None else (),
        kind=closing.kind if closing is not None else "none",
    )
