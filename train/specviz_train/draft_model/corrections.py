"""A draft model that keeps most of its target's layers: which of them, and what each learns to do without the others.

Layers are left out one after another, each time the one whose absence changes the target's best token at the fewest
places; so a third of a deep model goes before half of its tokens change, and what is lost comes back with a correction
of low rank for every weight (`engine/model/drafts/corrected`). Nothing else learns.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.drafts.corrected import DOWN, UP, Correction, put, stored
from specviz.methods.self_skip.model import silenced
from specviz.methods.self_skip.spec import SkipSet
from specviz_train.common.files import keep, kept
from specviz_train.common.own_text import OwnWindows

LOOKED_AT = (4, 160)  # windows and tokens of each by which layers are chosen
NEAR = 8  # layers that are tried every time: those that were missed least when they were tried last


def remaining(target: ModelAdapter, windows: OwnWindows, n: int, path: Path, tell: Callable[[], None]) -> list[int]:
    """The `n` of the target's layers, from 0, that are kept; found once and kept in `path`."""
    if path.exists() and (layers := kept(path).get("layers")) is not None:
        return [int(layer) for layer in layers]
    agreement = _agreement(target, windows)
    every = frozenset(range(target.n_layers))
    shares = {layer: agreement(frozenset({layer})) for layer in every}  # when it was tried last
    while len(shares) > n:
        gone = every - shares.keys()
        near = sorted(shares, key=lambda layer: (-shares[layer], -layer))[:NEAR]
        shares |= {layer: agreement(gone | {layer}) for layer in near if gone}
        del shares[max(near, key=lambda layer: (shares[layer], layer))]
        tell()
    left = sorted(shares)
    keep(path, {"layers": left})
    return left


@torch.no_grad()
def _agreement(target: ModelAdapter, windows: OwnWindows) -> Callable[[frozenset[int]], float]:
    """The share of places where the target's best token stays when some of its layers say nothing."""
    rows, length = LOOKED_AT
    ids, written = (array[:, :length].to(target.device) for array in windows.at(slice(0, rows)))

    @torch.no_grad()
    def best(gone: frozenset[int]) -> Tensor:
        layers = frozenset(layer + 1 for layer in gone)
        with silenced(target, SkipSet(layers, layers)):
            states = target.model.model(input_ids=ids, use_cache=False).last_hidden_state
        return torch.cat([target.head(some).argmax(-1) for some in states[:, :-1][written[:, 1:]].split(256)])

    whole = best(frozenset())
    return lambda gone: float((best(gone) == whole).float().mean())


def correct(draft: Any, rank: int, seed: int) -> dict[str, Correction]:
    """Put a correction that says nothing yet beside every linear layer between the ends; by name."""
    rng, corrections = torch.Generator().manual_seed(seed), {}
    for name, module in draft.model.named_modules(prefix="model"):
        if isinstance(module, nn.Linear):
            (n_out, n_in), device = module.weight.shape, module.weight.device
            down = (torch.randn(rank, n_in, generator=rng) * n_in**-0.5).to(device)
            corrections[name] = Correction(down, torch.zeros(n_out, rank, device=device))
    put(draft, corrections)
    return corrections


def begun(draft: Any, where: Path) -> dict[str, Correction]:
    """Put what a folder's corrections have learnt beside the same layers, to learn on; by name, in float32.

    Raises ModelError for corrections that do not fit.
    """
    corrections = {name: correction.float() for name, correction in stored("--begin", where, draft).items()}
    put(draft, corrections)
    return corrections


def learnt(corrections: dict[str, Correction]) -> nn.Module:
    """All corrections as one module."""
    return nn.ModuleDict({name.replace(".", "/"): correction for name, correction in corrections.items()})


def weights(corrections: dict[str, Correction]) -> dict[str, Tensor]:
    """What a folder holds of them, in bfloat16."""
    tensors = {}
    for name, correction in corrections.items():
        tensors[f"{name}.{DOWN}"] = correction.down.detach().bfloat16().cpu().contiguous()
        tensors[f"{name}.{UP}"] = correction.up.detach().bfloat16().cpu().contiguous()
    return tensors
