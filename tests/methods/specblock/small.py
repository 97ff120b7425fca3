"""Small networks with random weights, and texts for them."""

from dataclasses import replace
from typing import Any

import torch

from specviz.methods.specblock.network import BlockNetwork, BlockShape
from specviz.methods.trained.layers import LayerShape

VOCAB, FEATURES, WIDTH = 40, 24, 16
SHAPE = BlockShape(LayerShape(WIDTH, 4, 2, 8, 32), FEATURES, WIDTH, VOCAB, slots=4, n_layers=2, rank_width=12)


def network(seed: int = 0, std: float = 0.3, dtype: torch.dtype = torch.float64, **changes: Any) -> BlockNetwork:
    """Large weights: what a row should not see would be noticed."""
    rng = torch.Generator().manual_seed(seed)
    net = BlockNetwork(replace(SHAPE, **changes), rng).to(dtype)
    with torch.no_grad():
        for parameter in net.parameters():
            if parameter.dim() > 1:
                parameter.mul_(std / 0.02)
    return net.requires_grad_(False)


class Text:
    """Features `[W, S, n_features]`, tokens `[W, S + 1]`, and an embedding."""

    def __init__(self, n_pairs: int, windows: int = 1, seed: int = 1, n_features: int = FEATURES) -> None:
        rng = torch.Generator().manual_seed(seed)
        self.features = torch.randn(windows, n_pairs, n_features, generator=rng, dtype=torch.float64)
        self.tokens = torch.randint(VOCAB, (windows, n_pairs + 1), generator=rng)
        self.table = torch.randn(VOCAB, WIDTH, generator=rng, dtype=torch.float64)

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        return self.table[ids]
