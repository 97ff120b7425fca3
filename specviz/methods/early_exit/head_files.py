"""Folders of exit heads: `heads.safetensors` and a `config.json` naming the target's fingerprint, layers and kind.

Nothing pickled is ever opened, and heads of another target are refused: they would only cost time, unseen. A folder of
a published tuned lens is taken too, once its weights are safetensors.
"""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import msgspec
import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.errors import ModelError
from specviz.methods.early_exit.exit_head import KINDS, Tensor
from specviz.methods.trained import parts
from specviz.methods.trained.parts import fingerprint

__all__ = ["FORMAT", "VERSION", "Config", "fingerprint", "opened", "read_config"]
FORMAT, VERSION = "specviz-exit-heads", 1
_OPTION = "--heads"
SHORTLIST = "shortlist"  # the tensor that holds its token ids


@dataclass(frozen=True, slots=True)
class Config:
    """`config.json` of a folder of heads. `target`: its fingerprint; `shortlist`: K, 0 for the whole vocabulary.

    `advised`: the layers to test with the default threshold, chosen by replay; empty when nobody chose.
    """

    target: str
    target_name: str
    n_layers: int
    width: int
    vocab: int
    kind: str
    layers: tuple[int, ...]
    rank: int = 0
    shortlist: int = 0
    labels: str = "soft"
    advised: tuple[int, ...] = ()

    def write(self, folder: Path) -> None:
        """Beside the weights."""
        text = json.dumps({"format": FORMAT, "version": VERSION, **asdict(self)}, indent=1)
        (folder / "config.json").write_text(text + "\n", encoding="utf-8")


_NAMES = tuple(each.name for each in fields(Config))


def opened(folder: Path, adapter: ModelAdapter) -> tuple[Config, dict[str, Tensor]]:
    """What a folder holds, once it is known to be heads of this target. Raises ModelError in one line."""
    given = read_config(folder)
    config = _tuned_lens(folder, given, adapter) if "lens_type" in given else _config(folder, given)
    _refuse_other_target(folder, config, adapter)
    tensors = parts.read_tensors(folder, _OPTION, adapter.device)
    parts.refuse_odd(folder, _OPTION, {name: t for name, t in tensors.items() if name != SHORTLIST})
    if SHORTLIST in tensors:
        tensors[SHORTLIST] = _shortlist(folder, tensors[SHORTLIST], adapter.vocab)
    return config, _with_biases(tensors, config) if config.kind == "tuned" else tensors


def _shortlist(folder: Path, ids: Tensor, vocab: int) -> Tensor:
    """Token ids `[K]`. Raises ModelError for what are none of this target."""
    whole = ids.dim() == 1 and len(ids) > 0 and not (ids.is_floating_point() or ids.is_complex())
    inside = whole and ids.dtype != torch.bool and bool(((ids >= 0) & (ids < vocab)).all())
    if not inside or len(set(ids.tolist())) < len(ids):
        raise ModelError(
            f"--heads {folder}: its shortlist is no list of different tokens of the target (0 to {vocab - 1})"
        )
    return ids.long()


def read_config(folder: Path) -> dict[str, Any]:
    """`config.json` of a folder. Raises ModelError in one line."""
    return parts.read_config(folder, _OPTION, "give one that specviz train exit-heads wrote, or lens")


def _config(folder: Path, given: dict[str, Any]) -> Config:
    parts.refuse_format(folder, _OPTION, given, (FORMAT, VERSION), "exit heads")
    try:
        config = msgspec.convert({name: given[name] for name in _NAMES if name in given}, Config)
    except msgspec.ValidationError as error:
        raise ModelError(f"--heads {folder}: config.json: {error}") from None
    if config.kind not in KINDS or not config.target:
        wrong = "names no target" if config.kind in KINDS else f"has kind '{config.kind}', known are {', '.join(KINDS)}"
        raise ModelError(f"--heads {folder}: config.json {wrong}")
    return config


def _refuse_other_target(folder: Path, config: Config, adapter: ModelAdapter) -> None:
    width = adapter.head.weight.shape[1]
    if (config.n_layers, config.width) != (adapter.n_layers, width):
        raise ModelError(
            f"--heads {folder}: made for {config.target_name} with {config.n_layers} layers of width {config.width}, "
            f"the target {adapter.name} has {adapter.n_layers} of width {width}"
        )
    outside = [layer for layer in (*config.layers, *config.advised) if not 1 <= layer < adapter.n_layers]
    if outside or not config.layers:
        raise ModelError(
            f"--heads {folder}: config.json names {f'layer {outside[0]}' if outside else 'no layers'}, the "
            f"target has layers 1 to {adapter.n_layers - 1} below its last"
        )
    if config.target:
        advice = "train heads for it with specviz train exit-heads"
        made_for = (config.target_name, config.target)
        parts.refuse_other_model(folder, _OPTION, "target", made_for, adapter, advice)


def _tuned_lens(folder: Path, given: dict[str, Any], adapter: ModelAdapter) -> Config:
    """A published tuned lens: translator l corrects the state after l layers. It names its base, not its weights."""
    if given["lens_type"] != "linear_tuned_lens":
        raise ModelError(f"--heads {folder}: lens_type '{given['lens_type']}' is unknown; known: linear_tuned_lens")
    n_layers, width = given.get("num_hidden_layers"), given.get("d_model")
    if not isinstance(n_layers, int) or not isinstance(width, int):
        raise ModelError(f"--heads {folder}: config.json of a tuned lens needs num_hidden_layers and d_model")
    return Config(
        target="", target_name=str(given.get("base_model_name_or_path")), n_layers=n_layers, width=width,
        vocab=adapter.vocab, kind="tuned", layers=tuple(range(1, n_layers)),
    )  # fmt: skip


def _with_biases(tensors: dict[str, Tensor], config: Config) -> dict[str, Tensor]:
    """A translator's names are `l.weight` and `l.bias`, as ours are; one without a bias gets zeros."""
    zero = torch.zeros(config.width)
    biases = {f"{layer}.bias": zero for layer in config.layers if f"{layer}.bias" not in tensors}
    return tensors | biases
