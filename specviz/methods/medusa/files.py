"""Medusa heads on disk."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.methods.medusa.network import MedusaHeads
from specviz.methods.trained import published
from specviz.methods.trained.fit import OPTION, MadeFor
from specviz.methods.trained.part_files import read_tensors
from specviz.methods.trained.parts import Kind
from specviz.methods.trained.parts import Trained as AnyTrained
from specviz.methods.trained.rank_table import NAME, read_table


@dataclass(frozen=True, slots=True)
class Config:
    """`config.json`. `right[j][r]`: how often the target's token had rank r + 1 in head j on held-out text.

    The fixed tree follows from it; `counted` is false of a stand-in.
    """

    target: str
    target_name: str
    target_layers: int
    target_width: int
    vocab: int
    draft_vocab: int
    heads: int
    right: tuple[tuple[float, ...], ...] = ()
    counted: bool = True

    @property
    def tree(self) -> str:
        """Where its shape comes from."""
        return (
            "tree from counted ranks"
            if self.counted
            else "stand-in tree, as no table of ranks comes with released heads"
        )

    @property
    def made_for(self) -> MadeFor:
        """The target; its last state is what heads read."""
        return MadeFor(
            self.target, self.target_name, self.target_layers, self.target_width, self.vocab, (self.target_layers,)
        )  # fmt: skip


Trained = AnyTrained[Config, MedusaHeads]


def _published(folder: Path, given: dict[str, Any], adapter: ModelAdapter) -> tuple[Config, dict[str, torch.Tensor]]:
    """Released heads; which weights their target has is not known, and a table of ranks is ours or a stand-in."""
    tensors = published.medusa_tensors(folder, read_tensors(folder, OPTION, adapter.device))
    heads, vocab, width = tensors["outer"].shape
    counted = (folder / NAME).is_file()  # by specviz train static-tree
    config = Config(
        target="", target_name=published.name_of(folder, given), target_layers=adapter.n_layers, target_width=width,
        vocab=min(vocab, adapter.vocab), draft_vocab=min(vocab, adapter.vocab), heads=heads,
        right=read_table(folder) if counted else published.usual_shares(heads), counted=counted,
    )  # fmt: skip
    tensors["outer"] = tensors["outer"][:, : adapter.vocab]  # padded rows stand for no token
    return config, tensors


KIND = Kind(
    "specviz-medusa", "set of Medusa heads", "specviz train medusa", "medusa", Config,
    lambda config: MedusaHeads(config.heads, config.target_width, config.draft_vocab), _published,
)  # fmt: skip
