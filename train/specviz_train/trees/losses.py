"""What a drafter of trees is taught at each place ahead, and how it did: blocks, levels of EAGLE-3, heads of Medusa.

Place i of EAGLE-3 and Medusa speaks of the token i + 1 further on, and later places weigh less. Levels are unrolled on
the drafter's own outputs, as drafting will: level s of every pair reads the token s further on and
the output of level s - 1. No place is masked for an earlier one's mistake: that is the block drafter's alone. All its
blocks come from one packed forward, with anchors and cuts drawn by the step's number; at first its
block 1 learns alone, because what later blocks inherit is noise until then.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specviz.engine.model.adapter import ModelAdapter
from specviz.methods.medusa.drafter import Trained as MedusaTrained
from specviz.methods.specblock.losses import (
    DraftLoss,
    LossConfig,
    Losses,
    SlotCounts,
    TargetRows,
    block_losses,
    draft_losses,
)
from specviz.methods.specblock.network import Trained as BlockTrained
from specviz.methods.specblock.network import packed
from specviz.methods.trained.parts import Trained
from specviz.methods.trained.ranks import ranks
from specviz_train.common.own_text import OwnWindows
from specviz_train.common.training_text import Ids
from specviz_train.trees.objective import DrafterBatches, PartResult, TargetOutputs, read_target

Shares = tuple[tuple[float, ...], ...]


@dataclass(slots=True)
class PlaceResult:
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


def behind_right(places: Iterable[PlaceResult]) -> Iterator[tuple[PlaceResult, Tensor]]:
    """Each place, and where it counts `[W, A]` and all places before it were right."""
    alive: Tensor | bool = True
    for place in places:
        yield place, place.counted & alive
        alive = alive & (place.right | ~place.counted)


Places = Callable[[TargetOutputs], Sequence[PlaceResult]]


def placed(truth: TargetRows, at: Tensor, head_logits: Callable[[Tensor], Tensor], kind: DraftLoss) -> PlaceResult:
    """`at` `[W, A]`: rows of the truth asked for; `head_logits` gives logits `[n, V_d]` of a mask over them."""
    window = torch.arange(len(at), device=at.device)[:, None].expand_as(at)
    inside = at < truth.length
    at = at.clamp(max=truth.length - 1)
    counted = inside & truth.allowed[window, at]
    logits = head_logits(counted)
    where = (window[counted], at[counted])
    loss = draft_losses(logits, truth.probs[where], kind).sum() / counted.sum().clamp(min=1)
    rank = torch.zeros_like(at)
    rank[counted] = ranks(logits.detach(), truth.best[where])
    return PlaceResult(loss, rank, counted)


def levels_of(
    trained: Trained[Any, Any],
    embed: Callable[[Tensor], Tensor],
    seen: TargetOutputs,
    steps: int,
    kind: DraftLoss = "full",
) -> list[PlaceResult]:
    """All levels at all pairs of what was seen."""
    network, n_pairs = trained.network, seen.features.shape[1]
    anchors = torch.arange(n_pairs, device=seen.tokens.device).expand(len(seen.tokens), -1)
    levels = packed(network, embed, seen.features, seen.tokens, anchors, (1,) * (steps - 1))

    def spoken(states: Tensor) -> Callable[[Tensor], Tensor]:
        return lambda mask: network.head_logits(states[:, :, 0][mask])

    return [placed(seen.truth, anchors + 1 + step, spoken(states), kind) for step, states in enumerate(levels)]


N_RANKS = 10


def heads_of(trained: MedusaTrained, seen: TargetOutputs, kind: DraftLoss = "full") -> list[PlaceResult]:
    """All heads over what was seen. One head at a time: the logits of all would be large."""
    network = trained.network
    states = seen.features.to(network.inner.dtype)
    at = torch.arange(states.shape[1], device=states.device).expand(states.shape[:2]) + 1

    def spoken(head: int) -> Callable[[Tensor], Tensor]:
        return lambda mask: network.one(head, states[mask])

    return [placed(seen.truth, at + head, spoken(head), kind) for head in range(network.n)]


@dataclass(frozen=True, slots=True)
class PlacesLoss:
    """The loss of a part of a step, over all places ahead: that of place i weighs decay^i."""

    batches: DrafterBatches
    places: Places
    decay: float

    def __call__(self, step: int, part: int = 0, progress: float = 0.0) -> PartResult:
        seen = self.batches.seen(step, part)
        places, none = self.places(seen), torch.zeros((), device=seen.tokens.device)
        loss = sum((self.decay**i * place.loss for i, place in enumerate(places)), none)
        right = places[0].share_right, places[-1].share_right
        return PartResult(loss, float(places[0].loss.detach()), right, seen.n_pairs)


@torch.no_grad()
def right_by_level(adapter: ModelAdapter, trained: Trained[Any, Any], windows: OwnWindows) -> list[float]:
    """By level: how often its best token is the target's where all levels before were right."""
    n = trained.config.trained_steps
    right, total = torch.zeros(n), torch.zeros(n)
    for part in windows.split(4):
        seen = read_target(adapter.model, trained, trained.config.taps, *part)
        for level, (place, reached) in enumerate(behind_right(levels_of(trained, adapter.embedding, seen, n))):
            right[level] += (place.right & reached).sum()
            total[level] += reached.sum()
    return [round(share, 4) for share in (right / total.clamp(min=1)).tolist()]


