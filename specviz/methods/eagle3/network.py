"""EAGLE-3's network: one decoder layer that reads `[norm(E[x]) ; norm(f)]` on the residual stream f.

f is `W [low; mid; top]` of the target's features on committed text, and the layer's own output on drafted nodes; the
head speaks after a norm. One row a pair, at the position of its token. Only the target's first conditions differ from
a block network with one slot, so cache, starts and masks are the block drafter's.
"""

from dataclasses import dataclass

import torch
from torch import nn

from specviz.methods.trained.layers import Keys, Layer, LayerShape, RMSNorm, Rope, Tensor, fill_normal, linear


@dataclass(frozen=True, slots=True)
class EagleShape:
    """Everything that fixes the tensors. `layer.width` is also the embedding's."""

    layer: LayerShape
    n_features: int
    vocab: int  # draft vocabulary


class EagleNetwork(nn.Module):
    """Rows come and go as `[B, n, 1, ..]`; below the layer a row is `[e ; f]`."""

    slots, depth = 1, 1

    def __init__(self, shape: EagleShape, rng: torch.Generator | None = None) -> None:
        super().__init__()
        self.shape, width = shape, shape.layer.width
        self.fc = linear(shape.n_features, width)
        self.norm_token = RMSNorm(width, shape.layer.eps)
        self.layer = Layer(shape.layer, 2 * width)
        self.norm_out = RMSNorm(width, shape.layer.eps)
        self.head = linear(width, shape.vocab)
        self.rope = Rope(shape.layer)
        if rng is not None:
            fill_normal(self, rng)

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights."""
        return self.head.weight.dtype

    def conditions(self, features: Tensor) -> Tensor:
        """f on committed text."""
        out: Tensor = self.fc(features)
        return out

    def begin(self, condition: Tensor, embedded: Tensor) -> Tensor:
        """`[B, n, 1, 2 * width]`."""
        return torch.cat([self.norm_token(embedded), condition], -1)[..., None, :]

    def forward(self, rows: Tensor, positions: Tensor, keys: Keys, mask: Tensor | None) -> Tensor:
        """The layer's output `[B, n, 1, width]`, before the norm: what the next level's rows take for f."""
        token, stream = rows[..., 0, :].chunk(2, -1)
        read = torch.cat([token, self.layer.norm_attention(stream)], -1)
        out: Tensor = self.layer.after(stream, read, self.rope.at(positions, rows), 0, keys, mask)
        return out[..., None, :]

    def places(self, inputs: Tensor, depths: Tensor | int = 0) -> Tensor:
        """A row stands where its token does."""
        return inputs

    def speak(self, states: Tensor) -> Tensor:
        """Draft logits `[.., V_d]`."""
        out: Tensor = self.head(self.norm_out(states))
        return out
