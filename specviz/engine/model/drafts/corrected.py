"""Draft models that are some of their target's layers, each weight corrected by a little: `W + up down`.

A draft model that leaves out a third of its target's layers has nearly everything to say already; what it must learn
is to do without the missing ones, and a correction of low rank (LoRA, Hu et al. 2021) is enough for that. So its folder
holds the corrections alone, a tenth of the layers' size, and which of the target's layers they belong to. In memory it
shares the target's weights. Corrections are never added into a weight: a target that came from a four-bit file keeps
its own grid, and is packed without loss.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from specviz.errors import ModelError

Tensor = torch.Tensor

WEIGHTS = "model.safetensors"
DOWN, UP = "down", "up"  # [rank, in] and [out, rank] of a weight [out, in]
_LAYERS = "model.layers"


class Correction(nn.Module):
    """What is added to a product `[.., out]` of rows `[.., in]`: `up down x`."""

    def __init__(self, down: Tensor, up: Tensor) -> None:
        super().__init__()
        self.down, self.up = nn.Parameter(down), nn.Parameter(up)

    def forward(self, rows: Tensor) -> Tensor:
        return F.linear(F.linear(rows, self.down), self.up)


class CorrectedLinear(nn.Linear):
    """A linear layer, its weight shared, and what is added to it."""

    def __init__(self, linear: nn.Linear, correction: Correction) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias, self.correction = linear.weight, linear.bias, correction

    def forward(self, rows: Tensor) -> Tensor:
        return super().forward(rows) + self.correction(rows)  # type: ignore[no-any-return]


def joined(corrections: Sequence[Correction | None], sizes: Sequence[int]) -> Correction | None:
    """One correction of several products of the same rows, `sizes` outputs each, side by side; None: there is none."""
    there = [correction for correction in corrections if correction is not None]
    if not there:
        return None
    down = torch.cat([correction.down for correction in there])
    up = down.new_zeros(sum(sizes), len(down))
    row = column = 0
    for correction, size in zip(corrections, sizes, strict=True):
        if correction is not None:
            rank = len(correction.down)
            up[row : row + size, column : column + rank] = correction.up
            column += rank
        row += size
    return Correction(down, up).requires_grad_(False)


def read(option: str, where: Path, layers: Sequence[int], target: Any) -> tuple[Any, dict[str, Any]]:
    """The model of a folder as the library would have read it, and the names it lacks: none.

    `target`: the library's model whose `layers` (from 0) it is made of. Raises ModelError for corrections that do not
    fit it.
    """
    model = shortened(option, target, layers)
    put(model, stored(option, where, model))
    return model, {"missing_keys": []}


def shortened(option: str, target: Any, layers: Sequence[int]) -> Any:
    """A model of some of the target's layers, its weights shared with the target.

    Raises ModelError for a target that has no such layers, or is laid out otherwise.
    """
    own = dict(target.named_parameters(remove_duplicate=False))
    n_layers = getattr(target.config, "num_hidden_layers", 0)
    if not layers or not all(0 <= layer < n_layers for layer in layers) or f"{_LAYERS}.0.mlp.up_proj.weight" not in own:
        raise ModelError(f"{option}: it is made of layers {list(layers)} of its target, which has no such layers")
    config = target.config.to_dict() | {"num_hidden_layers": len(layers)}
    config.pop("layer_types", None)  # follows from the number of layers
    with torch.device("meta"):  # its own weights are never allocated: a large target must not be in memory twice
        model = type(target)(type(target.config).from_dict(config))
    model.model.rotary_emb = target.model.rotary_emb
    for name, _ in list(model.named_parameters(remove_duplicate=False)):
        source = name
        if name.startswith(f"{_LAYERS}."):
            place, _, rest = name.removeprefix(f"{_LAYERS}.").partition(".")
            source = f"{_LAYERS}.{layers[int(place)]}.{rest}"
        holder, _, last = name.rpartition(".")
        setattr(model.get_submodule(holder), last, own[source])
    if any(buffer.is_meta for buffer in model.buffers()):
        raise ModelError(f"{option}: its target keeps tables in its layers, which cannot be shared")
    return model


def put(model: Any, corrections: Mapping[str, Correction]) -> None:
    """Put corrections beside linear layers of a model, by their names."""
    for name, correction in corrections.items():
        holder, _, last = name.rpartition(".")
        setattr(model.get_submodule(holder), last, CorrectedLinear(model.get_submodule(name), correction))


def stored(option: str, where: Path, model: Any) -> dict[str, Correction]:
    """The corrections of a folder by the names of the linear layers of `model` that they belong to.

    Raises ModelError for a file that cannot be read, and for corrections that do not fit.
    """
    try:
        tensors = load_file(where / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{option}: {WEIGHTS} cannot be read: {' '.join(str(error).split())[:120]}") from error
    linears = {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    corrections = {}
    for name in sorted({name.rpartition(".")[0] for name in tensors}):
        if name not in linears or not {f"{name}.{DOWN}", f"{name}.{UP}"} <= tensors.keys():
            raise ModelError(f"{option}: the correction of '{name}' does not fit its target")
        down, up, weight = tensors[f"{name}.{DOWN}"], tensors[f"{name}.{UP}"], linears[name].weight
        shapes, wanted = (tuple(up.shape), tuple(down.shape)), tuple(weight.shape)
        if up.ndim != 2 or down.ndim != 2 or (up.shape[0], down.shape[1], up.shape[1]) != (*wanted, down.shape[0]):
            raise ModelError(f"{option}: the correction of '{name}' has shapes {shapes}; the weight's is {wanted}")
        if not bool(up.isfinite().all() and down.isfinite().all()):
            raise ModelError(f"{option}: the correction of '{name}' holds NaN or infinite numbers; train it again")
        corrections[name] = Correction(*(factor.to(weight.device, weight.dtype) for factor in (down, up)))
    return corrections
