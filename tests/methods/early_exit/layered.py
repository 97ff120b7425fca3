"""A table behind the engine's model interface with several layers, each with a cache of its own, and its exit heads.

Every layer stores token ids and positions, and a row's state is the number of the text that the layer shows it. A layer
that shows a row another text than the layer below did, or one with holes, trips a check: a staircase gone wrong cannot
hide. What head l says after a text is a table of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import compress
from typing import Any

import numpy as np
import torch

from specviz.engine.model.cache import KVCache
from specviz.probability.table_models import Table, exact_row
from support.table_session import PROMPT, TableModel

L = 3


@dataclass(frozen=True)
class Mixed:
    """A row of three tokens that depends on the whole text and its order; `power` sharpens it, `salt` tells tables."""

    salt: int
    power: int = 1

    vocab = 3

    def row(self, prefix: Sequence[int]) -> Any:
        mixed = self.salt
        for token in prefix:
            mixed = (mixed * 7 + 5 * token + 2) % 17
        weights = [((mixed * k + 3 * k + 1) % 11 + 1) ** self.power for k in (1, 2, 5)]
        return exact_row([Fraction(weight, sum(weights)) for weight in weights])

    def in_floats(self) -> Table:
        raise NotImplementedError


class LayeredTable(TableModel):
    """`L` layers; states are `(token, position, number of the text + 1)`, the last 0 below the first layer."""

    n_layers = L

    def new_cache(self, capacity: int) -> KVCache:
        return KVCache(L, capacity)

    def embed(self, tokens: list[int], positions: list[int]) -> torch.Tensor:
        return torch.tensor([[(t, p, 0) for t, p in zip(tokens, positions, strict=True)]], dtype=torch.float64)

    def run(self, hidden: torch.Tensor, block: Any, cache: KVCache, lo: int, hi: int) -> torch.Tensor:
        for layer in range(lo, hi):
            keys, values = cache.update(hidden[None, :, :, :1], hidden[None, :, :, 1:2], layer)
            tokens, places = keys.flatten().tolist(), values.flatten().tolist()
            every = range(len(tokens))
            seen = [every] * hidden.shape[1] if block is None else [[*compress(every, row)] for row in block.tolist()]
            texts = [self._text(tokens, places, slots) for slots in seen]
            assert [(t[-1], len(t) - 1) for t in texts] == [tuple(h[:2]) for h in hidden[0].tolist()]
            numbers = torch.tensor([[self._number(text) + 1 for text in texts]], dtype=torch.float64)
            below = hidden[..., 2]
            assert bool(((below == 0) | (below == numbers)).all()), "a layer shows another text than the one below"
            hidden = torch.cat([hidden[..., :2], numbers[..., None]], -1)
        return hidden

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return torch.stack([self._rows[int(number) - 1] for number in hidden[0, :, 2].tolist()])

    def text(self, state: torch.Tensor) -> tuple[int, ...]:
        """The text of a state, without the prompt."""
        return list(self.numbers)[int(state[2]) - 1][len(self.prompt) :]


class TableHeads:
    """Head l says `tables[l]`."""

    layers: tuple[int, ...] = ()
    advised: tuple[int, ...] = ()
    kind = "table"

    def __init__(self, model: LayeredTable, tables: dict[int, Table]) -> None:
        self.model, self.tables = model, tables

    def named(self, layer: int) -> None: ...

    def logits(self, layer: int, hidden: torch.Tensor) -> torch.Tensor:
        rows = [self.tables[layer].row(self.model.text(state)).astype(np.float64) for state in hidden]
        return torch.tensor(np.stack(rows)).log()


def stack(target: Table, low: Table, high: Table) -> tuple[LayeredTable, TableHeads]:
    """A model of three layers with heads after the first two."""
    model = LayeredTable(target, PROMPT)
    return model, TableHeads(model, {1: low, 2: high})
