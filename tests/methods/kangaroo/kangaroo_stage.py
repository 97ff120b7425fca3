"""Adapters for tests: random ones over small models, and a table that checks which states it is shown."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from methods.early_exit.layered import LayeredTable
from specviz.engine.decode.session import Session
from specviz.engine.model.adapter import FactoryModels, ModelAdapter
from specviz.engine.model.backend import in_steps
from specviz.engine.model.cache import KVCache
from specviz.methods.kangaroo import drafter as kangaroo
from specviz.methods.kangaroo.adapter import Adapter, AdapterModel, AdapterShape
from specviz.probability.table_models import Table
from support.driver import session

CAPACITY = 640


def adapter_for(target: ModelAdapter, layer: int, noise: float = 0.1, seed: int = 0) -> AdapterModel:
    """The logit lens with an attention that says something; `noise` 0 is the lens itself."""
    shape = AdapterShape.of(target)
    adapter = Adapter(shape, target.dtype).begin(target.norm, seed).requires_grad_(False)
    drawn = torch.randn(shape.width, shape.width, generator=torch.Generator().manual_seed(seed + 1))
    adapter.attention.o_proj.weight.copy_(drawn * noise)
    return AdapterModel(target, adapter, shape, layer)


def kangaroo_run(
    target: ModelAdapter, adapter: AdapterModel | None, prompt: Sequence[int], mode: Any = "argmax", **options: Any
) -> Session:
    """A session of `kangaroo` with an adapter."""
    drafter = kangaroo.over(FactoryModels(target, None, CAPACITY), adapter, mode)
    return session(target, None, list(prompt), method="kangaroo", drafter=drafter, **options)


@torch.inference_mode()
def uncached(target: ModelAdapter, adapter: AdapterModel, text: Sequence[int]) -> torch.Tensor:
    """What the adapter says after `text`, from the library's forward of all of it: logits `[V]`."""
    out = target.model(torch.tensor([list(text)]), output_hidden_states=True)
    states = out.hidden_states[adapter.layer]
    rope, _ = adapter.inputs(states, list(range(len(text))), None, None)
    return adapter.logits(adapter.adapter(states, rope)[:, -1:])[0]


class TableAdapter:
    """Says `table`; a row that is shown other states or another text than its own trips a check."""

    n_layers = 1

    def __init__(self, target: LayeredTable, table: Table) -> None:
        self.target, self.table = target, table
        self.vocab, self.context = target.vocab, target.context

    def new_cache(self, capacity: int) -> KVCache:
        return KVCache(1, capacity)

    def inputs(self, hidden: torch.Tensor, positions: list[int], visible: Any, kv_positions: Any) -> Any:
        assert positions == [int(state[1]) for state in hidden[0]], "a state of another position"
        return visible

    def run(self, hidden: torch.Tensor, block: Any, cache: KVCache, lo: int, hi: int) -> torch.Tensor:
        keys, values = cache.update(hidden[None, :, :, :1], hidden[None, :, :, 1:2], 0)
        tokens, places = keys.flatten().tolist(), values.flatten().tolist()
        seen = [range(len(tokens))] * hidden.shape[1] if block is None else [np.flatnonzero(row) for row in block]
        texts = [self.target._text(tokens, places, slots) for slots in seen]
        own = [int(number) - 1 for number in hidden[0, :, 2].tolist()]
        assert [self.target.numbers[text] for text in texts] == own, "the cache shows another text than the state's"
        return hidden

    def forward(self, hidden: torch.Tensor, inputs: Any, cache: KVCache, lo: int, stops: Sequence[int]) -> Any:
        return in_steps(lambda rows, first, last: self.run(rows, inputs, cache, first, last), hidden, lo, stops)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        rows = [self.table.row(self.target.text(state)).astype(np.float64) for state in hidden[0]]
        return torch.tensor(np.stack(rows)).log()
