"""What kinds of drafters that begin as layers of their target share: first weights, and levels that are unrolled."""

from collections.abc import Mapping
from typing import Any

import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.methods.trained.layers import Layer
from specviz.methods.trained.parts import Trained
from specviz_train.trees.card import HeldOutWindows
from specviz_train.trees.losses import PlacesLoss, eagle_loss, right_by_level
from specviz_train.trees.objective import DrafterBatches
from specviz_train.trees.train import TreeDrafterRequest

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
_INNER = ("gate", "up", "down")


@torch.no_grad()
def begin_as(layer: Layer, theirs: torch.nn.Module, inner: torch.Tensor | None = None) -> bool:
    """Begin as a layer of the target, in storage of its own; whether all of its parts were there to be taken.

    What reads more than the target's layer does keeps its seeded weights before the last columns. Of a wider
    feed-forward part the neurons that say most are taken: by how loud each was, `inner` `[ff]`, or where that is not
    known by its weights. Parts that are called otherwise, or are of another shape, stay as they are: a layer that is
    not like ours has nothing to give.
    """
    parameters: dict[str, torch.Tensor] = dict(theirs.named_parameters())
    down, up = parameters.get("mlp.down_proj.weight"), parameters.get("mlp.up_proj.weight")
    if inner is None and up is not None:
        inner = up.float().norm(dim=1)
    loudest, whole = _loudest(down, inner, layer.shape.ff), True
    for name, like in _LIKE.items():
        weight = parameters.get(f"{like}.weight")
        if weight is not None and loudest is not None and name in _INNER:
            weight = weight[:, loudest] if name == "down" else weight[loudest]
        own = layer.get_parameter(f"{name}.weight")
        whole &= copied(own[..., -layer.shape.width :] if name in ("q", "k", "v") else own, weight)
    return whole


def copied(own: torch.Tensor, theirs: torch.Tensor | None) -> bool:
    """Take over weights of the same shape; whether they were."""
    if theirs is None or theirs.shape != own.shape:
        return False
    own.copy_(theirs)
    return True


def last_gain(adapter: ModelAdapter) -> torch.Tensor | None:
    """The gains `[width]` of the target's final norm, where it has one with gains."""
    return dict(adapter.norm.named_parameters()).get("weight")


def _loudest(down: torch.Tensor | None, inner: torch.Tensor | None, n: int) -> torch.Tensor | None:
    """The `n` neurons that say most, in their order; None where there are no more, or none are known."""
    if down is None or inner is None or down.shape[1] <= n:
        return None
    strength = down.float().norm(dim=0) * inner
    kept: torch.Tensor = strength.topk(n).indices.sort().values
    return kept


def unrolled(request: TreeDrafterRequest, adapter: ModelAdapter, batches: DrafterBatches) -> PlacesLoss:
    """The loss of all levels that the training unrolls."""
    return eagle_loss(batches, adapter.embedding, request.decay, request.draft_loss)  # type: ignore[arg-type]


def known(adapter: ModelAdapter, trained: Trained[Any, Any], held: HeldOutWindows) -> dict[str, Any]:
    """How often each level is right."""
    return {"accuracy": right_by_level(adapter, trained, held.windows)}


def columns(name: str, numbers: Mapping[str, Any]) -> dict[str, Any]:
    """The head of a table with a column for every place ahead, called `name` on its page."""
    ahead = range(1, len(numbers["accuracy"]) + 1)
    return {name: ahead, "rule": "---|" * len(ahead)}
