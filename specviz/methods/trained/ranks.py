"""The rank head: in which bucket the target's own token will stand in a slot's draft distribution (specblock.md 4).

Bucket 0: the draft's best token is right; 1: ranks 2 to 4; 2: ranks 5 to 10; 3: lower. Ranks count from 1.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from specviz.methods.trained.layers import linear

Tensor = torch.Tensor
BORDERS = (1, 4, 10)  # the last rank of buckets 0, 1, 2
N_BUCKETS = len(BORDERS) + 1
N_TOP, N_SUMMARY = 20, 15
_ABSENT = -1e4  # the logit of entries that a vocabulary under 20 lacks


def summary(logits: Tensor) -> Tensor:
    """`[.., 15]` of logits `[.., V_d]`: 10 log-probabilities among the best 20, three gaps, best share, entropy.

    Float32, float64 for float64 logits. The same normalisation in training and decoding.
    """
    wide = logits if logits.dtype == torch.float64 else logits.float()
    top = wide.topk(min(N_TOP, wide.shape[-1]), -1).values
    if top.shape[-1] < N_TOP:
        top = nn.functional.pad(top, (0, N_TOP - top.shape[-1]), value=_ABSENT)
    logs = top.log_softmax(-1)
    gaps = top[..., :1] - top[..., [1, 2, 4]]
    entropy = -(logs.exp() * logs).sum(-1, keepdim=True)
    return torch.cat([logs[..., :10], gaps, logs[..., :1].exp(), entropy], -1)


class RankHead(nn.Module):
    """`[n_in] -> width -> SiLU -> 4`, no biases."""

    def __init__(self, n_in: int, width: int) -> None:
        super().__init__()
        self.down, self.up = linear(n_in, width), linear(width, N_BUCKETS)

    def forward(self, read: Tensor) -> Tensor:
        """Logits of the buckets `[.., 4]` from `[.., n_in]`."""
        out: Tensor = self.up(nn.functional.silu(self.down(read)))
        return out


def ranks(logits: Tensor, tokens: Tensor) -> Tensor:
    """The 1-based rank `[..]` of `tokens` `[..]` in logits `[.., V_d]`; equals share the better rank."""
    own = logits.gather(-1, tokens[..., None])
    return 1 + (logits > own).sum(-1)


def buckets(rank: Tensor) -> Tensor:
    return torch.bucketize(rank, torch.tensor(BORDERS, device=rank.device))


def bucket(rank: int) -> int:
    return sum(rank > border for border in BORDERS)


@dataclass(frozen=True, slots=True)
class Offer:
    """What one slot says: its best tokens with full-vocabulary log-probabilities, and the rank head's verdict."""

    tokens: tuple[int, ...]  # at most 20, best first
    logs: tuple[float, ...]
    bucket: int
    rank_probs: tuple[float, ...] = ()
    summary: tuple[float, ...] = ()
    entropy: float | None = None
    true_bucket: int | None = None  # the target was asked beforehand: widths go by it
    logits: Any = None  # [V_d], where siblings are drawn
