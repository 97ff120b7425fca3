"""What turns the state after an intermediate layer into logits: one small module a layer (specbound.md 8.1).

Every kind begins as the logit lens, the model's own final norm and head read too early, and learns what that lacks:

* `gain`: an own norm gain; the shared head does the rest. Almost no parameters.
* `lowrank`: gain and a low-rank update of the state in front of the shared head. The default.
* `square`: a full d x d map in front of the shared head (AdaDecode's form).
* `full`: an own head [V, d]. Dear to store.
* `factored`: an own head [V, r] [r, d], begun at the shared head's best approximation. Few weights to read per test.
* `tuned`: an affine correction in front of the norm, as published tuned lenses have it.

A shortlist cuts any of them to the K most frequent tokens: cheaper, and too sure of itself, as the rest has no mass.
Heads see one position at a time. Exactness never depends on them; a head that knows nothing costs time only.
"""

from typing import Any, Literal, get_args

import torch
from torch import nn

from specviz.engine.model.adapter import ModelAdapter

Tensor = torch.Tensor
Kind = Literal["gain", "lowrank", "square", "full", "factored", "tuned"]
KINDS: tuple[str, ...] = get_args(Kind)
OWN_ROWS = ("full", "factored")  # kinds with a matrix of their own at the end


class FinalHead:
    """The model's final norm and head, for states of any layer; rows of the head cut to a shortlist `[K]` if given."""

    def __init__(self, adapter: ModelAdapter, ids: Tensor | None = None) -> None:
        self.norm, self.softcap, self.vocab, self.ids = adapter.norm, adapter.softcap, adapter.vocab, ids
        weight, bias = adapter.head.weight, getattr(adapter.head, "bias", None)
        rows = slice(adapter.vocab) if ids is None else ids
        self.weight: Tensor = weight[rows].detach()  # [V or K, width]; a view unless there is a shortlist
        self.bias: Tensor | None = None if bias is None else bias[rows].detach()

    def scores(self, states: Tensor, weight: Tensor | None = None) -> Tensor:
        """`[n, V or K]` of states `[n, width]` behind the norm, by the shared matrix or one of the head's own."""
        matrix = self.weight if weight is None else weight
        bias = None if self.bias is None else self.bias.to(matrix.dtype)
        out = nn.functional.linear(states.to(matrix.dtype), matrix, bias)
        return out if self.softcap is None else torch.tanh(out / self.softcap) * self.softcap

    def spread(self, scores: Tensor) -> Tensor:
        """`[n, V]`: tokens off the shortlist at minus infinity."""
        if self.ids is None:
            return scores
        return scores.new_full((len(scores), self.vocab), float("-inf")).index_copy_(1, self.ids, scores)


class ExitHead(nn.Module):
    """The head of one layer. `final` is handed in, so that a model's own weights are stored once."""

    def __init__(self, kind: Kind, final: FinalHead, rank: int = 0, like: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.kind = kind
        width = final.weight.shape[1]
        make: dict[str, Any] = {"dtype": like, "device": final.weight.device}
        if kind != "tuned":
            self.gain = nn.Parameter(torch.ones(width, **make))
        if kind == "lowrank":
            # One side begins at zero, the other must not: fixed cosines are spread well and need no random generator.
            grid = torch.outer(torch.arange(rank, **make) + 1, torch.arange(width, **make) + 0.5)
            self.down = nn.Parameter(torch.cos(grid * torch.pi / width) * (2 / width) ** 0.5)
            self.up = nn.Parameter(torch.zeros(width, rank, **make))
        elif kind == "square":
            self.map = nn.Parameter(torch.eye(width, **make))
        elif kind == "tuned":
            self.weight = nn.Parameter(torch.zeros(width, width, **make))
            self.bias = nn.Parameter(torch.zeros(width, **make))
        elif kind == "full":
            self.own = nn.Parameter(final.weight.to(like).clone())
        elif kind == "factored":
            self._factor(final.weight.to(like), rank)

    def _factor(self, shared: Tensor, rank: int) -> None:
        left, values, right = torch.linalg.svd(shared.double(), full_matrices=False)
        root = values[:rank].sqrt()
        self.up = nn.Parameter((left[:, :rank] * root).to(shared.dtype))
        self.down = nn.Parameter((root[:, None] * right[:rank]).to(shared.dtype))

    def forward(self, hidden: Tensor, final: FinalHead) -> Tensor:
        """Scores `[n, V or K]` of hidden states `[n, width]`."""
        if self.kind == "tuned":
            return final.scores(final.norm(hidden + nn.functional.linear(hidden, self.weight, self.bias)))
        states = final.norm(hidden).to(self.gain.dtype) * self.gain
        if self.kind == "lowrank":
            states = states + states @ self.down.T @ self.up.T
        elif self.kind == "square":
            states = states @ self.map.T
        elif self.kind == "full":
            return final.scores(states, self.own)
        elif self.kind == "factored":
            return final.scores(states @ self.down.T, self.up)
        return final.scores(states)

    @property
    def n_params(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())


def weights_read(kind: str, final: FinalHead, n_own: int) -> int:
    """Weights that one test reads: the head's own, and the shared matrix unless it has one itself."""
    return n_own + (0 if kind in OWN_ROWS else final.weight.numel())
