"""A head in four bits whose best tokens are scored again with the target's own weights.

A head is the widest product of a small model, and the one that four bits hurt most: they decide among all tokens. Eight
bits take three times as long here, on a row at a time. So all tokens are scored in four bits, and those that may matter
once more, exactly, by rows of the head that the target holds anyway. What comes out is a law like any other.
"""

import torch
from torch import nn

from specviz.engine.model.few_bits.weight_only import DTYPE, Int4Linear

Tensor = torch.Tensor

SHARP = 64  # tokens that are scored again


class RescoredInt4Head(nn.Module):
    """Logits `[.., vocab]` of rows `[.., width]`: `rough` ones, the best `SHARP` of them replaced."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        super().__init__()
        self.weight, self.bias = weight, bias  # the target's own
        self.rough = Int4Linear(weight, bias)
        self.n_sharp = min(SHARP, len(weight))

    def forward(self, hidden: Tensor) -> Tensor:
        out: Tensor = self.rough(hidden)
        rows, wide = hidden.reshape(-1, hidden.shape[-1]), out.view(-1, out.shape[-1])
        ids = wide.topk(self.n_sharp, dim=1, sorted=False).indices  # [n, 64]
        again = torch.bmm(self.weight[ids].to(DTYPE), rows[:, :, None])[:, :, 0]
        if self.bias is not None:
            again = again + self.bias[ids].to(DTYPE)
        return wide.scatter(1, ids, again).view_as(out)
