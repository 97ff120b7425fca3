"""`specviz train mtp`: an MTP layer for a frozen target. What all kinds share is in `train`.

Models that bring such a layer learn it together with the rest. Here the target stays as it is and the layer begins as
the target's last one over a guess of what that will read (`fitted`).
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.methods.mtp.drafter import Mtp
from specviz.methods.mtp.network import KIND, MtpConfig, MtpNetwork, Trained
from specviz.methods.trained.parts import fingerprint
from specviz_train.common.console import Console
from specviz_train.common.own_text import OwnWindows
from specviz_train.recipe import refuse_unknown
from specviz_train.trees import fitted, levels, train
from specviz_train.trees.block_drafter import layer_like, vocabulary_of
from specviz_train.trees.card import TreeCard


@dataclass(frozen=True, slots=True)
class MtpRequest(train.TreeDrafterRequest):
    """What the command line asks for. `steps`: tokens ahead unrolled in training; `ff`: 0 is the target's.

    `bits`: 16 or 8, of a weight on disk.
    """

    command_name: ClassVar[str] = "mtp"

    steps: int = 3
    ff: int = 0
    bits: int = 16


def train_mtp(request: MtpRequest, console: Console) -> dict[str, Any] | None:
    """Do what is not done yet; write layer and card; return the card's numbers."""
    refuse_unknown("bits", str(request.bits), ("8", "16"))
    return train.train(request, RECIPE, console)


def _begin(request: MtpRequest, adapter: ModelAdapter, windows: OwnWindows) -> Trained:
    vocabulary = vocabulary_of(adapter, windows.ids, request.draft_vocab)
    layer = layer_like(adapter)
    layer = replace(layer, ff=request.ff or layer.ff)
    config = MtpConfig.describing(
        adapter,
        fingerprint(adapter),
        (adapter.n_layers,),
        vocabulary.n_draft,
        layer,
        trained_steps=request.steps,
        bits=request.bits,
    )
    network = MtpNetwork(config.layer, torch.Generator().manual_seed(request.seed)).to(adapter.device).float()
    network.join(adapter, vocabulary)
    goes_on = (request.work / RECIPE.checkpoint).exists()
    if not goes_on and request.begin is None:  # else its weights come from there
        fitted.settle(network, adapter, windows)
    return Trained(config, network, vocabulary)


CARD = TreeCard(
    "mtp",
    "mtp",
    Mtp,
    ({}, {"gamma": 2}, {"p_min": 0.5}),
    levels.known,
    partial(levels.columns, "ahead"),
    ("one token ahead", "the furthest ahead"),
)
RECIPE = train.DrafterRecipe(KIND, _begin, levels.unrolled, CARD)
