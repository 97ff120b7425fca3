"""`rows.c`: what is recorded of rows over a vocabulary, in one call for all of them, where a C compiler is at hand.

Looked at by torch a row of scores goes through memory a dozen times, and every operation brings code of its own into a
cache that a pass has just emptied. Sums are taken in double here as there, so a record is the same to its six digits.
"""

import os
from collections.abc import Sequence
from ctypes import addressof, c_double, c_long, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from specviz.engine.model.compiled.build import Once, built
from specviz.engine.model.compiled.library import VECTORS, typed
from specviz.names import COMPILE

Tensor = torch.Tensor

_SOURCE = Path(__file__).with_name("rows.c")
# A product and a sum in one rounding are as good here as in two. Nothing is reordered.
_FLAGS = ("-O3", "-march=native", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")
_LISTED = 64  # most top entries of a row that are returned


@dataclass(frozen=True, slots=True)
class RowFacts:
    """What is recorded of rows `[n, V]` and of tokens in them, in six digits; nothing of what was not asked for.

    `leads`, `entropies`, `tops`: of every row the highest entry less the second, the entropy of its probabilities in
    nats, and the highest of them as `(token, log probability)`, of level ones the lowest token first. `logs`, `ranks`:
    of every token its log probability, and its rank, 1 where none is higher.
    """

    leads: list[float]
    entropies: list[float]
    tops: list[list[tuple[int, float]]]
    logs: list[float]
    ranks: list[int]


class RowKernel:
    """C functions over vocabulary rows given by their `addresses`. Not thread-safe: for one thread at a time.

    Buffers for arguments and results are allocated once: right after a pass each Python operation, and each query of a
    tensor's attributes, costs as much as reading a row.
    """

    def __init__(self, facts: Any, summaries: Any, largest: Any) -> None:
        self._facts, self._summaries, self._largest = facts, summaries, largest
        self._make_room(1 << 10)

    def _make_room(self, room: int) -> None:
        self._room = room
        self._given, self._numbers, self._counts = (c_long * room)(), (c_double * room)(), (c_long * room)()
        self._places = addressof(self._given), addressof(self._numbers), addressof(self._counts)

    def facts(
        self, rows: Sequence[int], size: int, k: int, of: Sequence[int], tokens: Sequence[int], *, shares: bool = False
    ) -> RowFacts | None:
        """Statistics of rows `[n, size]` of scores, or of probabilities (`shares`), and of `tokens[i]` in row `of[i]`.

        `k`: number of highest entries to return; 0: only leads and the tokens' log probabilities; -1: only leads. None
        for rows that have no distribution (NaN, all minus infinity), and for tokens out of range.
        """
        if tokens and not 0 <= min(tokens) <= max(tokens) < size:
            return None
        n, m, n_tops = len(rows), len(tokens), max(k, 0)
        wide, first = 2 + n_tops, 1 + n_tops
        end, whole_end = n * wide, n * first
        if (most := max(n + 2 * m, end + m)) > self._room:
            self._make_room(2 * most)
        self._given[: n + 2 * m] = [*rows, *of, *tokens]
        if self._facts(*self._places, n, size, k, m, shares):
            return None
        floats = self._numbers[: end + m]
        if k <= 0:
            return RowFacts(floats[:end:wide], [], [], floats[end:], [])
        whole = self._counts[: whole_end + m]
        tops = [
            [*zip(whole[c + 1 : c + 1 + whole[c]], floats[w + 2 : w + wide], strict=False)]
            for c, w in zip(range(0, whole_end, first), range(0, end, wide), strict=True)
        ]
        return RowFacts(floats[:end:wide], floats[1:end:wide], tops, floats[end:], whole[whole_end:])

    def summaries(self, n: int, k: int) -> Tensor | None:
        """`[n, 15]` in float32: what a rank head reads of the rows of scores that `facts` was asked for last, of `k`
        highest entries. None where a row has fewer that are likely at all."""
        out = torch.empty(n, 15, dtype=torch.float32, device="cpu")  # whatever is usual in this process
        rows_address, _, counts = self._places
        return None if self._summaries(rows_address, counts, out.data_ptr(), n, k) else out

    def largest(self, row: int, size: int, k: int) -> tuple[list[int], list[float], float]:
        """Places and values of the `k` highest entries of a row `[size]`, and the sum of all."""
        total: float = self._largest(row, size, k, self._places[2], self._places[1])
        return self._counts[:k], self._numbers[:k], total


def addresses(rows: Sequence[Tensor] | Tensor, k: int = 0) -> list[int] | None:
    """Where rows `[V]` begin, those of a table `[n, V]` or single ones, for a look at `k` of their highest.

    None for what the kernel does not read: rows on a device or strewn, other numbers than float32, and more of the
    highest than it keeps.
    """
    if k > _LISTED:
        return None
    if isinstance(rows, Tensor):
        n, size = rows.shape
        if size < max(2, k) or not _is_plain(rows):
            return None
        first = rows.data_ptr()
        return [*range(first, first + 4 * size * n, 4 * size)]
    size = rows[0].numel()
    if size < max(2, k) or not all(_is_plain(row) and row.numel() == size for row in rows):
        return None
    return [row.data_ptr() for row in rows]


def _is_plain(rows: Any) -> bool:
    """Few looks at a tensor, and none that torch answers in Python, as it does `len`."""
    return isinstance(rows, Tensor) and rows.dtype is torch.float32 and rows.is_cpu and rows.is_contiguous()


def row_kernel() -> RowKernel | None:
    """A kernel, for one thread at a time; None where there is none, and torch has to do."""
    if os.environ.get(COMPILE) == "off":
        return None
    try:
        return RowKernel(*_functions())
    except OSError:
        return None


@Once
def _functions() -> tuple[Any, Any, Any]:
    """Raises NoKernel."""
    library = built("rows", (_SOURCE, VECTORS), _FLAGS)
    return (
        typed(library["facts"], [c_void_p] * 3 + [c_long] * 5, c_long),
        typed(library["summaries"], [c_void_p] * 3 + [c_long] * 2, c_long),
        typed(library["largest"], [c_void_p, c_long, c_long, c_void_p, c_void_p], c_double),
    )
