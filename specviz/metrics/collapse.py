"""Whether a draft that was kept is hardly ever kept any more from some round of an answer on, to its end."""

import copy
import math
from array import array
from typing import NamedTuple

from specviz.metrics.draft_confidence import TokenPosition
from specviz.metrics.estimate import wilson_interval

LEAST_BEFORE, LEAST_AFTER = 12, 24  # rounds that drafted
TIMES = 3  # as often at least the draft was kept before, at the near ends of both intervals
_MOST = 1024  # rounds of an answer that are looked at


class Collapse(NamedTuple):
    """`before`, `after`: rounds that kept anything, of how many, up to `at` and from there on; `length`: tokens of the
    text then. `outlived`: whether another answer grew as long and was kept to its end."""

    at: TokenPosition
    length: int
    before: tuple[int, int]
    after: tuple[int, int]
    outlived: bool


class CollapseTally:
    """Give it every finished round in order. Its size does not grow with the run."""

    def __init__(self) -> None:
        self._query = -1
        self._rounds = array("q")  # of the answer in hand, one behind another: round, tokens before it, kept anything
        self._first: Collapse | None = None
        self._longest = 0  # text of an answer that was kept to its end

    def take(self, here: TokenPosition, n_text: int, n_drafted: int, n_kept: int) -> None:
        """Count a round; one that drafted nothing says nothing."""
        if here.q != self._query:
            self._end()
            self._query = here.q
            del self._rounds[:]
        if n_drafted and len(self._rounds) < 3 * _MOST:
            self._rounds.extend((here.r, n_text, n_kept > 0))

    def collapse(self) -> Collapse | None:
        """The first one; the answer in hand counts as it is so far."""
        whole = copy.deepcopy(self)
        whole._end()
        first = whole._first
        return None if first is None else first._replace(outlived=whole._longest > first.length)

    def _end(self) -> None:
        rs, lengths, kept = self._rounds[::3], self._rounds[1::3], self._rounds[2::3]
        cut = _best_cut(kept)
        if cut is None:
            self._longest = max(self._longest, lengths[-1] if lengths else 0)
            return
        before, after = (sum(kept[:cut]), cut), (sum(kept[cut:]), len(kept) - cut)
        if wilson_interval(*before)[0] < TIMES * wilson_interval(*after)[1]:
            self._longest = max(self._longest, lengths[-1])
        elif self._first is None:
            at = TokenPosition(self._query, rs[cut])
            self._first = Collapse(at, lengths[cut], before, after, outlived=False)


def _best_cut(kept: "array[int]") -> int | None:
    """Where an answer parts best into two shares; None for one that is too short."""
    n, total = len(kept), sum(kept)
    best, place, so_far = -math.inf, None, sum(kept[:LEAST_BEFORE])
    for cut in range(LEAST_BEFORE, n - LEAST_AFTER + 1):
        fit = _fit(so_far, cut) + _fit(total - so_far, n - cut)
        if fit > best:
            best, place = fit, cut
        so_far += kept[cut]
    return place


def _fit(hits: int, of: int) -> float:
    """The log-likelihood of a binomial at its own share."""
    return sum(k * math.log(k / of) for k in (hits, of - hits) if k)
