"""What decoding and training need of a network that reads pairs: features of a target row beside the token after it.

Block drafters make several rows a pair, EAGLE-3's one; the life of the cache, starts and masks are the same for both.
"""

from typing import Any, Protocol

import torch

from specviz.methods.trained.layers import Keys

Tensor = torch.Tensor


class PairNetwork(Protocol):
    """Rows come as `[B, n, slots, ..]`. `condition` makes one of features, later rows take a state instead."""

    @property
    def slots(self) -> int:
        """Rows a pair."""

    @property
    def depth(self) -> int:
        """Layers that keep keys."""

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights."""

    def conditions(self, features: Tensor) -> Tensor:
        """`[.., width]` of `[.., n_features]`."""

    def begin(self, condition: Tensor, embedded: Tensor) -> Tensor:
        """The rows below the first layer."""

    def __call__(self, rows: Tensor, positions: Tensor, keys: Keys, mask: Tensor | None) -> Any:
        """States `[B, n, slots, width]`."""

    def places(self, inputs: Tensor, depths: Tensor | int = 0) -> Tensor:
        """Rotary positions `[.., n * slots]`."""
