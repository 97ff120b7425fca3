"""How sure a draft row is, and its best tokens: what a stop is decided by, and what goes on record of it."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch

from specviz.engine.model.rows import Tensor
from specviz.engine.row_stats import facts_of
from specviz.events import DraftStep, six
from specviz.probability.host import fetch

TOP = 8  # tokens of a row on record


@dataclass(frozen=True, slots=True)
class RowConfidence:
    """A head's verdict on a row: confidences without and with the annealed temperature, and its best token."""

    row: int
    layer: int
    logits: Tensor  # [1, V]
    temp: float
    conf: float
    raw: float
    top1: int
    top2: int | None = None
    margin: float | None = None
    entropy: float | None = None

    @classmethod
    def at(
        cls, row: int, layer: int, logits: Tensor, temp: float, full: bool, ids: Tensor | None = None
    ) -> "RowConfidence":
        """Of one row of logits `[1, V]`, in one copy off the device. `full`: also runner-up and entropy (nats).

        `ids`: the tokens above minus infinity, rising, where that is known; the others are then not looked at.
        """
        return cls.from_numbers([row], layer, logits, temp, fetch(numbers(logits, temp, full, ids))[0])[0]

    @classmethod
    def several(cls, rows: list[int], layer: int, logits: Tensor, temp: float, full: bool) -> "list[RowConfidence]":
        """Of several rows `[n, V]` of one layer, in one copy for all."""
        return cls.from_numbers(rows, layer, logits, temp, fetch(numbers(logits, temp, full))[0])

    @classmethod
    def from_numbers(
        cls, rows: list[int], layer: int, logits: Tensor, temp: float, features: Sequence[Sequence[float]]
    ) -> "list[RowConfidence]":
        """The same, of rows whose `numbers` are read."""
        confidences: list[RowConfidence] = []
        for k, (row, values) in enumerate(zip(rows, features, strict=True)):
            conf, raw, top1, *more = values
            top2, margin, entropy = (int(more[0]), more[1], more[2]) if more else (None, None, None)
            confidences.append(cls(row, layer, logits[k : k + 1], temp, conf, raw, int(top1), top2, margin, entropy))
        return confidences

    @property
    def log_raw(self) -> float:
        return math.log(max(self.raw, 1e-300))


def numbers(logits: Tensor, temp: float, full: bool, ids: Tensor | None = None) -> Tensor:
    """`[n, 3 or 6]`: tempered and raw confidence, best token; runner-up, margin, entropy. Of level ones the lowest id.

    Sums of exponentials below the top logit contain its own 1, so no confidence can exceed 1 by rounding. `ids` `[K]`:
    the tokens above minus infinity, rising; None: any may be.
    """
    if ids is not None:
        logits = logits.index_select(-1, ids)
    best = logits.argmax(-1, keepdim=True)  # as the target and `exit_table` choose: `topk` takes any of level ones
    top = logits.gather(-1, best)
    below = logits - top
    mass = below.exp().sum(-1)
    raw = 1.0 / mass
    conf = raw if temp == 1.0 else 1.0 / (below / temp).exp().sum(-1)
    columns = [conf, raw, _named(best, ids)]
    if full:
        other = logits.scatter(-1, best, -math.inf).argmax(-1, keepdim=True)
        mean = torch.special.xlogy(below.exp(), below.exp()).sum(-1) / mass
        columns += [_named(other, ids), (top - logits.gather(-1, other))[:, 0], mass.log() - mean]
    return torch.stack([column.to(logits.dtype) for column in columns], -1)  # ids below 2^24 are exact in float32


def _named(columns: Tensor, ids: Tensor | None) -> Tensor:
    """`[n]` token ids of columns `[n, 1]`."""
    return columns[:, 0] if ids is None else ids[columns[:, 0]]


def draft_steps(
    rows: Iterable[RowConfidence], first_pos: int, bound: float, ids: Iterable[int], full: bool
) -> Iterator[DraftStep]:
    """A `draft_step` for each row of a chain that ends after a weak draft.

    `ids`: of the drafted nodes; `first_pos`: position of the first, in tokens.
    """
    for k, (row, node) in enumerate(zip(rows, ids, strict=True)):
        yield DraftStep(
            pos=first_pos + k,
            node=node,
            conf=row.raw,
            bound=bound,
            stopped=row.raw < bound,
            entropy=None if row.entropy is None else six(row.entropy),
            top=facts_of(None, row.logits, TOP).tops[0] if full else None,
        )
