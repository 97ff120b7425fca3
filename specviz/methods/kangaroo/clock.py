"""What a draft by an adapter costs on this machine: a row of it behind some text, its read by the host included."""

import torch

from specviz.cost.ledger import Clock
from specviz.engine.model.adapter import Model
from specviz.engine.model.rows import Tensor
from specviz.methods.early_exit import clock
from specviz.methods.kangaroo.adapter import AdapterModel, StateRows


class _Asked:
    """Stands where a head is timed: one row behind `CONTEXT` others."""

    layers: tuple[int, ...] = ()
    advised: tuple[int, ...] = ()
    kind = "adapter"

    def __init__(self, adapter: AdapterModel) -> None:
        self.adapter = adapter
        self.text = [1 % adapter.vocab] * clock.CONTEXT
        self.cache = adapter.new_cache(len(self.text) + 1)

    def logits(self, layer: int, hidden: Tensor) -> Tensor:
        """`[1, V]` of a state `[1, width]`."""
        missing = self.cache.follow(self.text)
        rows = StateRows(self.adapter, self.cache)
        rows.hand([*missing, 0], torch.cat([hidden] * (len(missing) + 1)))
        return rows.take(1)


def measured(target: Model, adapter: AdapterModel) -> Clock | None:
    """The clock of a target with an adapter; None for what is no model of the library's."""
    return clock.measured(target, _Asked(adapter))
