"""Kangaroo: the target's first layers and an adapter draft.

Every row climbs to one layer, the adapter reads its state, and its best token is fed next. A token that the adapter
gave less than `tau` is the last one drafted; it is fed and verified like any other. The last draft climbs with the
target pass, which is the same climb (`EarlyExit`). Nothing is computed twice, and the adapter's cache is a memo of the
text (`Reader`).
"""

import time
from collections.abc import Callable

import torch

from specviz.cost.ledger import Clock
from specviz.engine.decode.context import Context, Observation
from specviz.engine.measure import CONTEXT, layer_clock
from specviz.engine.model.adapter import FactoryModels, Model, ModelAdapter
from specviz.engine.model.rows import Tensor
from specviz.events import Warn
from specviz.knobs import Knobs
from specviz.methods.common.knobs import single
from specviz.methods.common.top_k import RowConfidence, draft_steps
from specviz.methods.early_exit.drafter import EarlyExit
from specviz.methods.early_exit.heads import LogitLens
from specviz.methods.early_exit.recorder import ExitRecorder
from specviz.methods.early_exit.spec import Limits
from specviz.methods.kangaroo.adapter import AdapterModel, Reader, StateRows, pick
from specviz.names import Mode

USUAL = 1 / 4  # where the lens drafts when there is no adapter to say


class AdapterHeads(LogitLens):
    """What drafts behind a layer: the adapter behind its own, the model's own head behind any other."""

    kind = "adapter"

    def __init__(self, model: Model, layer: int, trained: bool) -> None:
        super().__init__(model)
        self.advised = (layer,)
        self.layers = self.advised if trained else ()


class DraftStepRecorder(ExitRecorder):
    """The record of a round: its drafts, with climbs and costs as of every early exit; there are no gates."""

    def close(self, seen: Observation) -> None:
        """Note climbs, drafts and costs, in this order."""
        if not self.on:
            return
        for climb in self._climbs():
            self.ctx.note(climb)
        rows = [test.look for test in self.tests]
        for step in draft_steps(rows, self.ctx.n, self.limits.tau, seen.draft.ids, self.full):
            self.ctx.note(step)
        self.ctx.note(self._cost(seen))


class Kangaroo(EarlyExit):
    """Drafts by climbing `ctx.rows` to one layer. `reader` None: there is no adapter, the lens stands in."""

    def __init__(self, target: Model, layer: int, reader: Reader | None, mode: Mode) -> None:
        super().__init__(target, AdapterHeads(target, layer, reader is not None), mode, 1.0)
        self.layer, self.reader = layer, reader
        self.taps = () if reader is None else (layer,)

    def _open(self, ctx: Context, limits: Limits) -> ExitRecorder:
        return DraftStepRecorder(ctx, limits, self.heads, self.clock)

    def _climb(self, ctx: Context, limits: Limits, trail: ExitRecorder, row: int) -> RowConfidence | None:
        """The newest row up to the layer; what the adapter says there, never declined."""
        if not limits.layers:
            return None
        layer = limits.layers[0]
        hidden = ctx.rows.climb(layer)
        began = time.perf_counter_ns()
        look = RowConfidence.at(row, layer, self._asked(ctx, layer, row, hidden[0, -1:]), 1.0, trail.full)
        ctx.counters.n_syncs += 1
        ctx.counters.n_draft_calls += 1
        trail.tested(look, True, time.perf_counter_ns() - began)
        return look

    def _asked(self, ctx: Context, layer: int, row: int, state: Tensor) -> Tensor:
        """Logits `[1, V]` after a row."""
        if self.reader is None or layer != self.layer:
            return self.heads.logits(layer, state)
        if row == ctx.root_row:
            return self.reader.begin(ctx.tokens, state)
        return self.reader.feed(ctx.rows.tokens[row], state)

    def _last(self, limits: Limits, look: RowConfidence) -> bool:
        return look.conf < limits.tau

    def _say_lens(self, ctx: Context, limits: Limits) -> None:
        """Once: that the model's own head drafts."""
        if self.warns and limits.layers and (self.reader is None or limits.layers[0] != self.layer):
            self.warns = False
            why = "no adapter for this target" if self.reader is None else f"the adapter reads layer {self.layer}"
            ctx.note(
                Warn(
                    code="logit_lens",
                    message=(
                        f"{why}: the logit lens drafts behind layer {limits.layers[0]} (exact, but weak); "
                        "specviz train kangaroo makes an adapter"
                    ),
                )
            )

    def observe(self, seen: Observation) -> None:
        """Keep the states of what was committed for the adapter to read, and write down the round."""
        if self.reader is not None and self.layer in seen.features:
            self.reader.learn(seen.features[self.layer], seen.tokens if seen.outcome is not None else ())
        super().observe(seen)

    def cached(self) -> int | None:
        """Slots of the adapter's cache that spell the text."""
        return self.reader.spelled if self.reader is not None else None

    def parts(self) -> dict[str, str]:
        """What the adapter is, and what a draft by it costs in layers."""
        if self.reader is None or not isinstance(self.target, ModelAdapter):
            return {"adapter": f"none: the model's own head drafts behind layer {self.layer}"}
        adapter = self.reader.model
        assert isinstance(adapter, AdapterModel)
        layer = sum(int(parameter.numel()) for parameter in self.target.layers[0].parameters())
        return {
            "adapter": (
                f"behind layer {self.layer}, {adapter.adapter.n_params:,} weights; one draft reads "
                f"{adapter.weights_read / layer:.1f} layers' worth of weights besides"
            )
        }


def make(models: FactoryModels, knobs: Knobs) -> Kangaroo:
    asked = single(knobs.values, "adapter")
    drafter = over(models, pick(models.target, asked), knobs["draft_mode"])
    drafter.warns = asked != "lens"
    return drafter


def over(models: FactoryModels, adapter: AdapterModel | None, mode: Mode) -> Kangaroo:
    target = models.target
    if adapter is None:
        return Kangaroo(target, max(1, min(round(USUAL * target.n_layers), target.n_layers - 1)), None, mode)
    drafter = Kangaroo(target, adapter.layer, Reader(adapter, models.capacity), mode)
    drafter.clock = measured(target, adapter)
    return drafter


def measured(target: Model, adapter: AdapterModel) -> Clock | None:
    """The clock of a target with an adapter; None for what is no model of the library's."""
    return layer_clock(target, "adapter", _look(adapter))


def _look(adapter: AdapterModel) -> Callable[[int, Tensor], RowConfidence]:
    """A test that can be timed: one row of the adapter behind `CONTEXT` others, its read by the host included."""
    text = [1 % adapter.vocab] * CONTEXT
    cache = adapter.new_cache(len(text) + 1)

    def look(layer: int, state: Tensor) -> RowConfidence:
        missing = cache.follow(text)
        rows = StateRows(adapter, cache)
        rows.hand([*missing, 0], torch.cat([state] * (len(missing) + 1)))
        return RowConfidence.at(0, layer, rows.take(1), 1.1, False)

    return look
