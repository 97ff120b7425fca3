"""Where the target's tokens stood in a drafter's ranks, depth by depth: what fixed trees are made of."""

from collections.abc import Iterable, Sequence
from typing import Protocol

import torch
from torch import Tensor

Shares = tuple[tuple[float, ...], ...]


class Placed(Protocol):
    """What was said of one depth. `rank`: of the target's best token, 0 where nothing counts; `counted`: where."""

    @property
    def rank(self) -> Tensor: ...
    @property
    def counted(self) -> Tensor: ...


def shares(parts: Iterable[Sequence[Placed]], depths: int, n: int) -> Shares:
    """`right[d][r]`, the share of rank r + 1 at depth d + 1 among places whose earlier ranks were all at most n."""
    hits, total = torch.zeros(depths, n), torch.zeros(depths, 1)
    for told in parts:
        alive = torch.ones_like(told[0].counted)
        for depth, each in enumerate(told):
            reached = each.rank[alive & each.counted]
            total[depth] += len(reached)
            hits[depth] += torch.bincount(reached.clamp(max=n + 1), minlength=n + 2)[1 : n + 1].cpu()
            alive = alive & (~each.counted | (each.rank <= n))
    rows = (hits / total.clamp(min=1)).tolist()
    return tuple(tuple(round(value, 6) for value in row) for row in rows)
