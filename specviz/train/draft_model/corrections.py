"""A draft model that keeps most of its target's layers: which of them, and what each learns to do without the others.

Layers are left out one after another, each time the one whose absence changes the target's best token at the fewest
places; so a third of a deep model goes before half of its tokens change, and what is lost comes back with a correction
of low rank for every weight (`engine/model/corrected`). Nothing else learns.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.corrected import DOWN, UP
from specviz.methods.self_skip.model import silenced
from specviz.methods.self_skip.spec import SkipSet
from specviz.train.common.files import keep, kept
from specviz.train.common.target_text import OwnWindows

LOOKED_AT = (4, 160)  # windows and tokens of each by which layers are chosen
NEAR = 8  # layers that are tried every time: those that were missed least when they were tried last


def remaining(target: ModelAdapter, windows: OwnWindows, n: int, path: Path, tell: Callable[[], None]) -> list[int]:
    """The `n` of the target's layers, from 0, that are kept; found once and kept in `path`."""
    if path.exists() and (found := kept(path).get("layers")) is not None:
        return [int(layer) for layer in found]
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
    ids, written = (each[:, :length].to(target.device) for each in windows.at(slice(0, rows)))

    @torch.no_grad()
    def best(gone: frozenset[int]) -> Tensor:
        layers = frozenset(layer + 1 for layer in gone)
        with silenced(target, SkipSet(layers, layers)):
            states = target.model.model(input_ids=ids, use_cache=False).last_hidden_state
        return torch.cat([target.head(some).argmax(-1) for some in states[:, :-1][written[:, 1:]].split(256)])

    whole = best(frozenset())
    return lambda gone: float((best(gone) == whole).float().mean())


class Correction(nn.Module):
    """What is added to a product: `up down x`, nothing before the first step."""

    def __init__(self, weight: Tensor, rank: int, rng: torch.Generator) -> None:
        super().__init__()
        n_out, n_in = weight.shape
        self.down = nn.Parameter((torch.randn(rank, n_in, generator=rng) * n_in**-0.5).to(weight.device))
        self.up = nn.Parameter(torch.zeros(n_out, rank, device=weight.device))

    def forward(self, rows: Tensor) -> Tensor:
        out: Tensor = F.linear(F.linear(rows, self.down), self.up)
        return out


class CorrectedLinear(nn.Module):
    """A frozen linear layer and what is added to it."""

    def __init__(self, linear: nn.Linear, correction: Correction) -> None:
        super().__init__()
        self.linear, self.correction = linear, correction

    def forward(self, rows: Tensor) -> Tensor:
        out: Tensor = self.linear(rows) + self.correction(rows)
        return out


def correct(draft: Any, rank: int, seed: int) -> dict[str, Correction]:
    """Put a correction beside every linear layer between the ends; by name."""
    rng = torch.Generator().manual_seed(seed)
    linears = [(name, module) for name, module in draft.model.named_modules() if isinstance(module, nn.Linear)]
    made = {}
    for name, linear in linears:
        made[f"model.{name}"] = Correction(linear.weight, rank, rng)
        holder, _, last = name.rpartition(".")
        setattr(draft.model.get_submodule(holder), last, CorrectedLinear(linear, made[f"model.{name}"]))
    return made


def learnt(made: dict[str, Correction]) -> nn.Module:
    """All corrections as one module."""
    return nn.ModuleDict({name.replace(".", "/"): each for name, each in made.items()})


def weights(made: dict[str, Correction]) -> dict[str, Tensor]:
    """What a folder holds of them, in bfloat16."""
    tensors = {}
    for name, each in made.items():
        tensors[f"{name}.{DOWN}"] = each.down.detach().bfloat16().cpu().contiguous()
        tensors[f"{name}.{UP}"] = each.up.detach().bfloat16().cpu().contiguous()
    return tensors
