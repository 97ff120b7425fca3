"""Draft models that are some of their target's layers, each weight corrected by a little: `W + up down`.

A draft model that leaves out a third of its target's layers has nearly everything to say already; what it must learn
is to do without the missing ones, and a correction of low rank (LoRA, Hu et al. 2021) is enough for that. So its folder
holds the corrections alone, a tenth of the layers' size, and which of the target's layers they belong to. Once added
up, the layers are packed in four bits where there are kernels for it: a draft may be rough.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from specviz.errors import ModelError

Tensor = torch.Tensor

WEIGHTS = "model.safetensors"
DOWN, UP = "down", "up"  # [rank, in] and [out, rank] of a weight [out, in]
_LAYERS = "model.layers"


def read(option: str, where: Path, layers: Sequence[int], target: Any) -> tuple[Any, dict[str, Any]]:
    """The model of a folder as the library would have read it, and the names it lacks: those of the ends.

    `target`: the library's model whose `layers` (from 0) it is made of. Raises ModelError for corrections that do not
    fit it.
    """
    try:
        corrections = load_file(where / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{option}: {WEIGHTS} cannot be read: {' '.join(str(error).split())[:120]}") from error
    model = shortened(option, target, layers)
    _correct(option, model, corrections)
    return model, {"missing_keys": []}


@torch.no_grad()
def shortened(option: str, target: Any, layers: Sequence[int]) -> Any:
    """A model of copies of some of the target's layers, in its dtype and on its device; its ends are empty.

    Raises ModelError for a target that has no such layers, or is laid out otherwise.
    """
    own = target.state_dict()
    n_layers = getattr(target.config, "num_hidden_layers", 0)
    if not layers or not all(0 <= layer < n_layers for layer in layers) or f"{_LAYERS}.0.mlp.up_proj.weight" not in own:
        raise ModelError(f"{option}: it is made of layers {list(layers)} of its target, which has no such layers")
    said = target.config.to_dict() | {"num_hidden_layers": len(layers)}
    said.pop("layer_types", None)  # follows from the number of layers
    weight = target.get_input_embeddings().weight
    model = type(target)(type(target.config).from_dict(said)).to(weight.device, weight.dtype)
    places = {name: name for name in own if not name.startswith(f"{_LAYERS}.")}
    for place, layer in enumerate(layers):
        source = f"{_LAYERS}.{layer}."
        places |= {f"{_LAYERS}.{place}.{name[len(source) :]}": name for name in own if name.startswith(source)}
    model.load_state_dict({place: own[name] for place, name in places.items()})
    return model


@torch.no_grad()
def _correct(option: str, model: Any, corrections: Mapping[str, Tensor]) -> None:
    """Add the corrections to the weights of a model. Raises ModelError for one that does not fit.

    In double precision, where such a sum comes out alike on every machine: weights are told by their last digits.
    """
    weights = dict(model.named_parameters())
    pairs = {name.rpartition(".")[0] for name in corrections}
    for name in sorted(pairs):
        try:
            down, up, weight = corrections[f"{name}.{DOWN}"], corrections[f"{name}.{UP}"], weights[f"{name}.weight"]
            change = up.double() @ down.double()
        except (KeyError, RuntimeError) as error:
            raise ModelError(f"{option}: the correction of '{name}' does not fit its target: {error}") from error
        if change.shape != weight.shape or not bool(change.isfinite().all()):
            raise ModelError(
                f"{option}: the correction of '{name}' is {list(change.shape)} or not finite; the weight is "
                f"{list(weight.shape)}"
            )
        weight.copy_((weight.cpu().double() + change).to(weight.dtype))
