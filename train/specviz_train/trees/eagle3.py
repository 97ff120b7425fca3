"""`specviz train eagle3`: an EAGLE-3-style drafter. What all kinds share is in `train`."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.methods.eagle3.drafter import KIND, Eagle, EagleConfig, EagleNetwork, Trained
from specviz.methods.trained.parts import fingerprint, taps
from specviz_train.common.own_text import OwnWindows
from specviz_train.trees import levels, train
from specviz_train.trees.block_drafter import head_rows, layer_like, vocabulary_of
from specviz_train.trees.card import TreeCard


@dataclass(frozen=True, slots=True)
class Eagle3Request(train.TreeDrafterRequest):
    """What the command line asks for. `steps`: levels unrolled in training."""

    command_name: ClassVar[str] = "eagle3"

    steps: int = 7


def _begin(request: Eagle3Request, adapter: ModelAdapter, windows: OwnWindows) -> Trained:
    """A network that begins at its target's top (`settle`), in storage of its own."""
    vocabulary = vocabulary_of(adapter, windows.ids, request.draft_vocab)
    config = EagleConfig.describing(
        adapter,
        fingerprint(adapter),
        taps(adapter.n_layers),
        vocabulary.n_draft,
        layer_like(adapter),
        trained_steps=request.steps,
    )
    network = EagleNetwork(config.shape, torch.Generator().manual_seed(request.seed)).to(adapter.device).float()
    with torch.no_grad():
        network.head.weight.copy_(head_rows(adapter, vocabulary))
    settle(network, adapter)
    return Trained(config, network, vocabulary)


@torch.no_grad()
def settle(network: EagleNetwork, adapter: ModelAdapter) -> None:
    """Begin as the target's last layer over the latest of its states, which its head understands already.

    What reads the token keeps its seeded weights.
    """
    width = network.shape.layer.width
    network.fc.weight[:, -width:] += torch.eye(width, device=network.fc.weight.device)
    levels.begin_as(network.layer, adapter.layers[-1])
    levels.copied(network.norm_out.weight, levels.last_gain(adapter))


CARD = TreeCard(
    "eagle3",
    "eagle3",
    Eagle,
    ({}, {"d_max": 4}, {"k_max": 4}, {"temperature": 1.0}),
    levels.known,
    partial(levels.columns, "levels"),
    ("the first level", "the last level"),
)
RECIPE = train.DrafterRecipe(KIND, _begin, levels.unrolled, CARD)
