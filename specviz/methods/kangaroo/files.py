"""Folders of adapters: `adapter.safetensors` and a `config.json` naming the target's fingerprint, layer and shape.

Nothing pickled is ever opened, and an adapter of another target is refused: it would only cost time, unseen.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec
import torch
from safetensors.torch import save_file

from specviz.engine.model.adapter import ModelAdapter
from specviz.errors import ModelError
from specviz.methods.kangaroo.adapter import Adapter, AdapterModel, Shape, StateRows
from specviz.methods.trained import parts

FORMAT, VERSION = "specviz-kangaroo-adapter", 1
_OPTION = "--adapter"
_TRAIN = "specviz train kangaroo"


@dataclass(frozen=True, slots=True)
class Config:
    """`config.json` of an adapter. `target`: its fingerprint; `layer`: the adapter reads the states behind it."""

    target: str
    target_name: str
    n_layers: int
    layer: int
    shape: Shape

    def write(self, folder: Path) -> None:
        """Beside the weights."""
        text = json.dumps({"format": FORMAT, "version": VERSION, **asdict(self)}, indent=1)
        (folder / "config.json").write_text(text + "\n", encoding="utf-8")


def save(folder: Path, config: Config, adapter: Adapter) -> None:
    """Weights in bfloat16, and `config.json`."""
    tensors = {name: t.detach().to(torch.bfloat16).cpu().contiguous() for name, t in adapter.state_dict().items()}
    path = folder / "adapter.safetensors"
    save_file(tensors, path)
    path.chmod(0o644)  # weights are written for the owner alone, which a package must not carry on
    config.write(folder)


def load(folder: Path, target: ModelAdapter) -> AdapterModel:
    """The adapter in a folder. Raises ModelError in one line for one that holds none, or none of this target."""
    config = _config(folder, target)
    tensors = parts.read_tensors(folder, _OPTION, target.device)
    parts.refuse_odd(folder, _OPTION, tensors)
    try:
        adapter = Adapter(config.shape, target.dtype, target.device)
        adapter.load_state_dict(tensors)
        model = AdapterModel(target, adapter.requires_grad_(False), config.shape, config.layer)
        _prove(model, target)
        return model
    except Exception as error:  # a shape that does not fit trips the library anywhere
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise ModelError(f"{_OPTION} {folder}: the weights are not what config.json says: {why}") from error


@torch.inference_mode()
def _prove(model: AdapterModel, target: ModelAdapter) -> None:
    """It reads two rows. Raises ValueError when it says no numbers, as it would with angles or norms that are none."""
    rows = StateRows(model, model.new_cache(2))
    rows.hand([0, 0], torch.ones(2, target.head.weight.shape[1], dtype=target.dtype, device=target.device))
    if not bool(rows.take(2).isfinite().all()):
        raise ValueError("what it says are no finite numbers; its shape cannot be right")


def _config(folder: Path, target: ModelAdapter) -> Config:
    given = parts.read_config(folder, _OPTION, f"give one that {_TRAIN} wrote, or lens")
    parts.refuse_format(folder, _OPTION, given, (FORMAT, VERSION), "weights of an adapter")
    try:
        config = msgspec.convert({name: value for name, value in given.items() if name in _NAMES}, Config)
    except msgspec.ValidationError as error:
        raise ModelError(f"{_OPTION} {folder}: config.json: {error}") from None
    made_for = (config.target_name, config.target)
    parts.refuse_other_model(folder, _OPTION, "target", made_for, target, f"train one for it with {_TRAIN}")
    if not 1 <= config.layer < target.n_layers or config.shape.width != int(target.head.weight.shape[1]):
        raise ModelError(
            f"{_OPTION} {folder}: config.json names layer {config.layer} of width {config.shape.width}, the target has "
            f"layers 1 to {target.n_layers - 1} below its last, of width {int(target.head.weight.shape[1])}"
        )
    return config


_NAMES = tuple(Config.__dataclass_fields__)


def pick(target: object, wanted: str | None) -> AdapterModel | None:
    """The adapter to use: a folder's, or None for the one shipped with the target if there is one.

    `lens`, and a target that is no model of the library's, have none. Raises ModelError in one line for a folder.
    """
    if wanted == "lens" or not isinstance(target, ModelAdapter):
        return None
    if wanted is not None:
        return load(Path(wanted), target)
    for folder in parts.shipped(target, "kangaroo", "kangaroo"):
        given = parts.read_config(folder, _OPTION, "")
        if given.get("format") == FORMAT and given.get("target") == parts.fingerprint(target):
            return load(folder, target)
    return None
