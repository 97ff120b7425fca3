"""What a block drafter knows, slot by slot, on text the target writes after held-out beginnings.

One packed pass over windows: how often each slot is right behind a right prefix, and how well ranks are foreseen.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from specviz.engine.model.adapter import ModelAdapter
from specviz.methods.specblock.files import Trained
from specviz.methods.specblock.losses import How, Tally
from specviz.methods.trained.ranks import N_BUCKETS
from specviz.train.trees.block_loop import losses_of
from specviz.train.trees.loop import look

_ROWS = 4


@dataclass(frozen=True, slots=True)
class Slots:
    """By block: how often each slot was right behind a right prefix; and buckets `[true][predicted]` of all."""

    accuracy: list[list[float]]
    confusion: list[list[int]]

    @property
    def recall(self) -> list[float | None]:
        """Share of each true bucket that was predicted."""
        rows = [(row[b], sum(row)) for b, row in enumerate(self.confusion)]
        return [hit / n if n else None for hit, n in rows]

    @property
    def precision(self) -> list[float | None]:
        """Share of each predicted bucket that was true."""
        sums = [sum(row[b] for row in self.confusion) for b in range(N_BUCKETS)]
        return [self.confusion[b][b] / n if n else None for b, n in enumerate(sums)]


@torch.no_grad()
def slots(adapter: ModelAdapter, trained: Trained, windows: Tensor, answer_from: int) -> Slots:
    """Over `windows` `[n, T]`: block 1 at every pair, later blocks behind cuts in the middle of the one before."""
    n_slots = trained.network.shape.slots
    cuts = (max(1, n_slots // 2),) * (trained.config.trained_blocks - 1)
    tallies = [Tally.empty(n_slots) for _ in range(len(cuts) + 1)]
    for part in torch.split(windows, _ROWS):
        seen = look(adapter.model, trained, trained.config.taps, part, answer_from)
        last = seen.features.shape[1] - 1 - sum(cuts)
        anchors = torch.arange(max(0, answer_from - 2), last, 4, device=seen.tokens.device).expand(len(part), -1)
        told = losses_of(trained, adapter.embedding, seen, anchors, cuts, How())
        for tally, each in zip(tallies, told, strict=True):
            tally.add(each.tally)
    accuracy = [(tally.right / tally.total.clamp(min=1)).tolist() for tally in tallies]
    whole = torch.stack([tally.confusion for tally in tallies]).sum(0)
    return Slots(accuracy, whole.long().tolist())
