"""A table of more tokens than the golden cases have: each row depends on the last two tokens and is fairly sharp."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from specviz.probability.table_models import Problem, Table


@dataclass(frozen=True)
class Habits:
    """`sharp`: how far the scores of a row spread; `blur`: how far those of two salts differ."""

    vocab: int
    salt: int
    sharp: float = 2.5
    blur: float = 0.0

    def row(self, prefix: Sequence[int]) -> Any:
        key = (9, *([0, 0, *prefix][-2:]))
        scores = np.random.default_rng(key).normal(size=self.vocab) * self.sharp
        scores += np.random.default_rng((self.salt, *key)).normal(size=self.vocab) * self.blur
        weights = np.exp(scores - scores.max())
        return weights / weights.sum()

    def in_floats(self) -> Table:
        return self


def problem(vocab: int = 6, blur: float = 1.0, sharp: float = 2.5) -> Problem:
    """A target, and a draft model that is right most of the time."""
    return Problem(vocab, 3, Habits(vocab, 1, sharp), Habits(vocab, 2, sharp, blur))
