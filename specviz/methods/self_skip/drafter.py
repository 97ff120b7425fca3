"""Draft&Verify: the target with some sublayers left out drafts, the whole target verifies.

A draft begins at the committed text and runs one row at a time through what is left of the layers. It ends after the
first token that it gave less than the threshold, which is verified like the rest; then the whole target runs all rows
from the committed text. What the threshold is compared with is known before the token is drawn, and the controller
reads finished rounds only, so drawn drafts keep their law.

Draft&Verify's threshold controller. A function of finished rounds: part of a query's state.
"""

import math
from dataclasses import dataclass, field

from specviz.engine.decode.context import Context, Observation
from specviz.engine.decode.draft_tree import DraftTree
from specviz.engine.decode.drafter import Drafter
from specviz.engine.model.adapter import FactoryModels, Model
from specviz.engine.model.rows import ForwardBatch
from specviz.events import ExitRound, Warn
from specviz.knobs import Knobs
from specviz.methods.common.runner import DraftSampler
from specviz.methods.common.top_k import RowConfidence, draft_steps
from specviz.methods.self_skip.model import Borrowed, SkippedModel, pick
from specviz.names import DraftEnd, Mode
from specviz.probability.draft import ROOT, Draft


@dataclass(slots=True)
class _Round:
    """What a round must remember until its verdict is in. `most`: the longest draft its knobs allowed."""

    ctx: Context
    bound: float
    most: int
    controlled: bool
    looks: list[RowConfidence] = field(default_factory=list)


class SkipDrafter(Drafter):
    """Drafts with `model`, which reads the target's cache. `n_kept`: the sublayers of it that a draft runs."""

    def __init__(self, model: Model, n_kept: int, mode: Mode) -> None:
        self.model, self.n_kept, self.mode = model, n_kept, mode
        self.notice: str | None = None  # what to say once
        self.control = ThresholdControl(math.nan)
        self._tau = math.nan  # the knob that the controller began with
        self._round: _Round | None = None

    def propose(self, ctx: Context) -> Draft:
        """A chain of at most `w_max` drafts, cut to the room and at a stop token (kept, not fed)."""
        if self.notice is not None:
            ctx.note(Warn(code="skip_set", message=self.notice))
            self.notice = None
        now = self._round = self._begin(ctx)
        tree = DraftTree(ctx)
        end = self._fill(now, tree)
        return tree.draft(end, shared=self.mode == "shared" and not ctx.warper.greedy)

    def _begin(self, ctx: Context) -> _Round:
        """A threshold set by hand is where the controller begins anew."""
        if ctx.knobs["tau"] != self._tau:
            self._tau = ctx.knobs["tau"]
            self.control = ThresholdControl(self._tau, self.control.matched)
        controlled = bool(ctx.knobs["tau_control"])
        return _Round(ctx, self.control.threshold if controlled else self._tau, ctx.knobs["w_max"], controlled)

    def _fill(self, now: _Round, tree: DraftTree) -> DraftEnd:
        ctx, node = now.ctx, ROOT
        width = min(now.most, ctx.reach)
        rows = ForwardBatch(self.model, Borrowed(ctx.rows.cache))
        row = rows.add_line(list(ctx.tokens[rows.first :]))
        sampler = DraftSampler(ctx, self.mode)
        while len(tree) < width:
            look = RowConfidence.at(row, 0, rows.take(1), 1.0, ctx.level == "full")
            ctx.counters.n_draft_calls += 1
            ctx.counters.n_syncs += 1
            now.looks.append(look)
            node = sampler.after(tree, node, look)
            if tree.ends(node):
                return "stop_token"
            if look.raw < now.bound:
                return "low_conf"
            row = rows.add(tree.token(node), row)
        return "width" if width == now.most else "length"

    def observe(self, seen: Observation) -> None:
        """Move the threshold, and write down the round."""
        now, self._round = self._round, None
        if now is None or seen.outcome is None:
            return
        accepted = len(seen.outcome.accepted)
        if now.controlled:
            self.control = self.control.after(accepted, len(seen.draft), now.most)
        if now.ctx.level != "none":
            for step in draft_steps(now.looks, now.ctx.n, now.bound, seen.draft.ids, now.ctx.level == "full"):
                now.ctx.note(step)
            now.ctx.note(self._cost(now, seen))

    def _cost(self, now: _Round, seen: Observation) -> ExitRound:
        """Two sublayers count as a layer, a half is rounded up; drafts share no cell with the target."""
        n_layers, n_rows = now.ctx.rows.model.n_layers, seen.draft.n_fed + 1
        drafting = -(-len(now.looks) * self.n_kept // 2)
        kept = sum(seen.draft.has_row(node) for node in seen.outcome.accepted) if seen.outcome else 0
        return ExitRound(
            n_rows=n_rows,
            layer_calls=n_layers + drafting,
            cells=n_rows * n_layers + drafting,
            head_tests=len(now.looks),
            saved_calls=kept * n_layers - drafting,
            wasted_cells=(n_rows - 1 - kept) * n_layers + drafting,
        )

    def parts(self) -> dict[str, str]:
        if not isinstance(self.model, SkippedModel):
            return {}
        n_all = 2 * self.model.target.n_layers
        return {
            "skip set": f"{self.model.skips or 'nothing'} left out; a draft runs {self.n_kept} of {n_all} sublayers"
        }


def make(models: FactoryModels, knobs: Knobs) -> SkipDrafter:
    """The drafter of method `draft_and_verify`. Raises ModelError in one line for a set that is not this target's."""
    skips, notice = pick(models.target, knobs["skip_set"])
    drafter = over(models, SkippedModel(models.target, skips), knobs["draft_mode"])  # type: ignore[arg-type]
    drafter.notice = notice
    return drafter


def over(models: FactoryModels, model: SkippedModel, mode: Mode) -> SkipDrafter:
    return SkipDrafter(model, model.skips.kept(models.target.n_layers), mode)


KEEP, WANTED, STEP, INERTIA = 0.5, 0.9, 0.01, 0.9


@dataclass(frozen=True, slots=True)
class ThresholdControl:
    """`threshold`: drafting ends after a draft below it. `matched`: a running share of drafts kept, 0 at the start."""

    threshold: float
    matched: float = 0.0

    def after(self, accepted: int, drafted: int, most: int) -> "ThresholdControl":
        """The controller after a round; a round without drafts says nothing.

        Where enough is kept, the threshold falls, except when all of `most` were drafted: it did not stop anything.
        """
        if drafted == 0:
            return self
        matched = KEEP * self.matched + (1 - KEEP) * accepted / drafted
        aim = self.threshold
        if matched < WANTED:
            aim += STEP
        elif drafted < most:
            aim -= STEP
        return ThresholdControl(INERTIA * self.threshold + (1 - INERTIA) * aim, matched)
