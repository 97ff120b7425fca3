"""Folders of exit heads: `heads.safetensors` and a `config.json` naming the target's fingerprint, layers and kind.

A folder of a published tuned lens is taken too, once its weights are safetensors.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.loading import fingerprint as fingerprint
from specviz.errors import ModelError
from specviz.methods import Part
from specviz.methods.early_exit.exit_head import KINDS, Tensor
from specviz.methods.trained.part_kind import PartKind, other_sizes

SHORTLIST = "shortlist"  # the tensor that holds its token ids


@dataclass(frozen=True, slots=True)
class ExitHeadConfig:
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
        KIND.save(folder, self)


def _unsound(config: ExitHeadConfig) -> str | None:
    if config.kind not in KINDS:
        return f" has kind '{config.kind}', known are {', '.join(KINDS)}"
    return None if config.target else " names no target"


def _unfit(config: ExitHeadConfig, adapter: ModelAdapter) -> str | None:
    outside = [layer for layer in (*config.layers, *config.advised) if not 1 <= layer < adapter.n_layers]
    unfit = other_sizes(config, adapter)
    if unfit is None and (outside or not config.layers):
        return (
            f"config.json names {f'layer {outside[0]}' if outside else 'no layers'}, the "
            f"target has layers 1 to {adapter.n_layers - 1} below its last"
        )
    return unfit


KIND = PartKind(
    part=Part("exit heads", "specviz train exit-heads", "exit-heads", knob="heads"),
    format="specviz-exit-heads",
    config=ExitHeadConfig,
    weights="heads.safetensors",
    hint="give one that specviz train exit-heads wrote, or lens",
    advice="train heads for it with specviz train exit-heads",
    sound=_unsound,
    fits=_unfit,
    embedded="heads",
)


def opened(folder: Path, adapter: ModelAdapter) -> tuple[ExitHeadConfig, dict[str, Tensor]]:
    """What a folder holds, once it is known to be heads of this target. Raises ModelError in one line."""
    given = KIND.given(folder)
    config = _tuned_lens(folder, given, adapter) if "lens_type" in given else KIND.parsed(folder, given)
    KIND.refuse_others(folder, config, adapter, owned=bool(config.target))
    tensors = KIND.tensors(folder, adapter.device, SHORTLIST)
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


def _tuned_lens(folder: Path, given: dict[str, Any], adapter: ModelAdapter) -> ExitHeadConfig:
    """A published tuned lens: translator l corrects the state after l layers. It names its base, not its weights."""
    if given["lens_type"] != "linear_tuned_lens":
        raise ModelError(f"--heads {folder}: lens_type '{given['lens_type']}' is unknown; known: linear_tuned_lens")
    n_layers, width = given.get("num_hidden_layers"), given.get("d_model")
    if not isinstance(n_layers, int) or not isinstance(width, int):
        raise ModelError(f"--heads {folder}: config.json of a tuned lens needs num_hidden_layers and d_model")
    return ExitHeadConfig(
        target="",
        target_name=str(given.get("base_model_name_or_path")),
        n_layers=n_layers,
        width=width,
        vocab=adapter.vocab,
        kind="tuned",
        layers=tuple(range(1, n_layers)),
    )


def _with_biases(tensors: dict[str, Tensor], config: ExitHeadConfig) -> dict[str, Tensor]:
    """A translator's names are `l.weight` and `l.bias`, as ours are; one without a bias gets zeros."""
    zero = torch.zeros(config.width)
    biases = {f"{layer}.bias": zero for layer in config.layers if f"{layer}.bias" not in tensors}
    return tensors | biases
