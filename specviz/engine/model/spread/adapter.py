"""An adapter of a model whose layers lie on several devices, or partly on disk, under hooks of the library's.

Rows go from device to device with what they need there: positions, masks, rotary tables. The keys and values of a layer
lie on its device. Layers are the library's own: a fused form would go past the hooks that bring their weights.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import Any

import torch

from specviz.engine.model.adapter import ForwardInputs, ModelAdapter
from specviz.engine.model.cache import KVCache
from specviz.engine.model.spread.layout import device_of

Tensor = torch.Tensor


class SpreadAdapter(ModelAdapter):
    """`places`: where each layer computes. `n_on_disk`: layers whose weights are brought for every pass."""

    spread = True

    def __init__(self, model: Any, name: str = "model", vocab: int | None = None) -> None:
        super().__init__(model, name, vocab)
        self.places = tuple(_place(layer, self.device) for layer in self.layers)
        self.n_on_disk = sum(model.hf_device_map.get(_name(model, layer)) == "disk" for layer in self.layers)
        self._place_of = {
            id(part): place for layer, place in zip(self.layers, self.places, strict=True) for part in layer.modules()
        }

    @property
    def layers_told(self) -> str:  # type: ignore[override]
        """Where its layers lie, for a header."""
        places = [str(place) for place in dict.fromkeys(self.places)]
        places += [f"disk: {self.n_on_disk} of {self.n_layers} read for every pass"] if self.n_on_disk else []
        return f"the library's own (spread over {', '.join(places)})"

    @property
    def devices(self) -> tuple[torch.device, ...]:
        """Those that compute."""
        return tuple(dict.fromkeys((self.device, *self.places)))

    def storages(self) -> dict[int, int]:
        """The memory that its weights lie in; what is on disk takes none."""
        held = [*self.model.parameters(), *self.model.buffers()]
        found = [each.untyped_storage() for each in held if each.device.type != "meta"]
        return {storage.data_ptr(): storage.nbytes() for storage in found}

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache of that many slots, each layer's on its device."""
        spare = super().new_cache(0).spare
        return KVCache(self.n_layers, capacity, spare, self.places if len(set(self.places)) > 1 else ())

    def _layers(self, hidden: Tensor, block: ForwardInputs, cache: KVCache, lo: int, hi: int) -> Tensor:
        for place, first, end in self._stretches(lo, hi):
            hidden = super()._layers(hidden.to(place), _moved(block, place), cache, first, end)
        return hidden.to(self.device)

    def _stretches(self, lo: int, hi: int) -> Iterator[tuple[torch.device, int, int]]:
        """Layers `lo..hi` in pieces of one device: it, the first, behind the last."""
        for place, indices in groupby(range(lo, hi), lambda index: self._where(self.layers[index])):
            some = list(indices)
            yield place, some[0], some[-1] + 1

    def _where(self, layer: Any) -> torch.device:
        # A layer that is left out in part is another module, of the same parts.
        return next(self._place_of[id(part)] for part in layer.modules() if id(part) in self._place_of)


def _moved(block: ForwardInputs, place: torch.device) -> ForwardInputs:
    """What rows need, on another device. Exact passes have one device only, so no plan of theirs ever moves."""
    if block.positions.device == place:
        return block
    masks = {kind: mask.to(place) if isinstance(mask, Tensor) else mask for kind, mask in block.masks.items()}
    rope = {kind: tuple(table.to(place) for table in tables) for kind, tables in block.rope.items()}
    return replace(block, positions=block.positions.to(place), masks=masks, rope=rope)


def _place(layer: Any, main: torch.device) -> torch.device:
    """Where the hooks of a layer let it compute."""
    hooks = (module.__dict__.get("_hf_hook") for module in layer.modules())
    places = (hook.execution_device for hook in hooks if hook is not None and hook.execution_device is not None)
    place = next(places, main)
    return place if isinstance(place, torch.device) else device_of(place)


def _name(model: Any, layer: Any) -> str:
    return next(str(name) for name, module in model.named_modules() if module is layer)
