"""EAGLE-3 drafters on disk."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.methods.eagle3.network import EagleNetwork, EagleShape
from specviz.methods.trained import published
from specviz.methods.trained.fit import OPTION, TapConfig
from specviz.methods.trained.layers import LayerShape
from specviz.methods.trained.part_files import read_tensors
from specviz.methods.trained.parts import Kind
from specviz.methods.trained.parts import Trained as AnyTrained


@dataclass(frozen=True, slots=True)
class Config(TapConfig):
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
        layer = LayerShape(
            self.target_width, self.heads, self.kv_heads, self.head_dim, self.ff, self.rope_theta, self.eps
        )  # fmt: skip
        return EagleShape(layer, len(self.taps) * self.target_width, self.draft_vocab)


Trained = AnyTrained[Config, EagleNetwork]


def _published(folder: Path, given: dict[str, Any], adapter: ModelAdapter) -> tuple[Config, dict[str, torch.Tensor]]:
    """A released checkpoint; which weights its target has is not known."""
    sizes = published.eagle_sizes(folder, given, adapter)
    tensors = published.eagle_tensors(folder, read_tensors(folder, OPTION, adapter.device), adapter)
    sizes["vocab"] = min(sizes["vocab"], adapter.vocab)
    if "d2t" not in tensors and sizes["draft_vocab"] >= adapter.vocab:  # padded rows stand for no token
        head = tensors["head.weight"]
        tensors["head.weight"] = head[: adapter.vocab] if head.dim() else head
        sizes["draft_vocab"] = adapter.vocab
    config = Config(
        target="", target_name=published.name_of(folder, given), target_layers=adapter.n_layers, **sizes,
    )  # fmt: skip
    return config, tensors


KIND = Kind(
    "specviz-eagle3", "EAGLE-3 drafter", "specviz train eagle3", "eagle3", Config,
    lambda config: EagleNetwork(config.shape), published=_published,
)  # fmt: skip
