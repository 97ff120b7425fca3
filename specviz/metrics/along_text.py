"""Whether less of a draft is kept the longer the text grows: the last third of every answer against its first third.

The unit is the answer where there are three of them or more; else a sixth of a third, so that rounds next to one
another, which are alike, do not count as so many opinions.
"""

import copy
import statistics
from collections import deque
from itertools import pairwise
from typing import NamedTuple

from specviz.metrics.differences import student
from specviz.metrics.draft_confidence import TokenPosition
from specviz.metrics.estimate import Estimate

LEAST = 24  # rounds of an answer that drafted
LEAST_ALONE = 96  # of one that is not one of three: its sixths are to be several rounds
_MOST = 96  # blocks of an answer that are held
_SIXTHS = 6  # of a third
_PLACES = 6
_Block = tuple[int, int]  # drafted tokens of a few rounds, and those kept


class AlongText(NamedTuple):
    """`begins`, `ends`: shares kept of the tokens drafted in first and last thirds; `difference` of the two. `lost`:
    the last rounds that kept nothing, of the answer that falls most. `n`: answers."""

    begins: float
    ends: float
    difference: Estimate
    lost: tuple[TokenPosition, ...]
    n: int


class AlongTally:
    """Give it every finished round in order. Its size does not grow with the run, but for a number an answer."""

    def __init__(self) -> None:
        self._query = -1
        self._blocks: list[_Block] = []  # of the answer in hand; of `_size` rounds each but the last
        self._size, self._n = 1, 0
        self._empty: deque[TokenPosition] = deque(maxlen=_PLACES)
        self._ended: list[float] = []  # by how much each answer that is over has fallen
        self._pairs: list[float] = []  # the same for the sixths of the first two
        self._first, self._last = (0, 0), (0, 0)
        self._lost: tuple[float, tuple[TokenPosition, ...]] = (0.0, ())

    def take(self, here: TokenPosition, n_drafted: int, n_kept: int) -> None:
        """Count a round; one that drafted nothing says nothing."""
        if here.q != self._query:
            self._end()
            self._query, self._blocks, self._size, self._n = here.q, [], 1, 0
            self._empty.clear()
        if not n_drafted:
            return
        if self._n % self._size:
            drafted, kept = self._blocks.pop()
            self._blocks.append((drafted + n_drafted, kept + n_kept))
        else:
            self._blocks.append((n_drafted, n_kept))
        self._n += 1
        if not n_kept:
            self._empty.append(here)
        if len(self._blocks) == _MOST and self._n % self._size == 0:
            self._blocks = [_sum(self._blocks[k : k + 2]) for k in range(0, _MOST, 2)]
            self._size *= 2

    def _end(self) -> None:
        if self._n < LEAST:
            return
        first, last = self._thirds()
        fall = _share(_sum(last)) - _share(_sum(first))
        self._ended.append(fall)
        if len(self._ended) < 3 and self._n >= LEAST_ALONE:
            self._pairs += [
                _share(_sum(b)) - _share(_sum(a)) for a, b in zip(_sixths(first), _sixths(last), strict=True)
            ]
        self._first, self._last = _sum([self._first, *first]), _sum([self._last, *last])
        self._lost = min(self._lost, (fall, tuple(self._empty)))

    def _thirds(self) -> tuple[list[_Block], list[_Block]]:
        third = len(self._blocks) // 3
        return self._blocks[:third], self._blocks[-third:]

    def along(self) -> AlongText | None:
        """None where answers are too short, or too few for their length. The answer in hand counts as it is so far."""
        whole = copy.deepcopy(self)
        whole._end()
        return whole._summed()

    def _summed(self) -> AlongText | None:
        falls = self._ended if len(self._ended) >= 3 else self._pairs
        if not falls:
            return None
        value = statistics.fmean(falls)
        half = student(len(falls) - 1) * statistics.stdev(falls) / len(falls) ** 0.5
        difference = Estimate(value=value, interval=(value - half, value + half), n=len(falls))
        return AlongText(_share(self._first), _share(self._last), difference, self._lost[1], len(self._ended))


def _sixths(blocks: list[_Block]) -> list[list[_Block]]:
    return [blocks[a:b] for a, b in pairwise(len(blocks) * k // _SIXTHS for k in range(_SIXTHS + 1))]


def _sum(blocks: list[_Block]) -> _Block:
    return sum(drafted for drafted, _ in blocks), sum(kept for _, kept in blocks)


def _share(block: _Block) -> float:
    return block[1] / block[0]
