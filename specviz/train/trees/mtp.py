"""`specviz train mtp`: an MTP layer for a frozen target. What all kinds share is in `train`.

Models that bring such a layer learn it together with the rest. Here the target stays as it is and the layer begins as
the target's last one over its last state, which the head understands already.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.methods.mtp.drafter import Mtp
from specviz.methods.mtp.network import KIND, MtpConfig, MtpNetwork, Trained
from specviz.methods.trained.parts import fingerprint
from specviz.train.common.console import Console
from specviz.train.common.target_text import OwnWindows
from specviz.train.trees import train
from specviz.train.trees.block_drafter import layer_like, vocabulary_of
from specviz.train.trees.card import HeldOutWindows, TreeCard
from specviz.train.trees.losses import PlacesLoss, eagle_loss, right_by_level
from specviz.train.trees.objective import DrafterBatches


@dataclass(frozen=True, slots=True)
class MtpRequest(train.TreeDrafterRequest):
    """What the command line asks for. `steps`: tokens ahead unrolled in training; `ff`: 0 is the target's."""

    command_name: ClassVar[str] = "mtp"

    steps: int = 3
    ff: int = 0


def train_mtp(request: MtpRequest, console: Console) -> dict[str, Any] | None:
    """Do what is not done yet; write layer and card; return the card's numbers."""
    return train.train(request, RECIPE, console)


def _begin(request: MtpRequest, adapter: ModelAdapter, windows: OwnWindows) -> Trained:
    vocabulary = vocabulary_of(adapter, windows.ids, request.draft_vocab)
    layer = layer_like(adapter)
    layer = replace(layer, ff=request.ff or layer.ff)
    config = MtpConfig(
        target=fingerprint(adapter),
        target_name=adapter.name,
        target_layers=adapter.n_layers,
        target_width=layer.width,
        taps=(adapter.n_layers,),
        vocab=adapter.vocab,
        draft_vocab=vocabulary.n_draft,
        heads=layer.heads,
        kv_heads=layer.kv_heads,
        head_dim=layer.head_dim,
        ff=layer.ff,
        rope_theta=layer.rope_theta,
        trained_steps=request.steps,
    )
    network = MtpNetwork(config.shape, torch.Generator().manual_seed(request.seed)).to(adapter.device).float()
    network.join(adapter, vocabulary)
    settle(network, adapter)
    return Trained(config, network, vocabulary)


_LIKE = {
    "norm_attention": "input_layernorm",
    "norm_mlp": "post_attention_layernorm",
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "o": "self_attn.o_proj",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}


@torch.no_grad()
def settle(network: MtpNetwork, adapter: ModelAdapter) -> None:
    """Begin as the target's last layer over its last state, as loud as the head is used to.

    What reads the token keeps its seeded weights. Of a wider feed-forward part the neurons that say most are taken;
    parts that are called otherwise, or are of another shape, stay as they are.
    """
    width = network.shape.width
    network.fuse.weight[:, width:] += torch.eye(width, device=network.fuse.weight.device)
    theirs = dict(adapter.layers[-1].named_parameters())
    loudest = _loudest(theirs.get("mlp.down_proj.weight"), theirs.get("mlp.up_proj.weight"), network.shape.ff)
    for name, like in _LIKE.items():
        own, given = network.layer.get_parameter(f"{name}.weight"), theirs.get(f"{like}.weight")
        if given is not None and loudest is not None and name in ("gate", "up", "down"):
            given = given[:, loudest] if name == "down" else given[loudest]
        if given is not None and own.shape == given.shape:
            own.copy_(given)
    gain = dict(adapter.norm.named_parameters()).get("weight")
    if gain is not None:
        network.norm_out.weight.fill_(gain.float().square().mean().sqrt())


def _loudest(down: torch.Tensor | None, up: torch.Tensor | None, n: int) -> torch.Tensor | None:
    """The `n` neurons with the longest weights, in their order; None where there are no more, or none are known."""
    if down is None or up is None or down.shape[1] <= n:
        return None
    strength = down.float().norm(dim=0) * up.float().norm(dim=1)
    kept: torch.Tensor = strength.topk(n).indices.sort().values
    return kept


def _loss(request: MtpRequest, adapter: ModelAdapter, batches: DrafterBatches) -> PlacesLoss:
    return eagle_loss(batches, adapter.embedding, request.decay, request.draft_loss)  # type: ignore[arg-type]


def _known(adapter: ModelAdapter, trained: Trained, held: HeldOutWindows) -> dict[str, Any]:
    return {"accuracy": right_by_level(adapter, trained, held.windows)}


def _said(numbers: Mapping[str, Any]) -> dict[str, Any]:
    ahead = range(1, len(numbers["accuracy"]) + 1)
    return {"ahead": ahead, "rule": "---|" * len(ahead)}


CARD = TreeCard(
    "mtp",
    "mtp",
    Mtp,
    ({}, {"gamma": 2}, {"p_min": 0.5}),
    _known,
    _said,
    ("one token ahead", "the furthest ahead"),
)
RECIPE = train.DrafterRecipe(KIND, _begin, _loss, CARD)
