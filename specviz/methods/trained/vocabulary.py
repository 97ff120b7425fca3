"""Between a draft vocabulary and the target's: `target = draft + d2t[draft]`.

A draft vocabulary is the most frequent target tokens in token order; a small vocabulary is kept whole.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch

from specviz.probability.host import fetch

Tensor = torch.Tensor


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """`d2t` `[V_d]`: what is added to a draft id; None: both vocabularies are the same. `size`: of the target's."""

    size: int
    d2t: Tensor | None = None
    _listed: list[int] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def n_draft(self) -> int:
        return self.size if self.d2t is None else len(self.d2t)

    @property
    def ids(self) -> Tensor | None:
        """The target ids `[V_d]`, ascending; None for all of them."""
        return None if self.d2t is None else torch.arange(len(self.d2t), device=self.d2t.device) + self.d2t

    def to_target(self, draft: Tensor) -> Tensor:
        return draft if self.d2t is None else draft + self.d2t[draft]

    def target_ids(self, draft: Iterable[int]) -> list[int]:
        """Target ids of draft ids that are on the host."""
        if self.d2t is None:
            return [*draft]
        if not self._listed:
            (ids,) = fetch(self.ids)
            self._listed.extend(ids)
        return [self._listed[token] for token in draft]

    def find(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Draft ids of target ids, both `[..]`, and which of them there are; the id of an absent one is 0."""
        ids = self.ids
        if ids is None:
            return tokens, torch.ones_like(tokens, dtype=torch.bool)
        place = torch.searchsorted(ids, tokens.contiguous()).clamp(max=len(ids) - 1)
        known = ids[place] == tokens
        return torch.where(known, place, 0), known

    def spread(self, scores: Tensor) -> Tensor:
        """Draft scores `[n, V_d]` over the target's vocabulary `[n, V]`, minus infinity elsewhere."""
        ids = self.ids
        if ids is None:
            return scores
        return scores.new_full((len(scores), self.size), float("-inf")).index_copy_(1, ids, scores)

    def to_draft(self, rows: Tensor) -> Tensor:
        """The draft vocabulary's columns of `[.., V]`."""
        ids = self.ids
        return rows if ids is None else rows[..., ids]

    def head(self, rows: Tensor) -> Tensor:
        """The rows `[V_d, width]` of a target's head `[V or more, width]`; those past the vocabulary pad it."""
        ids = self.ids
        return rows[: self.size] if ids is None else rows[ids]

    @classmethod
    def most_frequent(cls, counts: Tensor, n: int) -> "Vocabulary":
        """The `n` most frequent tokens by `counts` `[V]`; all of them when there are no more."""
        if n >= len(counts):
            return cls(len(counts))
        ids = counts.topk(n).indices.sort().values
        return cls(len(counts), ids - torch.arange(n, device=ids.device))
