"""EAGLE-3's network: one decoder layer that reads `[norm(E[x]) ; norm(f)]` on the residual stream f.

f is `W [low; mid; top]` of the target's features on committed text, and the layer's own output on drafted nodes; the
head speaks after a norm. One row a pair, at the position of its token. Only the target's first conditions differ from
a block network with one slot, so cache, starts and masks are the block drafter's.

EAGLE-3 drafters on disk.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from specviz.engine.model.adapter import ModelAdapter
from specviz.methods.common.tree_knobs import EAGLE
from specviz.methods.trained import published
from specviz.methods.trained.layers import Keys, Layer, LayerShape, RMSNorm, Rope, Tensor, fill_normal, linear
from specviz.methods.trained.part_kind import Tensors, read_tensors
from specviz.methods.trained.parts import OPTION, TapConfig, drafter_kind
from specviz.methods.trained.parts import Trained as AnyTrained


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
        return self.head.weight.dtype

    def conditions(self, features: Tensor) -> Tensor:
        """f `[.., width]` of features `[.., n_features]` on committed text."""
        out: Tensor = self.fc(features)
        return out

    def begin(self, condition: Tensor, embedded: Tensor) -> Tensor:
        """Rows `[B, n, 1, 2 * width]` of f and embeddings, both `[B, n, width]`."""
        return torch.cat([self.norm_token(embedded), condition], -1)[..., None, :]

    def forward(self, rows: Tensor, positions: Tensor, keys: Keys, mask: Tensor | None) -> Tensor:
        """The layer's output `[B, n, 1, width]`, before the norm: what the next level's rows take for f."""
        token, stream = rows[..., 0, :].chunk(2, -1)
        read = torch.cat([token, self.layer.norm_attention(stream)], -1)
        out: Tensor = self.layer.after(stream, read, self.rope.at(positions, rows), 0, keys, mask)
        return out[..., None, :]

    def places(self, inputs: Tensor, depths: Tensor | int = 0) -> Tensor:
        """Rotary positions `[.., n]`: a row stands where its token does."""
        return inputs

    def speak(self, states: Tensor) -> Tensor:
        """Draft logits `[.., V_d]` of states `[.., width]`."""
        out: Tensor = self.head(self.norm_out(states))
        return out


@dataclass(frozen=True, slots=True)
class EagleConfig(TapConfig):
    """`config.json`. `trained_steps`: how many levels the training unrolled."""

    heads: int
    kv_heads: int
    head_dim: int
    ff: int
    rope_theta: float
    eps: float = 1e-6
    trained_steps: int = 7

    @property
    def shape(self) -> EagleShape:
        """Of the network, which is as wide as its target."""
        width = self.target_width
        layer = LayerShape(width, self.heads, self.kv_heads, self.head_dim, self.ff, self.rope_theta, self.eps)
        return EagleShape(layer, len(self.taps) * self.target_width, self.draft_vocab)


Trained = AnyTrained[EagleConfig, EagleNetwork]


def _published(folder: Path, given: dict[str, Any], adapter: ModelAdapter) -> tuple[EagleConfig, Tensors]:
    """A released checkpoint; which weights its target has is not known."""
    sizes = published.eagle_sizes(folder, given, adapter)
    tensors = published.eagle_tensors(folder, read_tensors(folder, OPTION, adapter.device), adapter)
    sizes["vocab"] = min(sizes["vocab"], adapter.vocab)
    if "d2t" not in tensors and sizes["draft_vocab"] >= adapter.vocab:  # padded rows stand for no token
        head = tensors["head.weight"]
        tensors["head.weight"] = head[: adapter.vocab] if head.dim() else head
        sizes["draft_vocab"] = adapter.vocab
    name = published.name_of(folder, given)
    return EagleConfig(target="", target_name=name, target_layers=adapter.n_layers, **sizes), tensors


KIND = drafter_kind(EAGLE, "specviz-eagle3", EagleConfig, lambda config: EagleNetwork(config.shape), _published)
