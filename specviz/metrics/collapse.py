"""Whether a draft is kept less than half as often from some round of an answer on, to its end.

Two things do that: a state that went wrong in this answer, or the length of the text. The other answers tell which, by
what they keep where they are as long, beside what they keep before.
"""

import copy
import math
from array import array
from typing import Literal, NamedTuple

from specviz.metrics.draft_confidence import TokenPosition
from specviz.metrics.estimate import wilson_interval, z_of_looks

LEAST_BEFORE, LEAST_AFTER = 12, 24  # rounds that drafted
LOST = 0.5  # of what was kept before: less is left, in intervals that allow for every round looked at
LEAST_OTHERS = 12  # rounds of other answers that are as long
PARTLY = 0.5  # of what all answers keep while they are shorter: more in others, and length is not it; less, and it is
_MOST = 1024  # rounds of an answer that are looked at
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
    """Give it every finished round in order. Its size does not grow with the run."""

    def __init__(self) -> None:
        self._query = -1
        self._rounds = array("q")  # of the answer in hand, one behind another: round, tokens before it, kept anything
        self._first: Collapse | None = None
        self._others = array("q", bytes(16 * _BINS))  # of all other answers by length: rounds, those that kept any

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
        rs, lengths, kept = self._rounds[::3], self._rounds[1::3], self._rounds[2::3]
        cut = _best_cut(kept)
        if cut is not None and self._first is None:
            before, after = (sum(kept[:cut]), cut), (sum(kept[cut:]), len(kept) - cut)
            z = z_of_looks(len(kept) - LEAST_BEFORE - LEAST_AFTER + 1)
            fell = after[0] * before[1] <= LOST * before[0] * after[1]
            if fell and wilson_interval(*before, z)[0] > wilson_interval(*after, z)[1]:
                self._first = Collapse(TokenPosition(self._query, rs[cut]), lengths[cut], before, after, "")
                return
        for length, any_kept in zip(lengths, kept, strict=True):
            at = 2 * min(length // _BIN, _BINS - 1)
            self._others[at] += 1
            self._others[at + 1] += any_kept


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
