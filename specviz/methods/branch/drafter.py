"""SpecBranch and PEARL: draft ahead of the verdict, in branches.

`propose` brings the pending tokens: after a hit the part of the surviving branch that the signal keeps (posterior
drafting, with this round's knobs), else a draft stage of its own, during which the target waits. `draft_ahead`, beside
the target's pass, forks branches behind the last pending token and drafts on in each. `observe` keeps the rest of the
branch that was hit for the next `propose`.

Whether a position is pending, a branch point or neither is told before anything is drawn there: by the signal,
by the top of the draft row, by the room left. A token that was drawn is never dropped for what it is. An aborted round
leaves nothing behind: what survived the last finished round is given up only when the next one is observed.
"""

from collections import deque
from dataclasses import replace
from statistics import median

from specviz.engine.decode.context import Context, Observation
from specviz.engine.decode.draft_tree import DraftTree
from specviz.engine.decode.drafter import OverlappingDrafter
from specviz.engine.model.adapter import FactoryModels
from specviz.events import Posterior
from specviz.knobs import Knobs
from specviz.methods.branch.fork import BranchDrafter
from specviz.methods.branch.hrad import Alternating, Signals, pick
from specviz.methods.branch.model_cache import KEPT, DraftModelCache
from specviz.methods.branch.round import BranchOutcome, BranchRound, PendingToken
from specviz.methods.branch.spec import LIKELY_LEN
from specviz.names import DraftEnd, Mode
from specviz.probability.draft import Draft


