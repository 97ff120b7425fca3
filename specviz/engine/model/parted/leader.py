"""The leading process of a target whose layers are parted over several: an adapter like any other.

It runs the session unchanged. Whatever goes through its layers goes through those of the other processes as well, which
do what they are told and know neither text nor method (`follower`). Embedding, last norm and head are whole in every
process, so what stands outside the layers is nobody else's business.
"""

from collections.abc import Sequence
from itertools import count
from typing import Any
from weakref import finalize

import torch
from torch.distributed.tensor import DTensor

from specviz.engine.model.adapter import ForwardInputs, ModelAdapter
from specviz.engine.model.cache import KVCache
from specviz.engine.model.layers.silent import silenced_parts
from specviz.engine.model.parted.message import DROP, GATHER, MAKE, STOP, WIDEN, Pass, send, share
from specviz.errors import ModelError
from specviz.probability.host import brought, fetch

Tensor = torch.Tensor


class Orders:
    """What the other processes must do before the next pass."""

    def __init__(self) -> None:
        self.waiting: list[list[int]] = []
        self.numbers = count()

    def add(self, *numbers: int) -> None:
        """One order, whole, from any thread."""
        self.waiting.append(list(numbers))

    def taken(self) -> list[int]:
        """All that wait, which wait no more."""
        out: list[int] = []
        while self.waiting:
            out += self.waiting.pop(0)
        return out


class MirroredCache(KVCache):
    """The leading process's share of a cache: its heads. What it keeps and drops the others keep and drop."""

    def __init__(self, orders: Orders, n_layers: int, capacity: int, spare: int = 0, like: int | None = None) -> None:
        super().__init__(n_layers, capacity, spare)
        self._orders, self.mirror = orders, next(orders.numbers)
        orders.add(*((MAKE, self.mirror, capacity) if like is None else (WIDEN, self.mirror, like, capacity)))
        finalize(self, orders.add, DROP, self.mirror)

    def _empty(self, capacity: int) -> KVCache:
        return MirroredCache(self._orders, self.n_layers, capacity, self.spare, self.mirror)

    def move(self, slots: Sequence[int], to: int) -> None:
        """Copy what some slots hold to those from `to` on, in every process."""
        assert self.mirror is not None
        self._orders.add(GATHER, self.mirror, to, to + len(slots), *slots)
        super().move(slots, to)


class LeadingAdapter(ModelAdapter):
    """A parted model behind the interface of a whole one. `whole`: the adapter that passed its self-test."""

    parted = True

    def __init__(self, whole: ModelAdapter) -> None:
        self.__dict__.update(whole.__dict__)
        self.kv_heads //= torch.distributed.get_world_size()  # of the caches here
        self._orders = Orders()
        self._place_of = {id(part): k for k, layer in enumerate(whole.layers) for part in layer._modules.values()}

    def storages(self) -> dict[int, int]:
        """The memory of its share of the weights."""
        own = (each.to_local() if isinstance(each, DTensor) else each for each in self.model.parameters())
        held = [each.untyped_storage() for each in own]
        return {storage.data_ptr(): storage.nbytes() for storage in held}

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache of that many slots, here and in every other process."""
        return MirroredCache(self._orders, self.n_layers, capacity)

    def _layers(self, hidden: Tensor, block: ForwardInputs, cache: KVCache, lo: int, hi: int) -> Tensor:
        if lo == hi:
            return hidden
        if cache.mirror is None:
            raise ModelError(f"{self.name}: a parted target's layers take the caches that it made")
        layers = tuple(self._told(layer) for layer in self.layers[lo:hi])
        told = Pass(
            cache.mirror,
            layers,
            tuple(cache.filled[place] for place, _ in layers),
            tuple(fetch(block.positions[0])[0]),
            tuple(self._seen(block.masks[kind]) for kind in sorted(block.masks)),
        )
        send([*self._orders.taken(), *told.numbers()], self.device)
        return super()._layers(share(hidden), block, cache, lo, hi)

    def _told(self, layer: Any) -> tuple[int, int]:
        """Its place in the model, and which of its sublayers are left out."""
        own = (self._place_of.get(id(part)) for part in layer._modules.values())
        return next(place for place in own if place is not None), silenced_parts(layer)

    def _seen(self, mask: Any) -> Any:
        return None if mask is None else brought(mask[0, 0, : mask.shape[2] // self.groups])[0].numpy()

    def stop(self) -> None:
        """Let the other processes end."""
        send([STOP], self.device)
