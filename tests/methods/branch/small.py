"""A small problem for whole-decoder enumeration: three tokens, rows with zeros, so that branches stay countable.

Every row depends on the whole text and its order: a stale slot or a row of another branch changes the law.
"""

from collections.abc import Sequence
from typing import Any

from specviz.probability.table_models import Problem, Table, exact_row


class Mixed:
    """One of several rows, told by the whole prefix."""

    def __init__(self, salt: int, *rows: str) -> None:
        self.salt, self.rows = salt, [exact_row(row.split()) for row in rows]
        self.vocab = len(self.rows[0])

    def row(self, prefix: Sequence[int]) -> Any:
        mixed = self.salt
        for token in prefix:
            mixed = (mixed * 5 + 3 * token + 1) % 11
        return self.rows[mixed % len(self.rows)]

    def in_floats(self) -> Table:
        raise NotImplementedError


# Draft confidences .5, .6, .667, .9: below and above the epsilons used; k_max 6 forks 3, 2, 2 and 1 branches there.
THREE = Problem(
    3,
    2,
    Mixed(1, "1/2 1/4 1/4", "1/5 0 4/5", "0 2/3 1/3"),
    Mixed(6, "1/2 1/2 0", "0 2/5 3/5", "1/3 0 2/3", "1/10 9/10 0"),
)
