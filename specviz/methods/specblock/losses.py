"""What a block network is taught: the target's distribution at every slot it may rightly be asked about, and its rank.

A slot counts only behind slots whose best token was the target's own (the valid-prefix mask): at inference nothing
else is reached. Every slot's loss is averaged over its own survivors, so late slots keep their weight,
unless few are left (`LossConfig.floor`). The rank loss reads detached inputs and moves the rank head alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
import torch.nn.functional as F

from specviz.methods.specblock.network import BlockNetwork
from specviz.methods.trained.ranks import N_BUCKETS, buckets, ranks
from specviz.methods.trained.vocabulary import Vocabulary

Tensor = torch.Tensor
RankLoss = Literal["invsqrt", "ce", "reference"]
DraftLoss = Literal["full", "top50"]
TOP = 50
ROWS = 32  # of a draft vocabulary of 8,192: 1 MB


@dataclass(frozen=True, slots=True)
class LossConfig:
    """What ablations turn. `decay`: weight of slot k is decay^k; `draft_loss`: against how much of the target's law.

    `floor`: a share of slot 0's survivors; a later slot with fewer weighs less, since its few rows are mostly noise.
    """

    rank_loss: RankLoss = "invsqrt"
    draft_loss: DraftLoss = "full"
    decay: float = 0.8
    valid_prefix: bool = True
    floor: float = 0.25


class TargetRows:
    """What the target says along windows: distributions over the draft vocabulary, its best tokens, what counts.

    `logits` `[W, T, V]`; row t decides token t + 1. Only places `written` `[W, T]` by the target count. Where its best
    tokens `best` `[W, T]` are known, logits `[W, T, V_d]` of the draft vocabulary are enough.
    """

    def __init__(self, logits: Tensor, vocabulary: Vocabulary, written: Tensor, best: Tensor | None = None) -> None:
        self.length = logits.shape[1]
        self.probs = (vocabulary.to_draft(logits) if best is None else logits).softmax(-1)
        self.best, self.known = vocabulary.find(logits.argmax(-1) if best is None else best)
        decided = torch.cat([written[:, 1:], written[:, -1:]], 1)  # the last row decides a token behind the window
        self.allowed = self.known & decided


@dataclass(slots=True)
class SlotCounts:
    """Counts over slots that counted: right of all by slot, and buckets `[true][predicted]`."""

    right: Tensor  # [K]
    total: Tensor  # [K]
    confusion: Tensor  # [4, 4]

    @classmethod
    def empty(cls, slots: int) -> "SlotCounts":
        return cls(torch.zeros(slots), torch.zeros(slots), torch.zeros(N_BUCKETS, N_BUCKETS))

    def add(self, other: "SlotCounts") -> None:
        self.right += other.right
        self.total += other.total
        self.confusion += other.confusion


@dataclass(slots=True)
class Losses:
    """Of one block. `first`: slot 0's draft loss, which every anchor takes part in, so it can be watched.

    The sum over slots rises while late slots win their first survivors.
    """

    draft: Tensor
    rank: Tensor
    tally: SlotCounts
    first: Tensor


@dataclass(slots=True)
class _Judged:
    """Rank logits, true buckets and weights of one slot's rows."""

    logits: list[Tensor] = field(default_factory=list)
    true: list[Tensor] = field(default_factory=list)
    weight: list[Tensor] = field(default_factory=list)


def block_losses(network: BlockNetwork, truth: TargetRows, states: Tensor, first: Tensor, how: LossConfig) -> Losses:
    """Of states `[W, A, K, width]`; `first` `[W, A]`: which row of the truth slot 0 predicts.

    Slots are taken one after another and each is spoken for its survivors only: most of the work is in the head.
    """
    slots = states.shape[2]
    window = torch.arange(len(states), device=states.device)[:, None].expand_as(first).flatten()
    states, first = states.flatten(0, 1), first.flatten()
    alive = torch.ones(len(first), dtype=torch.bool, device=first.device)
    by_rank = alive.clone()  # the reference lets its rank loss follow the rank head's own mistakes
    tally, judged, draft = SlotCounts.empty(slots), _Judged(), states.new_zeros(())
    first_slot, n_first = draft, 0.0
    for slot in range(slots):
        inside = first + slot < truth.length
        rows = ((alive | by_rank) & inside).nonzero()[:, 0]
        where = (window[rows], first[rows] + slot)
        logits, rank_logits, _ = network.head_logits(states[rows, slot])
        best, allowed = truth.best[where], truth.allowed[where]
        counts = alive[rows] & allowed
        loss = draft_losses(logits, truth.probs[where], how.draft_loss)
        least = max(1.0, how.floor * n_first)
        n_first = float(counts.sum()) if slot == 0 else n_first
        mean = (loss * counts).sum() / counts.sum().clamp(min=least)
        draft = draft + how.decay**slot * mean
        first_slot = mean.detach() if slot == 0 else first_slot
        with torch.no_grad():
            right = (logits.argmax(-1) == best) & truth.known[where]
            true = buckets(ranks(logits, best))
            guess = rank_logits.argmax(-1)
            tally.right[slot] = (right & counts).sum()
            tally.total[slot] = counts.sum()
            cells = true[counts] * N_BUCKETS + guess[counts]
            tally.confusion += torch.bincount(cells, minlength=N_BUCKETS**2).view(N_BUCKETS, -1).cpu()
        judged.logits.append(rank_logits)
        judged.true.append(true)
        judged.weight.append((by_rank[rows] if how.rank_loss == "reference" else alive[rows]) & allowed)
        if how.valid_prefix:
            alive = _survivors(alive, rows, right)
        by_rank = _survivors(by_rank, rows, guess == true) if how.rank_loss == "reference" else alive
    return Losses(draft, rank_loss(how.rank_loss, judged.logits, judged.true, judged.weight), tally, first_slot)