class Branching(OverlappingDrafter):
    """Works ahead in branches. Owns the draft model's cache; `signals` say how much to draft and to keep."""

    newest_only = True  # of the observed states, the signal reads those of the newest token only

    def __init__(self, models: FactoryModels, mode: Mode, signals: Signals) -> None:
        assert models.draft is not None
        self.rows = DraftModelCache(models.draft, models.capacity)
        self.mode, self.signals = mode, signals
        self.taps = signals.taps
        self._open: list[PendingToken] | None = None  # of the branch that survived the last round; None: none did
        self._flight: BranchRound | None = None
        self._target_ns: deque[int] = deque(maxlen=KEPT)

    @property
    def ahead(self) -> bool:
        """Whether a branch survived the last round."""
        return self._open is not None

    def propose(self, ctx: Context) -> Draft:
        """The pending tokens of this round."""
        flight = self._flight = BranchRound(ctx, DraftTree(ctx), self.mode)
        end = self._draft_stage(flight) if self._open is None else self._posterior(flight, self._open)
        return flight.tree.draft(end, shared=flight.shared)

    def draft_ahead(self, ctx: Context, draft: Draft) -> Draft:
        """The branches, drafted while the target judges the pending tokens."""
        flight = self._flight
        assert flight is not None
        target_ns = median(self._target_ns) if self._target_ns else None
        BranchDrafter(flight, self.rows, target_ns, self.signals.verdicts.likely_len).run()
        return flight.tree.draft(draft.draft_end, shared=flight.shared)

    def observe(self, seen: Observation) -> None:
        """Settle what is known now; keep what is left of the surviving branch."""
        self.signals.observe(seen)
        flight, self._flight = self._flight, None
        if flight is None or seen.outcome is None:
            return
        landing = BranchOutcome(flight, seen)
        landing.note()
        self.signals.verdicts.add(landing.judged(), flight.ctx.knobs.get("epsilon", 0))
        self._open = landing.open
        rest = [pending.node.token for pending in self._open or ()]
        self.rows.close([*flight.ctx.tokens, *seen.tokens, *rest])
        self._target_ns.append(seen.target_ns)

    def parts(self) -> dict[str, str]:
        """The classifier's entry in the run header."""
        return self.signals.parts()

    def cached(self) -> int | None:
        """Slots of the draft model's cache that spell the text and the open rest of a surviving branch."""
        return self.rows.spelled

    def _posterior(self, flight: BranchRound, rest: list[PendingToken]) -> DraftEnd:
        """Keep the beginning of the surviving branch; the draft row at the cut is the branch point's."""
        ctx = flight.ctx
        s = self.signals.ask(ctx, "posterior") if rest else 2
        wanted = n_kept(rest, s, ctx.knobs)
        keep = min(wanted, self.rows.reach(ctx))
        for pending in rest[:keep]:
            flight.put(pending)
        for pending in rest[keep:]:
            flight.fates[pending.node.id], flight.costs[pending.node.id] = "trimmed", pending.cost_ns
        known = keep < len(rest)
        if known:  # the forward is shared out already, to the tokens that were drawn from it when it was made
            flight.point = replace(rest[keep].look, cost_ns=0, span=None)
            flight.reason = "cap" if keep < wanted else "s0" if s == 0 else "low_conf"
        self.rows.open(ctx, [pending.node.token for pending in rest[:keep]])
        if rest:
            flight.note(Posterior(s=s, n_kept=keep, n_trimmed=len(rest) - keep, pos=ctx.n + keep, known=known))
        if not known:
            return "full"
        return "length" if keep < wanted else "signal" if s == 0 else "low_conf"

    def _draft_stage(self, flight: BranchRound) -> DraftEnd:
        """Draft after a rollback, until the draft model is unsure if the signal says so; the target waits."""
        ctx, tree, knobs = flight.ctx, flight.tree, flight.ctx.knobs
        cap = min(knobs["gamma"], self.rows.reach(ctx))
        if cap == 0:  # nothing will be drafted; past its context the draft model must not even read
            return "full" if knobs["gamma"] == 0 else "length"
        self.rows.open(ctx, [])
        s = self.signals.ask(ctx, "draft")
        if s == 0:
            flight.reason = "s0"
            return "signal"
        most = cap
        if knobs.get("branch_len") == LIKELY_LEN:  # of a branch the first token is judged as one of several, here not
            most = self.signals.verdicts.likely_len(cap + 1) - 1
        while len(flight.pending) < most:
            look = flight.looks(self.rows.tip(ctx)[None], self.rows, "draft")[0]
            bound = knobs["epsilon"] if s == 1 and len(flight.pending) >= knobs["soft_min_keep"] else None
            if bound is not None and look.conf < bound:
                flight.point, flight.reason = look, "low_conf"
                flight.step(None, look, bound)
                return "low_conf"
            law = flight.law([flight.tip], [look])[0]
            node = flight.add(flight.sampler.token(len(flight.pending) + 1, law), flight.tip, law, look)
            flight.pending.append(node)
            flight.step(node, look, bound)
            if tree.ends(node):
                return "stop_token"
            self.rows.push(tree.token(node))
        if most < cap:
            return "budget"
        return "full" if cap == knobs["gamma"] else "length"


def n_kept(rest: list[PendingToken], s: int, knobs: Knobs) -> int:
    """How many tokens of a surviving branch to keep, by the confidence of the rows they came from."""
    if s != 1:
        return 0 if s == 0 else len(rest)
    least, bound = knobs["soft_min_keep"], knobs["epsilon"]
    return next((j for j, pending in enumerate(rest) if j >= least and pending.look.conf < bound), len(rest))


def specbranch(models: FactoryModels, knobs: Knobs) -> Branching:
    """The drafter of method `specbranch`. Raises ModelError for a classifier that is not of this pair."""
    asked: str | None = next(iter(knobs["hrad"]), None)
    return Branching(models, knobs["draft_mode"], Signals(pick(models.target, models.draft, asked, knobs["gamma"])))


def pearl(models: FactoryModels, knobs: Knobs) -> Branching:
    """The drafter of method `pearl`: one branch, and a signal that knows only whether there was a rollback."""
    return Branching(models, knobs["draft_mode"], Alternating())
