"""`decide_run(run, change)`: every round of a run again, each on the text before it as it was recorded.

Counts of single rounds are compared pair by pair: so many drafted tokens kept, so many under the change. They do not
add up to another run: from the first place where the text parts, later rounds would have begun elsewhere. Rounds that
cannot be told are counted with their reasons, and while there are any it is not said which way a run would go.
"""

from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from specviz.errors import SpecvizError
from specviz.metrics.estimate import Estimate, Ratio
from specviz.runlog.fold import Run
from specviz.whatif.again import Unfit, decide
from specviz.whatif.changes import Change, checked, verifier_of
from specviz.whatif.decision import Decision
from specviz.whatif.exits import ExitReplay, exits_asked

Verdict = Literal["more", "fewer", "same", "cannot tell yet"]
_QUERIES_AS_UNITS = 8
_INSIDE = "a stop before it leaves the rule a block to write to its end, in rounds that draft nothing"


@dataclass(frozen=True, slots=True)
class RoundGain:
    """One round: tokens kept, and how many under the change, None where that cannot be told.

    `pos`: where its text would part, None: nowhere; `sure`: at that place, else there or behind it, or not at all.
    """

    q: int
    r: int
    index: int
    was: int
    kept: int | None
    pos: int | None
    why: str = ""
    sure: bool = True


@dataclass(frozen=True, slots=True)
class RunAgain:
    """All rounds that had a draft. `difference`: its mean with its 95 % interval, paired by round, over those told.

    `unfit`: rounds whose draft the rule does not take, which are left out; `reasons`: why rounds cannot be told, and
    how many. `carried`: rounds that the rule would need besides, to write the blocks of told rounds to their end.
    `moved`: of a rule that is read and not run, by how much the law of a token it writes is off the target's on average
    (total variation), over the rounds told; None where that is not told of one of them, for the reason `unmoved`.
    """

    verifier: str
    rounds: tuple[RoundGain, ...]
    was: Estimate | None
    difference: Estimate | None
    unfit: int = 0
    reasons: tuple[tuple[str, int], ...] = ()
    carried: int = 0
    moved: Estimate | None = None
    unmoved: str = ""

    @property
    def n_told(self) -> int:
        return sum(gain.kept is not None for gain in self.rounds)

    @property
    def verdict(self) -> Verdict:
        """What can be said: whether more tokens would be kept a round. An interval that holds 0 says nothing."""
        if self.rounds and all(gain.kept == gain.was for gain in self.rounds):
            return "same"
        within = self.difference.interval if self.difference is not None else None
        untold = self.n_told < len(self.rounds)
        if self.unfit or untold or within is None or within[0] <= 0 <= within[1]:
            return "cannot tell yet"
        return "more" if within[0] > 0 else "fewer"

    @property
    def parts(self) -> RoundGain | None:
        """The first round in which the text would part."""
        return next((gain for gain in self.rounds if gain.pos is not None), None)


def decide_run(run: Run, change: Change) -> RunAgain:
    """Every round again. Raises SpecvizError when the change fits none of them."""
    if run.header is None:
        raise SpecvizError("the trace has no header: it cannot be said what decided its rounds")
    if exits_asked(run, change):
        return _exits(run, change)
    change = checked(run.header, change)
    if change.uniforms:
        raise SpecvizError("a uniform of one node says something of one round: name it with --at")
    tally, unfit = _Tally(), Counter[str]()
    blocks = _Blocks(verifier_of(run.header, change).carries)
    name = change.verifier or run.header.verifier
    for record in run.rounds:
        if not record.verdicts or not record.complete:
            continue
        try:
            tally.add(blocks.behind(decide(run, record, change), record.start.carry is not None))
        except Unfit as error:
            unfit[str(error)] += 1
    if not tally.gains:
        raise SpecvizError(unfit.most_common(1)[0][0] if unfit else _nothing(run))
    return replace(tally.summary(name, sum(unfit.values())), carried=blocks.carried)


class _Blocks:
    """Where the rule would be writing a block to its end, a token a round, while the recorded run drafted anew."""

    def __init__(self, carries: bool) -> None:
        self.carried = 0  # rounds of blocks that are told
        self._carries = carries
        self._q = -1
        self._until, self._sure = 0, True  # position up to which a stop before reaches; whether there was one

    def behind(self, decision: Decision, carried: bool) -> Decision:
        """The decision of the next round; not told where a stop before may have left it nothing to draft."""
        if decision.q != self._q:
            self._q, self._until = decision.q, 0
        inside = decision.n < self._until
        if carried or (inside and self._sure):
            return replace(decision, now=None, why=decision.why or _INSIDE)
        now = decision.now
        end = decision.n + decision.deepest if now is None else decision.n + len(now.tokens) + now.carries
        stops = now.carries > 0 if now is not None else self._carries
        self._sure = not inside and now is not None and stops
        self._until = max(self._until, end if stops else 0)
        self.carried += now.carries if now is not None and not inside else 0
        return replace(decision, now=None, why=_INSIDE) if inside else decision


def _exits(run: Run, change: Change) -> RunAgain:
    """The same of early exit's settings: exact, and no text parts."""
    assert run.header is not None
    replay, tally = ExitReplay(run, change.knobs), _Tally()
    for record in run.rounds:
        if record.complete:
            decision = replay.decide(record)
            tally.count(RoundGain(decision.q, decision.r, decision.index, decision.was, decision.kept, None))
    return tally.summary(run.header.verifier, 0)


def _nothing(run: Run) -> str:
    missing = next((why for record in run.rounds if (why := run.missing(record)) is not None), None)
    return f"there is no draft to decide about: {missing or 'nothing was drafted in this run'}"


class _Tally:
    """Adds up decisions."""

    def __init__(self) -> None:
        self.gains: list[RoundGain] = []
        self._was, self._difference, self._moved = Ratio(), Ratio(), Ratio()
        self._unmoved = ""
        self._why: Counter[str] = Counter()

    def add(self, decision: Decision) -> None:
        was, parting = len(decision.was.accepted), decision.parting
        if decision.why:
            self._why[decision.why] += 1
        if (now := decision.now) is not None:
            self._unmoved = self._unmoved or now.unmoved
            if now.moved is not None:
                self._moved.add(len(self.gains) + 1, decision.q, Fraction(now.moved), len(now.tokens))
        pos = parting.pos if parting is not None else None
        sure = parting is None or parting.sure
        self.count(RoundGain(decision.q, decision.r, decision.index, was, decision.kept, pos, decision.why, sure))

    def count(self, gain: RoundGain) -> None:
        """One more round."""
        self.gains.append(gain)
        n = len(self.gains)
        self._was.add(n, gain.q, gain.was, 1)
        if gain.kept is not None:
            self._difference.add(n, gain.q, gain.kept - gain.was, 1)

    def summary(self, verifier: str, unfit: int) -> RunAgain:
        """Over rounds, or over queries from 8 on."""
        by_query = self._was.n_queries >= _QUERIES_AS_UNITS
        return RunAgain(
            verifier,
            tuple(self.gains),
            self._was.estimate(by_query),
            self._difference.signed(by_query),
            unfit,
            tuple(self._why.most_common()),
            moved=None if self._unmoved else self._moved.estimate(by_query),
            unmoved=self._unmoved,
        )
