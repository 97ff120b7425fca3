"""A training step of Medusa heads, and what the fixed tree is made from.

Head j at state i speaks of token i + j + 2, so it learns the target's law of that place along the text. Ranks are
counted on held-out greedy text, each behind earlier tokens that were among the ranks counted.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from specviz.engine.model.adapter import ModelAdapter
from specviz.methods.medusa.files import Trained
from specviz.methods.specblock.losses import DraftLoss
from specviz.train.trees.loop import Lesson, Seen, Step, look
from specviz.train.trees.objectives import Placed, placed, stepped
from specviz.train.trees.rank_shares import Shares, shares

N_RANKS = 10


def heads_of(trained: Trained, seen: Seen, kind: DraftLoss = "full") -> list[Placed]:
    """All heads over what was seen. One head at a time: the logits of all would be large."""
    network = trained.network
    states = seen.features.to(network.inner.dtype)
    at = torch.arange(states.shape[1], device=states.device).expand(states.shape[:2]) + 1

    def spoken(head: int) -> Callable[[Tensor], Tensor]:
        return lambda mask: network.one(head, states[mask])

    return [placed(seen.truth, at + head, spoken(head), kind) for head in range(network.n)]


@dataclass(frozen=True, slots=True)
class MedusaSteps:
    """Everything a step depends on besides its number and the weights."""

    lesson: Lesson
    decay: float = 0.8
    draft_loss: DraftLoss = "full"

    def __call__(self, step: int, part: int = 0, progress: float = 0.0) -> Step:
        """The loss of a part of a step."""
        seen = self.lesson.seen(step, part)
        return stepped(heads_of(self.lesson.trained, seen, self.draft_loss), self.decay, seen)


@torch.no_grad()
def counted_ranks(adapter: ModelAdapter, trained: Trained, windows: Tensor, answer_from: int) -> Shares:
    """The shares of ranks in every head, on `windows` the target wrote greedily."""
    taps = (trained.config.target_layers,)
    parts = (heads_of(trained, look(adapter.model, trained, taps, w, answer_from)) for w in torch.split(windows, 4))
    return shares(parts, trained.network.n, min(N_RANKS, trained.vocabulary.n_draft))
