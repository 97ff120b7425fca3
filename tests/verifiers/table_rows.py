"""Random exact rows: with and without zeros, equal, disjoint, one-hot."""

import random
from fractions import Fraction
from typing import Any

import numpy as np

from specviz.probability.draft import Draft
from specviz.probability.table_models import Markov


def random_row(rng: random.Random, vocab: int) -> Any:
    """A row `[V]` of Fractions."""
    weights = [Fraction(rng.choice([0, 0, 1, 2, 5])) for _ in range(vocab)]
    weights[rng.randrange(vocab)] += 1
    row = np.empty(vocab, dtype=object)
    row[:] = [w / sum(weights) for w in weights]
    return row


def random_table(rng: random.Random, vocab: int) -> Markov:
    """A Markov table of such rows."""
    return Markov(random_row(rng, vocab), np.stack([random_row(rng, vocab) for _ in range(vocab)]))


def random_chain(seed: int, vocab: int, gamma: int) -> tuple[Draft, Any]:
    """A chain of tokens its laws can give, and target rows `[gamma + 1, V]`; now and then both coincide."""
    rng = random.Random(seed)
    laws = [random_row(rng, vocab) for _ in range(gamma)]
    rows = [laws[t] if t < gamma and rng.random() < 0.2 else random_row(rng, vocab) for t in range(gamma + 1)]
    tokens = tuple(rng.choice([y for y in range(vocab) if law[y] > 0]) for law in laws)
    ids = tuple(range(gamma))
    return Draft(tokens, tuple(range(-1, gamma - 1)), ids, gamma, gamma, np.stack(laws), ids), np.stack(rows)
