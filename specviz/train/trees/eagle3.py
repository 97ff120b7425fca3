"""`specviz train eagle3`: an EAGLE-3-style drafter (specblock.md 10). What all kinds share is in `train`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.methods.eagle3.drafter import KIND, Eagle, EagleConfig, EagleNetwork, Trained
from specviz.methods.trained.parts import fingerprint, taps
from specviz.train.common.console import Console
from specviz.train.common.target_text import OwnWindows
from specviz.train.trees import train
from specviz.train.trees.block_drafter import head_rows, layer_like, vocabulary_of
from specviz.train.trees.card import HeldOutWindows, TreeCard
from specviz.train.trees.losses import PlacesLoss, eagle_loss, right_by_level
from specviz.train.trees.objective import DrafterBatches


@dataclass(frozen=True, slots=True)
class Eagle3Request(train.TreeDrafterRequest):
    """What the command line asks for. `steps`: levels unrolled in training."""

    command_name: ClassVar[str] = "eagle3"

    steps: int = 7


def train_eagle3(request: Eagle3Request, console: Console) -> dict[str, Any] | None:
    """Do what is not done yet; write drafter and card; return the card's numbers."""
    return train.train(request, RECIPE, console)


def _begin(request: Eagle3Request, adapter: ModelAdapter, windows: OwnWindows) -> Trained:
    """A network that begins at its target's top (`settle`), in storage of its own."""
    vocabulary = vocabulary_of(adapter, windows.ids, request.draft_vocab)
    layer = layer_like(adapter)
    config = EagleConfig(
        target=fingerprint(adapter),
        target_name=adapter.name,
        target_layers=adapter.n_layers,
        target_width=layer.width,
        taps=taps(adapter.n_layers),
        vocab=adapter.vocab,
        draft_vocab=vocabulary.n_draft,
        heads=layer.heads,
        kv_heads=layer.kv_heads,
        head_dim=layer.head_dim,
        ff=layer.ff,
        rope_theta=layer.rope_theta,
        trained_steps=request.steps,
    )
    network = EagleNetwork(config.shape, torch.Generator().manual_seed(request.seed)).to(adapter.device).float()
    with torch.no_grad():
        network.head.weight.copy_(head_rows(adapter, vocabulary))
    settle(network, adapter)
    return Trained(config, network, vocabulary)


_LIKE = {
    "norm_attention": "input_layernorm",
    "norm_mlp": "post_attention_layernorm",
    "o": "self_attn.o_proj",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}
_READS = {"q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj"}


@torch.no_grad()
def settle(network: EagleNetwork, adapter: ModelAdapter) -> None:
    """Begin as the target's last layer over the latest of its states, which its head understands already.

    What reads the token keeps its seeded weights. Parts that are called otherwise, or are of another shape, stay as
    they are: a layer that is not like ours has nothing to give.
    """
    width = network.shape.layer.width
    network.fc.weight[:, -width:] += torch.eye(width, device=network.fc.weight.device)
    own = dict(network.layer.named_parameters())
    theirs = dict(adapter.layers[-1].named_parameters())
    for name, like in _LIKE.items():
        _copied(own[f"{name}.weight"], theirs.get(f"{like}.weight"))
    for name, like in _READS.items():
        _copied(own[f"{name}.weight"][:, width:], theirs.get(f"{like}.weight"))
    _copied(network.norm_out.weight, dict(adapter.norm.named_parameters()).get("weight"))


def _copied(own: torch.Tensor, theirs: torch.Tensor | None) -> None:
    """Take over weights of the same shape."""
    if theirs is not None and theirs.shape == own.shape:
        own.copy_(theirs)


def _loss(request: Eagle3Request, adapter: ModelAdapter, batches: DrafterBatches) -> PlacesLoss:
    return eagle_loss(batches, adapter.embedding, request.decay, request.draft_loss)  # type: ignore[arg-type]


def _known(adapter: ModelAdapter, trained: Trained, held: HeldOutWindows) -> dict[str, Any]:
    return {"accuracy": right_by_level(adapter, trained, held.windows)}


def _said(numbers: Mapping[str, Any]) -> dict[str, Any]:
    levels = range(1, len(numbers["accuracy"]) + 1)
    return {"levels": levels, "rule": "---|" * len(levels)}


CARD = TreeCard(
    "eagle3",
    "eagle3",
    Eagle,
    ({}, {"d_max": 4}, {"k_max": 4}, {"temperature": 1.0}),
    _known,
    _said,
    ("the first level", "the last level"),
)
RECIPE = train.DrafterRecipe(KIND, _begin, _loss, CARD)