def eagle_loss(
    batches: DrafterBatches, embed: Callable[[Tensor], Tensor], decay: float = 0.8, kind: DraftLoss = "full"
) -> PlacesLoss:
    """Of all levels that are unrolled in training."""
    trained = batches.trained
    return PlacesLoss(batches, lambda seen: levels_of(trained, embed, seen, trained.config.trained_steps, kind), decay)


def medusa_loss(batches: DrafterBatches, decay: float = 0.8, kind: DraftLoss = "full") -> PlacesLoss:
    """Of all heads."""
    return PlacesLoss(batches, lambda seen: heads_of(batches.trained, seen, kind), decay)


@torch.no_grad()
def counted_ranks(adapter: ModelAdapter, trained: Any, windows: OwnWindows, places: Places) -> Shares:
    """Where the target's tokens stood in a drafter's ranks, place by place, over `windows`."""
    parts = [places(read_target(adapter.model, trained, trained.config.taps, *some)) for some in windows.split(4)]
    return shares(parts, len(parts[0]), min(N_RANKS, trained.vocabulary.n_draft))


def shares(parts: Iterable[Sequence[PlaceResult]], depths: int, n: int) -> Shares:
    """`right[d][r]`, the share of rank r + 1 at depth d + 1 among places whose earlier ranks were all at most n."""
    hits, total = torch.zeros(depths, n), torch.zeros(depths, 1)
    for places in parts:
        alive = torch.ones_like(places[0].counted)
        for depth, place in enumerate(places):
            reached = place.rank[alive & place.counted]
            total[depth] += len(reached)
            hits[depth] += torch.bincount(reached.clamp(max=n + 1), minlength=n + 2)[1 : n + 1].cpu()
            alive = alive & (~place.counted | (place.rank <= n))
    rows = (hits / total.clamp(min=1)).tolist()
    return tuple(tuple(round(value, 6) for value in row) for row in rows)


ANCHORS = 32  # of a window, at which blocks 2 and later run
AT_MOST = 0.5  # of the budget that block 1 has for itself, however short that is


def losses_of(
    trained: BlockTrained,
    embed: Callable[[Tensor], Tensor],
    seen: TargetOutputs,
    anchors: Tensor,
    cuts: tuple[int, ...],
    how: LossConfig,
) -> list[Losses]:
    """Of block 1 at every pair, and of one further block at `anchors` `[W, A]` for every cut."""
    network, n_pairs = trained.network, seen.features.shape[1]
    every = torch.arange(n_pairs, device=anchors.device).expand(len(anchors), -1)
    blocks = packed(network, embed, seen.features, seen.tokens, anchors, cuts)
    losses = []
    for number, states in enumerate(blocks):
        first = (every if number == 0 else anchors) + 1 + sum(cuts[:number])
        losses.append(block_losses(network, seen.truth, states, first, how))
    return losses


@dataclass(frozen=True, slots=True)
class BlockLoss:
    """Everything a step depends on besides its number and the weights. `alone`: steps that block 1 has for itself."""

    batches: DrafterBatches
    embed: Callable[[Tensor], Tensor]
    how: LossConfig
    alone: int = 0

    def __call__(self, step: int, part: int = 0, progress: float = 0.0) -> PartResult:
        """The loss of a part of a step."""
        seen, trained = self.batches.seen(step, part), self.batches.trained
        anchors, cuts = self._places(seen, self.batches.key(step, part, 2))
        alone = step < self.alone and progress < AT_MOST
        how = replace(self.how, floor=1.0) if alone else self.how
        losses = losses_of(trained, self.embed, seen, anchors, () if alone else cuts, how)
        loss = sum((block.draft + block.rank for block in losses), torch.zeros((), device=seen.tokens.device))
        tally = SlotCounts.empty(trained.network.slots)
        for block in losses:
            tally.add(block.tally)
        right = (tally.right / tally.total.clamp(min=1)).tolist()
        return PartResult(loss, float(losses[0].first), (right[0], right[-1]), seen.n_pairs)

    def _places(self, seen: TargetOutputs, key: tuple[int, int, int]) -> tuple[Tensor, tuple[int, ...]]:
        """Anchors `[W, A]` whose blocks have something to predict, and one cut for every further block."""
        rng, trained = np.random.default_rng(key), self.batches.trained
        n_cuts = trained.config.trained_blocks - 1
        cuts = tuple(int(cut) for cut in rng.integers(1, trained.network.slots + 1, size=n_cuts))
        last = max(1, seen.features.shape[1] - 1 - sum(cuts))
        spoken = seen.truth.allowed[:, 1 + sum(cuts) :][:, :last].cpu().numpy()
        most = max(1, min(ANCHORS, int(spoken.sum(1).max())))
        picked = np.stack([_some(rng, own.nonzero()[0], last, most) for own in spoken])
        return torch.from_numpy(np.sort(picked, 1)).to(seen.tokens.device), cuts


def _some(rng: np.random.Generator, places: Ids, last: int, n: int) -> Ids:
    """`n` of `places` in any order, some twice where there are fewer; of all below `last` where there are none."""
    order = rng.permutation(places if len(places) else np.arange(last))
    return np.resize(order, n)
