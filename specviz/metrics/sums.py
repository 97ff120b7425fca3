"""Running sums: what a metric needs of the rounds behind it, in a size that does not grow with their number.

Sums are exact (Python integers, or fractions where a term is no integer) and are rounded once, when somebody asks; so
it makes no difference in which order or in how many parts a run was added up.
"""

import copy
import math
from array import array
from collections import Counter
from fractions import Fraction

import numpy as np

from specviz.metrics.estimate import Estimate, Z, settled, settled_difference

EXACT = 1 << 14  # so many values of a median are kept as they are
_BITS = 11  # of a value beyond that: bins are at most 0.1 % wide, so a median is at most 0.05 % off
_LARGEST = (1 << 63) - 1
Term = int | Fraction


class Moments:
    """Of the pairs (top, bottom) of independent units: what a ratio of sums and its delta interval rest on."""

    __slots__ = ("bb", "bottom", "counting", "n", "tb", "top", "tt")

    def __init__(self) -> None:
        self.n = self.counting = 0  # units, and those with a lower part above 0
        self.top: Term = 0
        self.bottom: Term = 0
        self.tt: Term = 0
        self.tb: Term = 0
        self.bb: Term = 0

    def add(self, top: Term, bottom: Term) -> None:
        """One unit more."""
        self.n, self.counting = self.n + 1, self.counting + (bottom > 0)
        self.top, self.bottom = self.top + top, self.bottom + bottom
        self.tt, self.tb, self.bb = self.tt + top * top, self.tb + top * bottom, self.bb + bottom * bottom

    def interval(self) -> tuple[float, float] | None:
        """`delta_interval` of the units: sum (t_i - R b_i)^2 = sum t^2 - 2 R sum tb + R^2 sum b^2, with R = T/B."""
        if self.n < 2:
            return None
        top, below = self.top, self.bottom
        spread = float((below * below * self.tt - 2 * top * below * self.tb + top * top * self.bb) / (below * below))
        ratio = float(top / below)
        half = Z * math.sqrt(self.n / (self.n - 1) * spread) / float(below)
        return ratio - half, ratio + half


class _Groups:
    """Terms added up by key; equal keys come one after another, so only the last group is open."""

    __slots__ = ("_bottom", "_closed", "_key", "_top")

    def __init__(self) -> None:
        self._closed = Moments()
        self._key: tuple[int, ...] = ()
        self._top: Term = 0
        self._bottom: Term = 0

    def add(self, key: tuple[int, ...], top: Term, bottom: Term) -> None:
        if key != self._key:
            if self._key:
                self._closed.add(self._top, self._bottom)
            self._key, self._top, self._bottom = key, 0, 0
        self._top, self._bottom = self._top + top, self._bottom + bottom

    def whole(self) -> Moments:
        """With the open group as it is now."""
        found = copy.copy(self._closed)
        if self._key:
            found.add(self._top, self._bottom)
        return found


class Ratio:
    """A ratio of sums over units, each of which may take in several rounds, and over the queries they belong to."""

    __slots__ = ("_queries", "_units")

    def __init__(self) -> None:
        self._units, self._queries = _Groups(), _Groups()

    def add(self, unit: int, q: int, top: Term, bottom: Term) -> None:
        """A term of a unit of a query; units and queries come one after another."""
        self._units.add((unit, q), top, bottom)
        self._queries.add((q,), top, bottom)

    @property
    def n_queries(self) -> int:
        """Queries that any term belongs to."""
        return self._queries.whole().n

    def moments(self, by_query: bool) -> Moments:
        """Over units, or over queries, the open one included."""
        return (self._queries if by_query else self._units).whole()

    def estimate(self, by_query: bool = False, *, most: float | None = None) -> Estimate | None:
        """As `estimate.ratio`: null when the lower sum is 0; of what cannot be negative, or above `most`."""
        over = self.moments(by_query)
        if not over.bottom:
            return None
        return settled(float(over.top / over.bottom), over.interval(), over.n, over.counting, most=most)

    def signed(self, by_query: bool = False) -> Estimate | None:
        """The same of a quantity that may be negative."""
        over = self.moments(by_query)
        if not over.bottom:
            return None
        return settled_difference(float(over.top / over.bottom), over.interval(), over.n)


class Median:
    """The median of integers: exact for the first `EXACT` of them, by bins of at most .1 % from then on."""

    __slots__ = ("_bins", "_values", "n")

    def __init__(self) -> None:
        self.n = 0
        self._values = array("q")
        self._bins: Counter[int] = Counter()

    def add(self, value: int) -> None:
        """One more."""
        self.n += 1
        value = max(-_LARGEST, min(_LARGEST, value))
        if self._bins:
            self._bins[_bin(value)] += 1
            return
        self._values.append(value)
        if len(self._values) > EXACT:
            self._bins.update(map(_bin, self._values))
            self._values = array("q")

    def estimate(self, unit: float = 1.0, zeros: int = 0) -> Estimate | None:
        """In `unit`s, with so many zeros beside what was added; null when there is nothing."""
        n = self.n + zeros
        if not n:
            return None
        if not self._bins:
            column = np.concatenate([np.zeros(zeros, np.int64), np.frombuffer(self._values, np.int64)])
            return Estimate(value=float(np.median(column / unit)), n=n)
        bins = self._bins + Counter({0: zeros})
        lower, upper = (_at(bins, place) for place in ((n - 1) // 2, n // 2))
        return Estimate(value=(lower + upper) / 2 / unit, n=n)


def _bin(value: int) -> int:
    """The middle of a value's bin; small values are bins of their own."""
    shift = max(0, abs(value).bit_length() - _BITS)
    middle = ((abs(value) >> shift) << shift) + ((1 << shift) >> 1)
    return middle if value >= 0 else -middle


def _at(bins: Counter[int], place: int) -> int:
    """The value at a place of the sorted values."""
    for value in sorted(bins):
        place -= bins[value]
        if place < 0:
            return value
    raise AssertionError("a place beyond the last value")
