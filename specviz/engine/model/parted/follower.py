"""A process that holds a part of a target's layers and does what the leading one tells it.

It draws nothing, verifies nothing and knows no method: it keeps its share of the caches and runs rows through its share
of the layers, until it is told to stop.
"""

from copy import copy
from typing import Any

import torch

from specviz.engine.model.adapter import ForwardInputs, ModelAdapter
from specviz.engine.model.cache import KVCache
from specviz.engine.model.exact.plan import RowPlan
from specviz.engine.model.layers.silent import with_silent
from specviz.engine.model.parted.message import (
    DROP,
    GATHER,
    MAKE,
    PASS,
    STOP,
    WIDEN,
    MessageReader,
    Pass,
    receive,
    share,
)


class Follower:
    """Its part of a model, and its shares of the caches by their numbers."""

    def __init__(self, adapter: ModelAdapter) -> None:
        self.adapter = adapter
        self.caches: dict[int, KVCache] = {}

    @torch.inference_mode()
    def serve(self) -> None:
        """Do as told until told to stop. Raises RuntimeError where the leading process is gone."""
        while self._does(MessageReader(receive(self.adapter.device))):
            pass

    def _does(self, told: MessageReader) -> bool:
        """Carry out a message; False when it was the last."""
        while not told.ended:
            order = told.take()
            if order == STOP:
                return False
            if order == PASS:
                self._pass(told.rows())
            else:
                self._keeps(order, told)
        return True

    def _keeps(self, order: int, told: MessageReader) -> None:
        """An order about a cache."""
        number = told.take()
        if order == MAKE:
            self.caches[number] = self.adapter.new_cache(told.take())
        elif order == WIDEN:
            like, capacity = told.some(2)
            self.caches[number] = self.caches[like].widened(capacity)
        elif order == DROP:
            self.caches.pop(number, None)
        elif order == GATHER:
            moved, end = told.some(2)
            self.caches[number].move(told.some(end - moved), moved)
        else:
            raise ValueError(f"unknown order {order}")

    def _pass(self, rows: Pass) -> None:
        """Rows through some layers; what comes out is the leading process's business."""
        adapter, cache = self.adapter, self.caches[rows.cache]
        width = adapter.config.hidden_size
        hidden = share(torch.empty(1, len(rows.positions), width, dtype=adapter.dtype, device=adapter.device))
        some = copy(adapter)
        some.layers = tuple(with_silent(adapter.layers[place], silent) for place, silent in rows.layers)
        some.types = [adapter.types[place] for place, _ in rows.layers]
        for (place, _), start in zip(rows.layers, rows.start, strict=True):
            cache.filled[place] = start
        some.run(hidden, self._block(hidden, rows), cache, 0, len(rows.layers))

    def _block(self, hidden: Any, rows: Pass) -> ForwardInputs:
        kinds = sorted(set(self.adapter.types))
        masks: dict[str, torch.Tensor | RowPlan | None] = {
            kind: self.adapter.tiled(mask) for kind, mask in zip(kinds, rows.masks, strict=True)
        }
        return self.adapter.inputs(hidden, list(rows.positions), masks)
