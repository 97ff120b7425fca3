"""Training an EAGLE-3 drafter: several levels unrolled on its own outputs, as drafting will (specblock.md 10).

Level s of every pair reads the token s further on (teacher-forced) and the output of level s - 1; it sees level 0 of
the pairs up to its own and its own levels between. Losses are weighted .8^s; no position is masked for an earlier
mistake. The packed forward is the block drafter's with one slot and every cut at one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.drafters.blocks.packed import packed
from specviz.drafters.blocks.rank import ranks
from specviz.drafters.eagle.files import Trained
from specviz.train.block_text import Windows
from specviz.train.drafter_loop import WINDOWS, Seen, Step, look

DECAY = 0.8


@dataclass(slots=True)
class Level:
    """One unrolled level: its loss, and the rank of the target's best token `[W, A]`, 0 where nothing counts."""

    loss: Tensor
    rank: Tensor
    counted: Tensor

    @property
    def right(self) -> Tensor:
        """Where its best token was the target's."""
        return self.rank == 1


def levels_of(
    trained: Trained, embed: Callable[[Tensor], Tensor], seen: Seen, steps: int
) -> list[Level]:  # fmt: skip
    """All levels at all pairs of what was seen."""
    network, tokens, features, truth = trained.network, seen.tokens, seen.features, seen.truth
    n_pairs = features.shape[1]
    anchors = torch.arange(n_pairs, device=tokens.device).expand(len(tokens), -1)
    window = torch.arange(len(tokens), device=tokens.device)[:, None].expand_as(anchors)
    made = []
    for step, states in enumerate(packed(network, embed, features, tokens, anchors, (1,) * (steps - 1))):
        at = anchors + 1 + step
        inside = at < truth.length
        at = at.clamp(max=truth.length - 1)
        counted = inside & truth.allowed[window, at]
        logits = network.speak(states[:, :, 0][counted])
        where = (window[counted], at[counted])
        loss = F.cross_entropy(logits, truth.probs[where], reduction="sum") / counted.sum().clamp(min=1)
        rank = torch.zeros_like(at)
        rank[counted] = ranks(logits.detach(), truth.best[where])
        made.append(Level(loss, rank, counted))
    return made


@dataclass(frozen=True, slots=True)
class EagleSteps:
    """Everything a step depends on besides its number and the weights."""

    model: Any
    embed: Callable[[Tensor], Tensor]
    trained: Trained
    windows: Windows
    seed: int

    def __call__(self, step: int) -> Step:
        """The loss of step number `step`."""
        config = self.trained.config
        drawn = self.windows.draw(WINDOWS, (self.seed, step, 1))
        seen = look(self.model, self.trained, config.taps, drawn, self.windows.answer_from)
        told = levels_of(self.trained, self.embed, seen, config.trained_steps)
        loss = sum((DECAY**s * level.loss for s, level in enumerate(told)), torch.zeros((), device=seen.tokens.device))
        first, last = (float(level.right.sum() / level.counted.sum().clamp(min=1)) for level in (told[0], told[-1]))
        pairs = seen.features.shape[0] * seen.features.shape[1]
        return Step(loss, float(told[0].loss.detach()), (first, last), pairs)
