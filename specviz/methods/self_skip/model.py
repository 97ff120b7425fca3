"""The target with some sublayers left out: Draft&Verify's draft model (specbound.md 14.5).

It shares every weight. A layer that lacks a sublayer is a twin of the library's module in which that sublayer gives
zeros, so the residual passes by whatever the architecture puts around it; a layer that lacks both is not run at all.
The twins are proved when they are made: against the library's own forward with those outputs set to zero.

As in the source, a draft begins at the target's committed keys and values and leaves none of its own behind: it writes
them into the free slots of the target's cache, and the target's pass writes over them (`Borrowed`). So nothing is
prefilled or stored twice, and a rejected draft needs no rollback.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.cache import KVCache
from specviz.engine.model.rows import Rows, Tensor
from specviz.engine.model.selftest import tolerance
from specviz.errors import ModelError
from specviz.methods.self_skip.spec import SkipSet

ATTENTION = ("self_attn", "attn", "attention")
MLP = ("mlp", "feed_forward", "block_sparse_moe")


class _Silent(nn.Module):
    """Stands where a sublayer was: zeros of the shape of what came in. `pair`: attention gives weights besides."""

    def __init__(self, pair: bool) -> None:
        super().__init__()
        self.pair = pair

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        hidden = args[0] if args else kwargs["hidden_states"]
        zeros = torch.zeros_like(hidden)
        return (zeros, None) if self.pair else zeros


class Borrowed(KVCache):
    """The free slots of another cache: reads what that has committed, writes behind it, commits nothing.

    Whatever it wrote is void with the next write of its owner. It is made for one round and never follows a text.
    """

    def __init__(self, owner: KVCache) -> None:
        super().__init__(owner.n_layers, owner.capacity)
        n = owner.length
        self.tokens, self.parents = list(owner.tokens[:n]), list(owner.parents[:n])
        self.filled, self.length = [n] * owner.n_layers, n
        self._buffer, self._layers = owner._buffer, owner._layers  # none yet: the first write makes some of its own

    def follow(self, tokens: Any) -> list[int]:
        """Refused: what it holds is another cache's."""
        raise AssertionError("a borrowed cache keeps nothing")


class SkippedModel:
    """A draft model of the target's own weights. Raises ModelError when the library's layers cannot be run so."""

    def __init__(self, target: ModelAdapter, skips: SkipSet) -> None:
        self.target, self.skips = target, skips
        beyond = max(skips.attention | skips.mlp, default=0)
        if beyond > target.n_layers:
            raise ModelError(f"skip set: layer {beyond} is not there, the target has {target.n_layers} layers")
        self.vocab, self.context, self.device = target.vocab, target.context, target.device
        self._run = copy.copy(target)  # the same modules and tables, over fewer layers
        kept = [k for k in range(target.n_layers) if not {k + 1} <= skips.attention & skips.mlp]
        self._run.layers = tuple(self._twin(k) for k in kept)
        self._run.types = [target.types[k] for k in kept]
        self.n_layers = self._run.n_layers = len(kept)
        self.embed, self.block, self.normed, self.logits = target.embed, target.block, target.normed, target.logits
        self._prove()

    def _twin(self, index: int) -> Any:
        layer, number = self.target.layers[index], index + 1
        without = {ATTENTION: number in self.skips.attention, MLP: number in self.skips.mlp}
        if not any(without.values()):
            return layer
        twin = copy.copy(layer)
        twin._modules = dict(layer._modules)
        for names, left_out in without.items():
            if left_out:
                twin._modules[_name(layer, names, self.target.name)] = _Silent(pair=names is ATTENTION)
        return twin

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache; one slot for every layer of the target, those left out stay empty."""
        return self.target.new_cache(capacity)

    def run(self, hidden: Tensor, block: Any, cache: KVCache, lo: int, hi: int) -> Tensor:
        """Rows `[1, n, d]` through the layers that are left, numbered without gaps."""
        return self._run.run(hidden, block, cache, lo, hi)

    @torch.inference_mode()
    def _prove(self) -> None:
        """A few rows against the library's forward with the outputs of those sublayers set to zero."""
        target = self.target
        ids = [(7 * k + 3) % target.vocab for k in range(6)]
        kind = type(target.layers[0]).__name__
        try:
            with silenced(target, self.skips):
                whole = target.model(torch.tensor([ids], device=target.device), use_cache=False).logits
            rows = Rows(self, self.new_cache(8))
            rows.add_line(ids)
            found = rows.take()
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(f"{target.name}: layers of type {kind} cannot be run in part: {error}") from error
        wanted = whole[0, :, : self.vocab].to(found.dtype)
        gap = float((found - wanted).abs().max() / wanted.std().clamp(min=1e-6))
        if not gap < tolerance(target.dtype):
            raise ModelError(f"{target.name}: layers of type {kind} cannot be run in part: logits differ by {gap:.2g}")


def _name(layer: Any, names: tuple[str, ...], model: str) -> str:
    """The name of a sublayer in the library's layer."""
    found = next((name for name in names if name in layer._modules), None)
    if found is None:
        held = ", ".join(layer._modules)
        raise ModelError(f"{model}: no {names[0]} in a layer of type {type(layer).__name__} (it has {held})")
    return found


@contextmanager
def silenced(target: ModelAdapter, skips: SkipSet) -> Iterator[None]:
    """The library's model with some outputs set to zero, by hooks that are taken away again."""
    wanted = [(ATTENTION, k) for k in skips.attention] + [(MLP, k) for k in skips.mlp]
    hooks = []
    try:
        for names, number in wanted:
            layer = target.layers[number - 1]
            module = layer._modules[_name(layer, names, target.name)]
            hooks.append(module.register_forward_hook(_zeroed))
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _zeroed(module: Any, args: Any, out: Any) -> Any:
    if isinstance(out, tuple):
        return (torch.zeros_like(out[0]), *out[1:])
    return torch.zeros_like(out)
