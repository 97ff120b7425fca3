"""A training step of a block network: all blocks of some windows from one packed forward (specblock.md 7).

The target runs along, frozen. Anchors of later blocks and the cuts between blocks are drawn by the step's number. At
first block 1 learns alone, and its later slots as far as they are reached: what later blocks inherit is noise until
then.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from specviz.methods.specblock.files import Trained
from specviz.methods.specblock.losses import How, Losses, Tally, block_losses
from specviz.methods.specblock.packed import packed
from specviz.train.trees.loop import Lesson, Seen, Step

ANCHORS = 32  # of a window, at which blocks 2 and later run
AT_MOST = 0.5  # of the budget that block 1 has for itself, however short that is


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
    """Everything a step depends on besides its number and the weights. `alone`: steps that block 1 has for itself."""

    lesson: Lesson
    embed: Callable[[Tensor], Tensor]
    how: How
    alone: int = 0

    def __call__(self, step: int, part: int = 0, progress: float = 0.0) -> Step:
        """The loss of a part of a step."""
        seen, trained = self.lesson.seen(step, part), self.lesson.trained
        anchors, cuts = self._places(seen, self.lesson.key(step, part, 2))
        alone = step < self.alone and progress < AT_MOST
        how = replace(self.how, floor=1.0) if alone else self.how
        told = losses_of(trained, self.embed, seen, anchors, () if alone else cuts, how)
        loss = sum((each.draft + each.rank for each in told), torch.zeros((), device=seen.tokens.device))
        tally = Tally.empty(trained.network.slots)
        for each in told:
            tally.add(each.tally)
        right = (tally.right / tally.total.clamp(min=1)).tolist()
        return Step(loss, float(told[0].first), (right[0], right[-1]), seen.n_pairs)

    def _places(self, seen: Seen, key: tuple[int, int, int]) -> tuple[Tensor, tuple[int, ...]]:
        """Anchors `[W, A]` whose blocks have something to predict, and one cut for every further block."""
        rng, trained = np.random.default_rng(key), self.lesson.trained
        n_cuts = trained.config.trained_blocks - 1
        cuts = tuple(int(cut) for cut in rng.integers(1, trained.network.slots + 1, size=n_cuts))
        answer_from = self.lesson.windows.answer_from
        first, last = max(0, answer_from - 2 - sum(cuts)), seen.features.shape[1] - 1 - sum(cuts)
        picked = np.stack([rng.permutation(np.arange(first, max(last, first + 1)))[:ANCHORS] for _ in seen.tokens])
        return torch.from_numpy(np.sort(picked, 1)).to(seen.tokens.device), cuts
