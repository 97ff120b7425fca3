"""A training step of Medusa heads, and what the fixed tree is made from.

Head j at state i speaks of token i + j + 2, so it learns the target's law of that place along the text; losses are
weighted .8^j. Ranks are counted on held-out greedy text, each behind earlier tokens that were among the ranks counted.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.drafters.blocks.rank import ranks
from specviz.drafters.medusa.files import Trained
from specviz.engine.model import ModelAdapter
from specviz.train.block_text import Windows
from specviz.train.drafter_loop import WINDOWS, Seen, Step, look
from specviz.train.rank_shares import Shares, shares

DECAY = 0.8
N_RANKS = 10


@dataclass(slots=True)
class Head:
    """What one head said at the places that count: loss, and rank of the target's best token, `[W, S]`, 0 elsewhere."""

    loss: Tensor
    rank: Tensor
    counted: Tensor


def heads_of(trained: Trained, seen: Seen) -> list[Head]:
    """All heads over what was seen. One head at a time: the logits of all would be large."""
    network, truth = trained.network, seen.truth
    states = seen.features.to(network.inner.dtype)
    window = torch.arange(len(states), device=states.device)[:, None].expand(states.shape[:2])
    made = []
    for head in range(network.n):
        at = torch.arange(states.shape[1], device=states.device).expand(states.shape[:2]) + 1 + head
        inside = at < truth.length
        at = at.clamp(max=truth.length - 1)
        counted = inside & truth.allowed[window, at]
        logits = network.one(head, states[counted])
        where = (window[counted], at[counted])
        loss = F.cross_entropy(logits, truth.probs[where], reduction="sum") / counted.sum().clamp(min=1)
        rank = torch.zeros_like(at)
        rank[counted] = ranks(logits.detach(), truth.best[where])
        made.append(Head(loss, rank, counted))
    return made


@dataclass(frozen=True, slots=True)
class MedusaSteps:
    """Everything a step depends on besides its number and the weights."""

    model: Any
    trained: Trained
    windows: Windows
    seed: int

    def __call__(self, step: int) -> Step:
        """The loss of step number `step`."""
        drawn = self.windows.draw(WINDOWS, (self.seed, step, 1))
        taps = (self.trained.config.target_layers,)
        seen = look(self.model, self.trained, taps, drawn, self.windows.answer_from)
        told = heads_of(self.trained, seen)
        loss = sum((DECAY**j * head.loss for j, head in enumerate(told)), torch.zeros((), device=seen.tokens.device))
        first, last = (float((head.rank == 1).sum() / head.counted.sum().clamp(min=1)) for head in (told[0], told[-1]))
        pairs = seen.features.shape[0] * seen.features.shape[1]
        return Step(loss, float(told[0].loss.detach()), (first, last), pairs)


@torch.no_grad()
def counted_ranks(adapter: ModelAdapter, trained: Trained, windows: Tensor, answer_from: int) -> Shares:
    """The shares of ranks in every head, on `windows` the target wrote greedily."""
    taps = (trained.config.target_layers,)
    parts = (heads_of(trained, look(adapter.model, trained, taps, w, answer_from)) for w in torch.split(windows, 4))
    return shares(parts, trained.network.n, min(N_RANKS, trained.vocabulary.n_draft))
