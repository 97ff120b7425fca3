"""The target's distributions that an update learns from, over the draft vocabulary, in little memory (specblock 8.2).

Small vocabularies are kept whole. Of larger ones the 64 likeliest tokens stay, and the mass of the rest as one lump, so
that an update is not told to forget the tail.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from specviz.methods.trained.vocabulary import Vocabulary

Tensor = torch.Tensor
WHOLE, TOP = 4096, 64
_LEAST = 1e-9  # mass of the tail that a logarithm can bear


@dataclass(frozen=True, slots=True)
class Laws:
    """`n` distributions. `probs` `[n, m]` of draft `ids` `[n, m]` (None: of all, in order), descending where cut.

    `best` `[n]`: the likeliest draft token; `known` `[n]`: it is the target's own likeliest one, so it may be taught.
    """

    probs: Tensor
    ids: Tensor | None
    best: Tensor
    known: Tensor

    @classmethod
    def of(cls, logits: Tensor, vocabulary: Vocabulary, whole: int = WHOLE) -> "Laws":
        """Of the target's raw logits `[n, V]`."""
        wide = logits if logits.dtype == torch.float64 else logits.float()
        probs = vocabulary.to_draft(wide).softmax(-1)
        best, known = vocabulary.find(logits.argmax(-1))
        best = torch.where(known, best, probs.argmax(-1))
        if probs.shape[-1] <= whole:
            return cls(probs, None, best, known)
        top = probs.topk(TOP, -1)
        return cls(top.values, top.indices, best, known)

    @classmethod
    def cat(cls, parts: "Sequence[Laws]") -> "Laws":
        """One after another. The tensors are new ones, fit for training."""
        ids = None if parts[0].ids is None else torch.cat([each.ids for each in parts if each.ids is not None])
        return cls(
            torch.cat([each.probs for each in parts]), ids, torch.cat([each.best for each in parts]),
            torch.cat([each.known for each in parts]),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.best)

    def __getitem__(self, rows: "Tensor | Sequence[int] | slice") -> "Laws":
        ids = None if self.ids is None else self.ids[rows]
        return Laws(self.probs[rows], ids, self.best[rows], self.known[rows])

    def cross_entropy(self, logits: Tensor) -> Tensor:
        """`[n]` of draft logits `[n, V_d]`; a cut tail counts as one outcome."""
        logs = (logits if logits.dtype == torch.float64 else logits.float()).log_softmax(-1)
        if self.ids is None:
            return -(self.probs * logs).sum(-1)
        top = logs.gather(-1, self.ids)
        tail = (1 - top.exp().sum(-1)).clamp(min=_LEAST).log()
        return -(self.probs * top).sum(-1) - (1 - self.probs.sum(-1)).clamp(min=0) * tail
