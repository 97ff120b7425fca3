"""Early exit: the target's own shallow layers draft (SpecBound, ACL 2026).

The newest row climbs layer by layer. After a layer with a test its head is asked; sure enough, the row stops there and
the head's choice is fed as the next row. Where a row enters a layer that older rows have not passed, those go through
it in the same call (`ForwardBatch.climb`), so every layer always holds a prefix of the text and no cell is computed
twice. A row that stops nowhere, or the `w_max`-th draft, is left to the target pass: the same climb to the top.

What the gate looks at is known before a token is drawn, so drawn drafts keep their law. A drafted stop token is
kept and not fed: its row climbs on and judges it itself; throwing the draw away would bias the text.
"""

import time

from specviz.cost.exit_replay import annealed
from specviz.cost.ledger import Clock
from specviz.engine.decode.context import Context, Observation
from specviz.engine.decode.draft_tree import DraftTree
from specviz.engine.decode.drafter import Drafter
from specviz.engine.measure import layer_clock
from specviz.engine.model.adapter import FactoryModels, Model, ModelAdapter
from specviz.engine.model.rows import Tensor
from specviz.events import Warn
from specviz.knobs import Knobs, KnobSpec
from specviz.methods.common.knobs import single
from specviz.methods.common.runner import DraftSampler
from specviz.methods.common.top_k import RowConfidence
from specviz.methods.early_exit.heads import Heads, describe, pick, tested
from specviz.methods.early_exit.recorder import ExitRecorder
from specviz.methods.early_exit.spec import Limits, fitted, outside, read
from specviz.names import DraftEnd, Mode
from specviz.probability.draft import ROOT, Draft


