"""A training step of a block network: all blocks of some windows from one packed forward (specblock.md 7).

The target runs along, frozen. Anchors of later blocks and the cuts between blocks are drawn by the step's number.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specviz.drafters.blocks.files import Trained
from specviz.drafters.blocks.losses import How, Losses, Tally, block_losses
from specviz.drafters.blocks.packed import packed
from specviz.train.block_text import Windows
from specviz.train.drafter_loop import WINDOWS, Seen, Step, look

ANCHORS = 32  # of a window, at which blocks 2 and later run


def losses_of(
    trained: Trained, embed: Callable[[Tensor], Tensor], seen: Seen, anchors: Tensor, cuts: tuple[int, ...], how: How
) -> list[Losses]:
    """Of block 1 at every pair, and of one further block at `anchors` `[W, A]` for every cut."""
    network, n_pairs = trained.network, seen.features.shape[1]
    every = torch.arange(n_pairs, device=anchors.device).expand(len(anchors), -1)
    made = packed(network, embed, seen.features, seen.tokens, anchors, cuts)
    told = []
    for number, states in enumerate(made):
        first = (every if number == 0 else anchors) + 1 + sum(cuts[:number])
        told.append(block_losses(network, seen.truth, states, first, how))
    return told


@dataclass(frozen=True, slots=True)
class BlockSteps:
    """Everything a step depends on besides its number and the weights."""

    model: Any
    embed: Callable[[Tensor], Tensor]
    trained: Trained
    windows: Windows
    how: How
    seed: int

    def __call__(self, step: int) -> Step:
        """The loss of step number `step`."""
        drawn = self.windows.draw(WINDOWS, (self.seed, step, 1))
        seen = look(self.model, self.trained, self.trained.config.taps, drawn, self.windows.answer_from)
        anchors, cuts = self._places(seen, step)
        told = losses_of(self.trained, self.embed, seen, anchors, cuts, self.how)
        loss = sum((each.draft + each.rank for each in told), torch.zeros((), device=seen.tokens.device))
        tally = Tally.empty(self.trained.network.slots)
        for each in told:
            tally.add(each.tally)
        right = (tally.right / tally.total.clamp(min=1)).tolist()
        pairs = seen.features.shape[0] * seen.features.shape[1]
        return Step(loss, float(told[0].first), (right[0], right[-1]), pairs)

    def _places(self, seen: Seen, step: int) -> tuple[Tensor, tuple[int, ...]]:
        """Anchors `[W, A]` whose blocks have something to predict, and one cut for every further block."""
        rng = np.random.default_rng((self.seed, step, 2))
        n_cuts = self.trained.config.trained_blocks - 1
        cuts = tuple(int(cut) for cut in rng.integers(1, self.trained.network.slots + 1, size=n_cuts))
        first, last = max(0, self.windows.answer_from - 2 - sum(cuts)), seen.features.shape[1] - 1 - sum(cuts)
        picked = np.stack([rng.permutation(np.arange(first, max(last, first + 1)))[:ANCHORS] for _ in seen.tokens])
        return torch.from_numpy(np.sort(picked, 1)).to(seen.tokens.device), cuts
