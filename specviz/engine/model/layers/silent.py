"""A sublayer that is left out."""

from copy import copy
from typing import Any

import torch
from torch import nn

from specviz.engine.model.layers.hooked import unhooked


class Silent(nn.Module):
    """Stands where a sublayer was: zeros of the shape of what came in. `pair`: attention gives weights besides."""

    def __init__(self, pair: bool) -> None:
        super().__init__()
        self.pair = pair

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Zeros `[1, n, width]`, and None for the weights."""
        hidden = args[0] if args else kwargs["hidden_states"]
        zeros = torch.zeros_like(hidden)
        return (zeros, None) if self.pair else zeros


def silenced_parts(layer: Any) -> int:
    """Which of a layer's sublayers are silent, as a number: two bits for each, in the order it holds them."""
    parts = enumerate(layer._modules.values())
    return sum((1 + part.pair) << 2 * k for k, part in parts if isinstance(part, Silent))


def with_silent(layer: nn.Module, parts: int) -> nn.Module:
    """A layer's twin without the sublayers of that number; the layer itself where it is 0."""
    if not parts:
        return layer
    twin = unhooked(copy(layer))
    twin._modules = dict(layer._modules)
    for k, name in enumerate(layer._modules):
        if kind := parts >> 2 * k & 3:
            twin._modules[name] = Silent(pair=kind == 2)
    return twin
