"""Whether a draft is kept less than half as often from some round of an answer on, to its end; of counts, from some
window on.

Two things do that: a state that went wrong in this answer, or the length of the text. The other answers tell which, by
what they keep where they are as long, beside what they keep before.
"""

import copy
import math
from array import array
from itertools import accumulate
from typing import Literal, NamedTuple

from specviz.metrics.draft_confidence import TokenPosition
from specviz.metrics.estimate import wilson_interval, z_of_looks

LEAST_BEFORE, LEAST_AFTER = 12, 24  # rounds that drafted
LOST = 0.5  # of what was kept before: less is left, in intervals that allow for every round looked at
LEAST_OTHERS = 8  # rounds of other answers that are as long; the interval says whether they are enough
PARTLY = 0.5  # of what all answers keep while they are shorter: more in others, and length is not it; less, and it is
_MOST = 1024  # rounds, or windows, of an answer that are looked at
_BIN, _BINS = 8, 512  # tokens of a bin of text lengths, and how many; the last one is open


class Collapse(NamedTuple):
    """`before`, `after`: rounds that kept anything, of how many, up to `at` and from there on; `length`: tokens of the
    text then. `cause`: "state" where other answers are kept at such lengths as before, "length" where they are not; ""
    where they do not tell."""

    at: TokenPosition
    length: int
    before: tuple[int, int]
    after: tuple[int, int]
    cause: Literal["state", "length", ""]


class CollapseTally:
    """Give it every finished round in order, or every window. Its size does not grow with the run."""

    def __init__(self) -> None:
        self._query = -1
        self._windows = array("q")  # of the answer in hand, one behind another: first round, tokens, rounds, kept any
        self._first: Collapse | None = None
        self._others = array("q", bytes(16 * _BINS))  # of all other answers by length: rounds, those that kept any

    def take(self, here: TokenPosition, n_text: int, n_kept: int, n: int = 1) -> None:
        """Count `n` rounds that drafted, of which `n_kept` kept anything."""
        if here.q != self._query:
            self._end()
            self._query = here.q
            del self._windows[:]
        if n and len(self._windows) < 4 * _MOST:
            self._windows.extend((here.r, n_text, n, n_kept))

    def collapse(self) -> Collapse | None:
        """The first one; the answer in hand counts as it is so far."""
        whole = copy.deepcopy(self)
        whole._end()
        first = whole._first
        return None if first is None else first._replace(cause=whole._cause(first))

    def _cause(self, first: Collapse) -> Literal["state", "length", ""]:
        ends = min(first.length // _BIN, _BINS - 1)  # its own bin is left out: it holds both
        n, kept = sum(self._others[: 2 * ends : 2]), sum(self._others[1 : 2 * ends : 2])
        n_long, kept_long = sum(self._others[2 * ends + 2 :: 2]), sum(self._others[2 * ends + 3 :: 2])
        if n_long < LEAST_OTHERS:
            return ""
        while_short = (kept + first.before[0]) / (n + first.before[1])
        least, most = wilson_interval(kept_long, n_long)
        return "state" if least > PARTLY * while_short else "length" if most < PARTLY * while_short else ""

    def _end(self) -> None:
        rs, lengths, ns, kept = (self._windows[k::4] for k in range(4))
        cuts = [k for k, n in enumerate(accumulate(ns), 1) if LEAST_BEFORE <= n <= sum(ns) - LEAST_AFTER]
        if cuts and self._first is None:
            cut = _best_cut(kept, ns, cuts)
            before, after = (sum(kept[:cut]), sum(ns[:cut])), (sum(kept[cut:]), sum(ns[cut:]))
            z = z_of_looks(sum(ns) - LEAST_BEFORE - LEAST_AFTER + 1)  # whether or not windows hide some of them
            fell = after[0] * before[1] <= LOST * before[0] * after[1]
            if fell and wilson_interval(*before, z)[0] > wilson_interval(*after, z)[1]:
                self._first = Collapse(TokenPosition(self._query, rs[cut]), lengths[cut], before, after, "")
                return
        for length, n, n_kept in zip(lengths, ns, kept, strict=True):
            at = 2 * min(length // _BIN, _BINS - 1)
            self._others[at] += n
            self._others[at + 1] += n_kept


def _best_cut(kept: "array[int]", ns: "array[int]", cuts: list[int]) -> int:
    """Where an answer parts best into two shares."""
    hits, of = ([0, *accumulate(column)] for column in (kept, ns))
    return max(cuts, key=lambda k: _fit(hits[k], of[k]) + _fit(hits[-1] - hits[k], of[-1] - of[k]))


def _fit(hits: int, of: int) -> float:
    """The log-likelihood of a binomial at its own share."""
    return sum(k * math.log(k / of) for k in (hits, of - hits) if k)
