"""Rows: probability vectors over the vocabulary, as numpy arrays, torch tensors, or a certain token.

A row need not be normalised. Everything here works on whatever array it is handed, so verifiers run unchanged on
numpy in a proof (Fractions in an object array included) and on device tensors in a session. At temperature 0 a row is
`Certain(token)`: the one-hot vector, never built.
"""

import sys
from dataclasses import dataclass
from typing import Any

from specviz.probability.arrays import np

Row = Any  # numpy [V] | torch [V] | Certain
Rows = Any  # numpy [n, V] | torch [n, V] | CertainRows


@dataclass(frozen=True, slots=True)
class Certain:
    """The row that puts all mass on `token`."""

    token: int
    size: int

    def __getitem__(self, token: int) -> float:
        if not 0 <= token < self.size:
            raise IndexError(token)  # also what ends an iteration
        return 1.0 if token == self.token else 0.0

    def __len__(self) -> int:
        return self.size


@dataclass(frozen=True, slots=True)
class CertainRows:
    """`[n, V]` one-hot rows by their tokens: the law of greedy decoding."""

    tokens: tuple[int, ...]
    size: int

    def __getitem__(self, index: int) -> Certain:
        return Certain(self.tokens[index], self.size)

    def __len__(self) -> int:
        return len(self.tokens)


def namespace(array: Any) -> Any:
    """The library of an array `[..]`: numpy, or torch when it is a tensor (looked up, never imported)."""
    return sys.modules["torch"] if type(array).__module__.startswith("torch") else np


def dense(row: Row) -> Any:
    """The row as an array `[V]`; `Certain` becomes a float64 one-hot vector."""
    if isinstance(row, Certain):
        out = np.zeros(row.size)
        out[row.token] = 1.0
        return out
    return row


def positive_part(row: Row, law: Row) -> Any:
    """`(row - law)+`, the unnormalised residual. Both `[V]`."""
    if isinstance(row, Certain) and isinstance(law, Certain) and row.token != law.token:
        return row  # stays certain: as a numpy array it could not meet a tensor later on
    # A certain row against a tensor meets it on the tensor's side.
    if isinstance(row, Certain) and not isinstance(law, Certain) and type(law).__module__.startswith("torch"):
        row = law.new_zeros(len(row)).index_fill_(0, law.new_tensor([row.token]).long(), 1.0)
    left, right = dense(row), law
    if isinstance(law, Certain):
        out = left.clone() if hasattr(left, "clone") else left.copy()
        out[law.token] = out[law.token] * 0
        return out
    difference = left - right
    return difference.clamp(min=0) if hasattr(difference, "clamp") else np.maximum(difference, 0)


def scaled(row: Any) -> tuple[Any, float]:
    """The row `[V]` divided by its mass, and that mass. Mass 0 returns the row unscaled."""
    if isinstance(row, Certain):
        return row, 1.0
    mass = row.sum()
    return (row / mass if mass > 0 else row), mass


def cumulative(row: Any) -> Any:
    """Running sum `[V]` in token-id order, in float64; exact on object arrays."""
    if hasattr(row, "cpu"):
        return row.double().cumsum(-1)
    return np.cumsum(row) if row.dtype == object else np.cumsum(row, dtype=np.float64)


def at(row: Row, token: int) -> float:
    """The entry of one token as a Python number."""
    value: Any = row[token]
    number: float = value.item() if hasattr(value, "item") else value
    return number