def draft_losses(logits: Tensor, probs: Tensor, kind: DraftLoss) -> Tensor:
    """`[n]` cross-entropies of logits `[n, V_d]` with the target's law; `top50`: with its best 50, as they stand."""
    if kind == "full" or probs.shape[-1] <= TOP:
        loss: Tensor = _WholeLaw.apply(logits, probs)  # type: ignore[no-untyped-call]
        return loss
    logits = _wide(logits)
    best = probs.topk(TOP, -1)
    return -(best.values * logits.log_softmax(-1).gather(-1, best.indices)).sum(-1)


class _WholeLaw(torch.autograd.Function):
    """`F.cross_entropy(logits, probs, reduction="none")` with its gradient, a few rows at a time.

    What it makes of some rows stays in a core's cache: over whole logits every one of its steps reads and writes
    memory, which took a third of a training's time. The gradient has the logits' precision.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, probs: Tensor) -> Tensor:
        """Logits `[n, V_d]`, laws `[n, V_d]`."""
        loss, slope = probs.new_empty(len(logits)), torch.empty_like(logits)
        parts = (torch.split(buffer, ROWS) for buffer in (logits, probs, loss, slope))
        for own, law, out, rise in zip(*parts, strict=True):
            logs = _wide(own).log_softmax(-1)
            out.copy_(-(logs * law).sum(-1))
            rise.copy_(logs.exp_().mul_(law.sum(-1, keepdim=True)).sub_(law))
        ctx.save_for_backward(slope)
        return loss

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None]:
        """The laws are given: they have no gradient."""
        (slope,) = ctx.saved_tensors
        return slope * upstream[0][:, None].to(slope.dtype), None


def _wide(logits: Tensor) -> Tensor:
    """Sums over a vocabulary want the bits."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def _survivors(alive: Tensor, rows: Tensor, right: Tensor) -> Tensor:
    """Those alive among `rows` that were right."""
    out = torch.zeros_like(alive)
    out[rows] = right
    return out & alive


def rank_loss(kind: RankLoss, logits: Sequence[Tensor], true: Sequence[Tensor], counted: Sequence[Tensor]) -> Tensor:
    """Weighted cross-entropy over all slots' rows `[n, 4]`, normalised by the weights; class weights are by slot."""
    total, norm = logits[0].new_zeros(()), logits[0].new_zeros(())
    for scores, bucket, keep in zip(logits, true, counted, strict=True):
        scores, bucket = scores[keep], bucket[keep]
        logs = scores.float().log_softmax(-1)
        weight = _class_weights(kind, bucket)[bucket]
        if kind == "reference":
            guess = scores.argmax(-1)
            short = bucket - guess  # underestimating a rank costs twice
            weight = weight * (1 + short.abs() + short.clamp(min=0))
            loss = -(_soft_labels(bucket) * logs).sum(-1)
        else:
            loss = F.nll_loss(logs, bucket, reduction="none")
        total, norm = total + (weight * loss).sum(), norm + weight.sum()
    return total / norm.clamp(min=1e-12)


def _class_weights(kind: RankLoss, bucket: Tensor) -> Tensor:
    """`[4]` for the true buckets of one slot."""
    count = torch.bincount(bucket, minlength=N_BUCKETS).float().clamp(min=1)
    if kind == "ce":
        return torch.ones_like(count)
    return (10 / count).clamp(max=1) if kind == "reference" else (count.max() / count).sqrt()


def _soft_labels(bucket: Tensor) -> Tensor:
    """`[n, 4]`: near buckets get a share, lower guesses less than higher ones."""
    buckets = torch.arange(N_BUCKETS, device=bucket.device)
    short = bucket[:, None] - buckets
    kernel = 1.0 / (1 + short.abs() + short.clamp(min=0)) ** 2
    return kernel / kernel.sum(-1, keepdim=True)
