"""Training an EAGLE-3 drafter: several levels unrolled on its own outputs, as drafting will (specblock.md 10).

Level s of every pair reads the token s further on (teacher-forced) and the output of level s - 1; it sees level 0 of
the pairs up to its own and its own levels between. The packed forward is the block drafter's with one slot and every
cut at one.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from specviz.methods.eagle3.files import Trained
from specviz.methods.specblock.losses import DraftLoss
from specviz.methods.specblock.packed import packed
from specviz.train.trees.loop import Lesson, Seen, Step
from specviz.train.trees.objectives import Placed, placed, stepped


def levels_of(
    trained: Trained, embed: Callable[[Tensor], Tensor], seen: Seen, steps: int, kind: DraftLoss = "full"
) -> list[Placed]:
    """All levels at all pairs of what was seen."""
    network, n_pairs = trained.network, seen.features.shape[1]
    anchors = torch.arange(n_pairs, device=seen.tokens.device).expand(len(seen.tokens), -1)
    made = packed(network, embed, seen.features, seen.tokens, anchors, (1,) * (steps - 1))

    def spoken(states: Tensor) -> Callable[[Tensor], Tensor]:
        return lambda mask: network.speak(states[:, :, 0][mask])

    return [placed(seen.truth, anchors + 1 + step, spoken(states), kind) for step, states in enumerate(made)]


@dataclass(frozen=True, slots=True)
class EagleSteps:
    """Everything a step depends on besides its number and the weights."""

    lesson: Lesson
    embed: Callable[[Tensor], Tensor]
    decay: float = 0.8
    draft_loss: DraftLoss = "full"

    def __call__(self, step: int, part: int = 0, progress: float = 0.0) -> Step:
        """The loss of a part of a step."""
        seen, trained = self.lesson.seen(step, part), self.lesson.trained
        told = levels_of(trained, self.embed, seen, trained.config.trained_steps, self.draft_loss)
        return stepped(told, self.decay, seen)