class EarlyExit(Drafter):
    """Drafts by climbing `ctx.rows`; owns no cache. `depth`: the share of the layers that `d_max = -1` stands for."""

    def __init__(self, target: Model, heads: Heads, mode: Mode, depth: float, clock: Clock | None = None) -> None:
        self.target, self.heads, self.mode, self.depth, self.clock = target, heads, mode, depth, clock
        self.warns = False  # whether to say which tested layers have no trained head
        self._told: list[str] = []  # settings already reported to leave out layers
        self._trail: ExitRecorder | None = None

    def propose(self, ctx: Context) -> Draft:
        """A chain of at most `w_max` drafts fed, cut to the room; the last row of it may have been tested in vain."""
        limits = read(ctx.knobs.values, self.target.n_layers, self.depth, self.heads.advised)
        self._say_left_out(ctx, limits)
        self._say_lens(ctx, limits)
        trail = self._trail = self._open(ctx, limits)
        tree = DraftTree(ctx)
        end = self._fill(ctx, limits, trail, tree)
        return tree.draft(end, shared=self.mode == "shared" and not ctx.warper.greedy)

    def _open(self, ctx: Context, limits: Limits) -> ExitRecorder:
        return ExitRecorder(ctx, limits, self.heads, self.clock)

    def _fill(self, ctx: Context, limits: Limits, trail: ExitRecorder, tree: DraftTree) -> DraftEnd:
        """Climb, test and draft until a row stops nowhere or enough are fed; why it ended."""
        width = min(limits.w_max, ctx.reach)
        row, node = ctx.root_row, ROOT
        while len(tree) < width:
            look = self._climb(ctx, limits, trail, row)
            if look is None:
                return "depth" if limits.layers else "no_exit_layer"
            node = self._draw(ctx, tree, node, look)
            trail.drafted(row, look, tree.token(node))
            if tree.ends(node):
                return "stop_token"
            row = ctx.rows.add(tree.token(node), row)
            if self._last(limits, look):
                return "low_conf"
        return "width" if width == limits.w_max else "length"

    def _last(self, limits: Limits, look: RowConfidence) -> bool:
        """Whether nothing is drafted after this draft, by what was known before it was drawn."""
        return False

    def _climb(self, ctx: Context, limits: Limits, trail: ExitRecorder, row: int) -> RowConfidence | None:
        """The newest row up to the first layer whose test passes; None when none does."""
        for layer in limits.layers:
            hidden = ctx.rows.climb(layer)
            began = time.perf_counter_ns()
            temp = annealed(limits.alpha, layer, self.target.n_layers)
            look = asked(self.heads, row, layer, hidden[0, -1:], temp, trail.full)
            ctx.counters.n_syncs += 1
            took = look.conf >= limits.tau
            trail.tested(look, took, time.perf_counter_ns() - began)
            if took:
                ctx.counters.n_draft_calls += 1
                return look
        return None

    def _draw(self, ctx: Context, tree: DraftTree, parent: int, look: RowConfidence) -> int:
        return DraftSampler(ctx, self.mode).after(tree, parent, look)

    def _say_left_out(self, ctx: Context, limits: Limits) -> None:
        """Once a setting: layers asked for that the target lacks, or that `exit_layers` leaves none to stop at."""
        texts, top = ctx.knobs["exit_layers"], self.target.n_layers - 1
        none = not limits.layers and min(limits.d_max, limits.w_max) > 0
        above = outside(texts, self.target.n_layers)
        if (not none and not above) or texts == self._told:
            return
        self._told = list(texts)
        bound = f"the target has layers 1 to {top} below its last" + (f", d_max is {limits.d_max}" if none else "")
        what = "leaves no layer to stop at, so nothing is drafted" if none else f"names {above[0]}, which is left out"
        ctx.note(Warn(code="exit_layers", message=f"exit_layers {' '.join(texts)[:80]!r} {what}: {bound}"))

    def _say_lens(self, ctx: Context, limits: Limits) -> None:
        """Once: which tested layers have no trained head."""
        message = tested(self.heads, limits.layers) if self.warns else None
        if message is not None:
            self.warns = False
            ctx.note(Warn(code="logit_lens", message=message))

    def observe(self, seen: Observation) -> None:
        """Write down the round: what it was could only be known with its verdict."""
        if self._trail is not None:
            self._trail.close(seen)
            self._trail = None

    def fitted(self, spec: KnobSpec) -> KnobSpec:
        """A knob with the range and default it has for this target and these heads."""
        return fitted(spec, self.target.n_layers, self.depth, self.heads.advised)

    def parts(self) -> dict[str, str]:
        """What the heads are, what a test costs in layers, and which layers they advise."""
        if not isinstance(self.target, ModelAdapter):
            return {}
        advised = " ".join(map(str, self.heads.advised))
        return {"heads": describe(self.target, self.heads)} | ({"advised exit layers": advised} if advised else {})


def _make(models: FactoryModels, knobs: Knobs, depth: float) -> EarlyExit:
    asked = single(knobs.values, "heads")
    heads = pick(models.target, asked)
    drafter = EarlyExit(models.target, heads, knobs["draft_mode"], depth, _clock(models.target, heads))
    drafter.warns = asked != "lens"
    return drafter


def specbound(models: FactoryModels, knobs: Knobs) -> EarlyExit:
    """The drafter of method `specbound`: stops in the lower half unless told otherwise."""
    return _make(models, knobs, 0.5)


def adadecode(models: FactoryModels, knobs: Knobs) -> EarlyExit:
    """The drafter of method `adadecode`: no bound on depth."""
    return _make(models, knobs, 1.0)


def layerskip(models: FactoryModels, knobs: Knobs) -> EarlyExit:
    """The drafter of method `layerskip`: its one layer is the bound."""
    return _make(models, knobs, 1.0)


def _clock(target: Model, heads: Heads) -> Clock | None:
    """What layers and a test of these heads cost; None for what is no model of the library's.

    Tests differ in cost only between layers with a head and those without, so one with a head is timed.
    """
    own = next(iter(heads.layers), None)
    return layer_clock(target, heads.kind, lambda layer, state: asked(heads, 0, own or layer, state, 1.1, False))


def asked(heads: Heads, row: int, layer: int, state: Tensor, temp: float, full: bool) -> RowConfidence:
    """One test: what the head of a layer says of a row's state `[1, width]`."""
    return RowConfidence.at(row, layer, heads.logits(layer, state), temp, full, heads.named(layer))
