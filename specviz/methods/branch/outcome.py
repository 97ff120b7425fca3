"""What becomes of the tokens a branch drafter drew (specbranch.md 7), and its record of a verdict.

Every token is settled exactly once, with one fate. Those of a surviving branch stay open into the next round, which
trims some of them and judges the others.
"""

from collections.abc import Iterable

from specviz.engine.decode.context import Observation
from specviz.events import Match, MatchTest, Rollback, Settle, TokenFate, six
from specviz.methods.branch.round import BranchRound, PendingToken
from specviz.probability.plan import TestResult
from specviz.probability.rows import at


class BranchOutcome:
    """The end of a flight: fates of its tokens, `hit` the branch that survived, `missed` the pending ones that did not.

    `went_on`: the text goes on behind the kept tokens with one of the target's own.
    """

    def __init__(self, flight: BranchRound, seen: Observation) -> None:
        assert seen.outcome is not None
        self.flight, self.seen = flight, seen
        self.kept = {seen.draft.ids[node] for node in seen.outcome.accepted[: len(seen.tokens)]}
        self.went_on = len(seen.tokens) > len(self.kept)
        self.missed = self._judge_pending()
        self.hit = self._judge_branches()

    @property
    def open(self) -> list[PendingToken] | None:
        """What is left to judge of the surviving branch, in order; None when there is none."""
        if self.hit is None or self.seen.finish:
            return None
        return [self.flight.held[node] for node in self.flight.branches[self.hit][1:]]

    def _judge_pending(self) -> list[int]:
        flight = self.flight
        own = flight.ids(flight.pending)
        n_kept = sum(node in self.kept for node in own)
        missed = flight.pending[n_kept:]
        flight.settle(flight.pending[:n_kept], "accepted")
        flight.settle(missed[:1], "rejected" if self.went_on else "unverified_at_end")
        flight.settle(missed[1:], "orphaned" if self.went_on else "unverified_at_end")
        return missed

    def _judge_branches(self) -> int | None:
        flight = self.flight
        heads = flight.ids(nodes[0] for nodes in flight.branches)
        hit = next((b for b, head in enumerate(heads) if head in self.kept), None)
        lost: TokenFate = "branch_lost" if hit is not None else "branch_void" if self.went_on else "unverified_at_end"
        for b, nodes in enumerate(flight.branches):
            if b != hit:
                flight.settle(nodes, lost)
        if hit is not None:
            flight.settle(flight.branches[hit][:1], "accepted")
            if self.seen.finish:
                flight.settle(flight.branches[hit][1:], "unverified_at_end")
        return hit

    def note(self) -> None:
        """Put on record: the match, the fates, the rollback; mark the forwards that were in vain."""
        flight = self.flight
        if not flight.recorded:
            return
        if flight.branches and not self.missed and (self.hit is not None or self.went_on):
            flight.note(self._match())
        if flight.fates:
            flight.note(Settle(fates=list(flight.fates.items()), wasted_ns=self._wasted(flight.fates)))
        rollback = self._rollback()
        if rollback is not None:
            flight.note(rollback)
        for span in flight.spans:
            fates = [flight.fates.get(held.node.id) for held in flight.held.values() if held.look.span is span]
            span.void = bool(fates) and all(fate not in (None, "accepted") for fate in fates)

    def _wasted(self, ids: Iterable[int]) -> int:
        return sum(self.flight.costs.get(node, 0) for node in ids if self.flight.fates[node] != "accepted")

    def _rollback(self) -> Rollback | None:
        """None when nothing was voided: lost and trimmed branches are the price of branching, not of an error."""
        flight = self.flight
        spared = ("accepted", "branch_lost", "trimmed")
        void = {node: fate for node, fate in flight.fates.items() if fate not in spared}
        if not void:
            return None
        counts: dict[TokenFate, int] = {}
        for fate in void.values():
            counts[fate] = counts.get(fate, 0) + 1
        ended = set(counts) == {"unverified_at_end"}
        first = self.missed or [nodes[0] for nodes in flight.branches]
        return Rollback(
            cause="eos" if ended else "reject" if self.missed else "miss",
            node=None if ended else flight.ids(first[:1])[0],
            void=counts,
            wasted_ns=self._wasted(void),
        )

    def _match(self) -> Match:
        seen, flight = self.seen, self.flight
        assert seen.outcome is not None
        heads = set(flight.ids(nodes[0] for nodes in flight.branches))
        tests = [
            MatchTest(token=seen.draft.tokens[made.step.node], thr=float(made.step.threshold), u=made.u, ok=made.passed)
            for made in seen.outcome.steps
            if isinstance(made, TestResult) and seen.draft.ids[made.step.node] in heads
        ]
        mass = None
        if seen.target_probs is not None:
            row = seen.target_probs[len(flight.pending)]
            mass = six(sum(at(row, token) for token in {flight.tree.token(nodes[0]) for nodes in flight.branches}))
        return Match(rule=flight.rule, branch=self.hit, token=seen.tokens[len(flight.pending)], mass=mass, tests=tests)
