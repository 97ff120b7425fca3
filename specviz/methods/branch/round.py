"""A round of a branch drafter in flight, how its tokens are drawn, and what becomes of them.

Every token is settled exactly once, with one fate. Those of a surviving branch stay open into the next round, which
trims some of them and judges the others.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch

from specviz.engine.decode.context import Context, Observation
from specviz.engine.decode.draft_tree import DraftTree
from specviz.engine.model.rows import Tensor
from specviz.engine.row_stats import facts_of
from specviz.errors import SpecvizError
from specviz.events import DraftStep, Event, Match, MatchTest, Rollback, Settle, Span, TokenFate, six
from specviz.events.branch import ForkReason, Rule
from specviz.methods.branch.model_cache import DraftModelCache
from specviz.methods.common.runner import DraftSampler, laws
from specviz.methods.common.top_k import TOP
from specviz.names import Mode
from specviz.probability.draft import ROOT, NodeFacts
from specviz.probability.draws import NOT_FINITE
from specviz.probability.host import fetch
from specviz.probability.plan import TestResult
from specviz.probability.rows import Row, at


@dataclass(frozen=True, slots=True)
class DraftRow:
    """A draft row before anything is drawn from it. `conf`: the top of its raw softmax; `cost_ns`: of its forward."""

    raw: Tensor  # [V]
    conf: float
    cost_ns: int = 0
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class PendingToken:
    """A drafted token that is not judged yet, with the law it was drawn from (None: a point mass)."""

    node: NodeFacts
    law: Row | None
    look: DraftRow
    cost_ns: int  # its share of the forward


@dataclass(slots=True)
class BranchRound:
    """One round. Nodes are numbers of `tree`; `branches[b]` are those of branch b, its branch token first.

    `point`: the look at the branch point, if it is at hand. `fates` by stable id.
    """

    ctx: Context
    tree: DraftTree
    mode: Mode
    pending: list[int] = field(default_factory=list)
    branches: list[list[int]] = field(default_factory=list)
    drawn: dict[int, PendingToken] = field(default_factory=dict)  # by node
    point: DraftRow | None = None
    reason: ForkReason = "after_last"
    rule: Rule = "topk"
    fates: dict[int, TokenFate] = field(default_factory=dict)
    costs: dict[int, int] = field(default_factory=dict)  # by stable id
    spans: list[Span] = field(default_factory=list)
    sampler: DraftSampler = field(init=False)

    def __post_init__(self) -> None:
        self.sampler = DraftSampler(self.ctx, self.mode)

    @property
    def recorded(self) -> bool:
        return self.ctx.level != "none"

    @property
    def tip(self) -> int:
        """The node that drafting goes on behind."""
        return self.pending[-1] if self.pending else ROOT

    @property
    def shared(self) -> bool:
        """Whether tokens are drawn with the target's noise."""
        return self.mode == "shared" and not self.ctx.warper.greedy

    def note(self, fact: Event) -> None:
        if self.recorded:
            self.ctx.note(fact)

    def ids(self, nodes: Iterable[int]) -> list[int]:
        return [self.tree.node(node).id for node in nodes]

    def looks(self, logits: Tensor, rows: DraftModelCache, name: str) -> list[DraftRow]:
        """The rows `[n, V]` of the last forward, their confidences in one copy."""
        self.ctx.counters.n_syncs += 1
        (confs,) = fetch(logits.softmax(-1).amax(-1))
        if any(math.isnan(conf) for conf in confs):
            raise SpecvizError(NOT_FINITE)
        done = rows.finished()
        span = Span(lane="draft", name=name, t0=done.t0_ns, dur_ns=done.dur_ns)
        self.spans.append(span)
        self.note(span)
        return [DraftRow(raw, conf, done.dur_ns, span) for raw, conf in zip(logits, confs, strict=True)]

    def law(self, parents: Sequence[int], looks: Sequence[DraftRow]) -> list[Row]:
        """The draft laws after some nodes, by the target's own processors."""
        rows = laws(self.ctx, self.tree, parents, torch.stack([look.raw for look in looks]))
        return [rows[k] for k in range(len(looks))]

    def add(
        self, token: int, parent: int, law: Row | None, look: DraftRow, share: int = 1, branch: int | None = None
    ) -> int:
        """A chosen token; `law` None: it was fixed. `share`: how many tokens came from the same forward."""
        node = self.sampler.add(self.tree, parent, token, law, look.raw, branch=branch)
        self._hold(node, PendingToken(self.tree.node(node), self.tree.law(node), look, look.cost_ns // share))
        return node

    def put(self, token: PendingToken) -> None:
        """A pending token that an earlier round drew."""
        node = self.tree.put(token.node, token.law, self.tip)
        self.pending.append(node)
        self._hold(node, token)

    def _hold(self, node: int, token: PendingToken) -> None:
        self.drawn[node] = token
        self.costs[token.node.id] = token.cost_ns

    def step(self, node: int | None, look: DraftRow, bound: float | None = None, branch: int | None = None) -> None:
        """Note a look: a token was drawn under it, or it was too unsure and nothing was."""
        if not self.recorded:
            return
        depth = self.tree.depth(self.tip) + 1 if node is None else self.tree.depth(node)
        record = DraftStep(
            pos=self.ctx.n - 1 + depth,
            branch=branch,
            node=None if node is None else self.tree.node(node).id,
            conf=six(look.conf),
            bound=bound,
            stopped=node is None,
        )
        if node is None and self.ctx.level == "full":  # of a drawn token they stand on its node
            facts = facts_of(None, look.raw[None], TOP)
            record.top, record.entropy = facts.tops[0], facts.entropies[0]
        self.ctx.note(record)

    def settle(self, nodes: Iterable[int], fate: TokenFate) -> None:
        self.fates |= dict.fromkeys(self.ids(nodes), fate)


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
        return [self.flight.drawn[node] for node in self.flight.branches[self.hit][1:]]

    def judged(self) -> list[tuple[float, bool]]:
        """Of every judged place: the draft model's confidence, and whether the target took its token.

        At a branch point it is the likeliest, the first branch's, where branch tokens are fixed, and any branch's where
        one is drawn: that is hit as often as a draw at that place is kept, or somewhat more often.
        """
        flight, missed = self.flight, self.missed
        judged = {node: True for node in flight.pending if node not in missed}  # in order
        place = missed or (flight.branches[0] if flight.branches else [])
        if place and (self.went_on or self.hit is not None):
            judged[place[0]] = self.hit == 0 if flight.rule == "topk" else self.hit is not None
        return [(flight.drawn[node].look.conf, taken) for node, taken in judged.items()]

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
            fates = [flight.fates.get(token.node.id) for token in flight.drawn.values() if token.look.span is span]
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
            MatchTest(token=seen.draft.tokens[step.step.node], thr=float(step.step.threshold), u=step.u, ok=step.passed)
            for step in seen.outcome.steps
            if isinstance(step, TestResult) and seen.draft.ids[step.step.node] in heads
        ]
        mass = None
        if seen.target_probs is not None:
            row = seen.target_probs[len(flight.pending)]
            mass = six(sum(at(row, token) for token in {flight.tree.token(nodes[0]) for nodes in flight.branches}))
        return Match(rule=flight.rule, branch=self.hit, token=seen.tokens[len(flight.pending)], mass=mass, tests=tests)
