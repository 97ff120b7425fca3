"""Folders of adapters: `adapter.safetensors` and a `config.json` naming the target's fingerprint, layer and shape."""

from dataclasses import dataclass
from pathlib import Path

import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.methods import Part
from specviz.methods.kangaroo.adapter import Adapter, AdapterModel, AdapterShape, StateRows
from specviz.methods.trained.part_kind import PartKind, in_bfloat16, misshapen, width_of

_TRAIN = "specviz train kangaroo"


@dataclass(frozen=True, slots=True)
class AdapterConfig:
    """`config.json` of an adapter. `target`: its fingerprint; `layer`: the adapter reads the states behind it."""

    target: str
    target_name: str
    n_layers: int
    layer: int
    shape: AdapterShape

    def write(self, folder: Path) -> None:
        KIND.save(folder, self)


def _unfit(config: AdapterConfig, target: ModelAdapter) -> str | None:
    width = width_of(target)
    if 1 <= config.layer < target.n_layers and config.shape.width == width:
        return None
    return (
        f"config.json names layer {config.layer} of width {config.shape.width}, the target has "
        f"layers 1 to {target.n_layers - 1} below its last, of width {width}"
    )


KIND = PartKind(
    part=Part("weights of an adapter", _TRAIN, "kangaroo", knob="adapter"),
    format="specviz-kangaroo-adapter",
    config=AdapterConfig,
    weights="adapter.safetensors",
    hint=f"give one that {_TRAIN} wrote, or lens",
    advice=f"train one for it with {_TRAIN}",
    fits=_unfit,
    by_weights=True,
)


def save(folder: Path, config: AdapterConfig, adapter: Adapter) -> None:
    KIND.save(folder, config, in_bfloat16(adapter.state_dict()))


def load(folder: Path, target: ModelAdapter) -> AdapterModel:
    """The adapter in a folder. Raises ModelError in one line for one that holds none, or none of this target."""
    config, tensors = KIND.opened(folder, target)
    try:
        adapter = Adapter(config.shape, target.dtype, target.device)
        adapter.load_state_dict(tensors)
        model = AdapterModel(target, adapter.requires_grad_(False), config.shape, config.layer)
        _prove(model, target)
        return model
    except Exception as error:  # a shape that does not fit trips the library anywhere
        raise misshapen(folder, KIND.option, error) from error


@torch.inference_mode()
def _prove(model: AdapterModel, target: ModelAdapter) -> None:
    """It reads two rows. Raises ValueError when it says no numbers, as it would with angles or norms that are none."""
    rows = StateRows(model, model.new_cache(2))
    rows.hand([0, 0], torch.ones(2, target.head.weight.shape[1], dtype=target.dtype, device=target.device))
    if not bool(rows.take(2).isfinite().all()):
        raise ValueError("what it says are no finite numbers; its shape cannot be right")


def pick(target: object, wanted: str | None) -> AdapterModel | None:
    """The adapter to use: a folder's, or None for the one shipped with the target if there is one.

    `lens`, and a target that is no model of the library's, have none. Raises ModelError in one line for a folder.
    """
    if wanted == "lens" or not isinstance(target, ModelAdapter):
        return None
    if wanted is not None:
        return load(Path(wanted), target)
    own = (folder for folder in KIND.shipped_for(target) if KIND.given(folder).get("format") == KIND.format)
    folder = next(own, None)
    return None if folder is None else load(folder, target)
