"""What one place ahead is taught and how it did: a level of EAGLE-3, a head of Medusa.

Place i of a drafter speaks of the token i + 1 further on, and later places weigh less. No place is masked for an
earlier one's mistake: that is the block drafter's.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specviz.methods.specblock.losses import DraftLoss, Truth, draft_losses
from specviz.methods.trained.ranks import ranks
from specviz.train.trees.loop import Seen, Step


@dataclass(slots=True)
class Placed:
    """One place: its loss, and the rank of the target's best token `[W, A]`, 0 where nothing counts."""

    loss: Tensor
    rank: Tensor
    counted: Tensor

    @property
    def right(self) -> Tensor:
        """Where its best token was the target's."""
        return self.rank == 1

    @property
    def share_right(self) -> float:
        """Of those that count."""
        return float(self.right.sum() / self.counted.sum().clamp(min=1))


def placed(truth: Truth, at: Tensor, speak: Callable[[Tensor], Tensor], kind: DraftLoss) -> Placed:
    """`at` `[W, A]`: the rows of the truth that are spoken of; `speak` gives logits `[n, V_d]` of a mask over them."""
    window = torch.arange(len(at), device=at.device)[:, None].expand_as(at)
    inside = at < truth.length
    at = at.clamp(max=truth.length - 1)
    counted = inside & truth.allowed[window, at]
    logits = speak(counted)
    where = (window[counted], at[counted])
    loss = draft_losses(logits, truth.probs[where], kind).sum() / counted.sum().clamp(min=1)
    rank = torch.zeros_like(at)
    rank[counted] = ranks(logits.detach(), truth.best[where])
    return Placed(loss, rank, counted)


def stepped(told: Sequence[Placed], decay: float, seen: Seen) -> Step:
    """A step's loss: that of place i weighs decay^i."""
    loss = sum((decay**i * each.loss for i, each in enumerate(told)), torch.zeros((), device=seen.tokens.device))
    return Step(loss, float(told[0].loss.detach()), (told[0].share_right, told[-1].share_right), seen.n_pairs)
