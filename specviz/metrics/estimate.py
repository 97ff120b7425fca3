"""Running sums, and estimates with 95 % intervals: ratios of sums by the delta method, shares by Wilson.

No interval here has width 0. Where the units do not differ, the delta method measures no spread and would claim
certainty: of 3 rounds that all lost their draft it would say `0 +- 0`. A share then gets Wilson's interval; a mean
gets none, and `unknown` says why.

What a metric needs of the rounds behind it has a size that does not grow with their number. Sums are exact (Python
integers, or fractions where a term is no integer) and are rounded once, when somebody asks; so it makes no difference
in which order or in how many parts a run was added up.
"""

import copy
import math
import statistics
from array import array
from collections import Counter
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import Literal

import msgspec

Z = 1.959963984540054  # the 97.5 % point of the normal law
Column = Sequence[float]  # [units]


FEW = 20  # equal units below which nothing can be said of the spread: of 20, up to 14 % of all could still differ
_NO_SPREAD = 1e-9  # half a width, as a share of the value, that is rounding and no spread
Unknown = Literal["few", "alike"]  # why a mean has no interval: too few units, or many that are all equal


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A number, its 95 % interval (null where none is defined) and how many units it rests on.

    `unknown` is there only where an interval would be defined and cannot be told from these units.
    """

    value: float
    interval: tuple[float, float] | None = None
    n: int
    unknown: Unknown | msgspec.UnsetType = msgspec.UNSET

    @property
    def why_unknown(self) -> Unknown | None:
        """Why there is no interval, where there could be one."""
        return None if self.unknown is msgspec.UNSET else self.unknown


def wilson_interval(hits: float, n: float, z: float = Z) -> tuple[float, float]:
    """Wilson's score interval of a share: `(c +- h) / (1 + z^2/n)`, c = p + z^2/2n, h = z sqrt(p(1-p)/n + z^2/4n^2).

    Neither need be whole: a unit may count for its share, and alike ones for fewer than they are. `z`: `z_of_looks`
    where one of several is picked by what it shows.
    """
    p, z2 = hits / n, z * z
    centre, half = p + z2 / (2 * n), z * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    lo, hi = (centre - half) / (1 + z2 / n), (centre + half) / (1 + z2 / n)
    return (0.0 if hits == 0 else lo), (1.0 if hits == n else hi)


def z_of_looks(n: int) -> float:
    """In place of `Z` where `n` things are looked at and the most striking is picked (Bonferroni): all n intervals hold
    together as often as one does."""
    law = statistics.NormalDist()
    return law.inv_cdf(1 - (1 - law.cdf(Z)) / n)


def share(hits: int, n: int) -> Estimate | None:
    """`hits / n` with Wilson's interval; null when n is 0."""
    return Estimate(value=hits / n, interval=wilson_interval(hits, n), n=n) if n else None


def delta_interval(top: Column, bottom: Column) -> tuple[float, float] | None:
    """Interval of `sum(top) / sum(bottom)` over independent units, by the delta method.

    `R +- z sqrt( k/(k-1) sum (top_i - R bottom_i)^2 ) / sum(bottom)`; null for fewer than two units.
    """
    k = len(top)
    if k < 2:
        return None
    below = math.fsum(bottom)
    ratio = math.fsum(top) / below
    spread = math.fsum((one - ratio * two) ** 2 for one, two in zip(top, bottom, strict=True))
    half = Z * math.sqrt(k / (k - 1) * spread) / below
    return ratio - half, ratio + half


def settled(
    value: float, interval: tuple[float, float] | None, n: int, counting: int, *, most: float | None = None
) -> Estimate:
    """The estimate of a ratio that cannot be negative, from its delta interval over `n` units, of which `counting` have
    a lower sum above 0."""
    bounds = spread(interval)
    if bounds is not None:
        return Estimate(
            value=value,
            interval=(max(0.0, bounds[0]), bounds[1] if most is None else min(most, bounds[1])),
            n=n,
        )
    if most == 1.0 and counting > 1 and value <= most:  # counts of another engine may be wrong: shown as they are
        return Estimate(value=value, interval=wilson_interval(value * counting, counting), n=counting)
    return Estimate(value=value, n=counting, unknown=_why_unknown(counting))


def settled_difference(value: float, interval: tuple[float, float] | None, n: int) -> Estimate:
    """The estimate of a mean that may be negative."""
    ends = spread(interval)
    if ends is None:
        return Estimate(value=value, n=n, unknown=_why_unknown(n))
    return Estimate(value=value, interval=ends, n=n)


def spread(interval: tuple[float, float] | None) -> tuple[float, float] | None:
    """A delta interval; null where the units do not differ, or only one of them counts."""
    if interval is None or (interval[1] - interval[0]) / 2 <= _NO_SPREAD * max(1.0, abs(sum(interval)) / 2):
        return None
    return interval


def _why_unknown(n: int) -> Unknown:
    return "few" if n < FEW else "alike"


def mean_difference(values: Sequence[float], units: Sequence[Hashable]) -> Estimate | None:
    """The mean of paired differences, which may be negative, with the delta interval over the units."""
    if not len(values):
        return None
    by_unit: dict[Hashable, list[float]] = {}
    for value, unit in zip(values, units, strict=True):
        by_unit.setdefault(unit, []).append(value)
    tops, counts = [math.fsum(of) for of in by_unit.values()], [float(len(of)) for of in by_unit.values()]
    return settled_difference(math.fsum(values) / len(values), delta_interval(tops, counts), len(tops))


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
        self.n, self.counting = self.n + 1, self.counting + (bottom > 0)
        self.top, self.bottom = self.top + top, self.bottom + bottom
        self.tt, self.tb, self.bb = self.tt + top * top, self.tb + top * bottom, self.bb + bottom * bottom

    def merge(self, other: "Moments") -> None:
        """Add other units."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

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

    def merge(self, other: "_Groups") -> None:
        """Add the groups of another; what is open here ends."""
        self._closed, self._key = self.whole(), ()
        self._closed.merge(other.whole())

    def whole(self) -> Moments:
        """All groups, the unfinished last one included."""
        whole = copy.copy(self._closed)
        if self._key:
            whole.add(self._top, self._bottom)
        return whole


class Ratio:
    """A ratio of sums over units, each of which may take in several rounds, and over the queries they belong to."""

    __slots__ = ("_queries", "_units")

    def __init__(self) -> None:
        self._units, self._queries = _Groups(), _Groups()

    def add(self, unit: int, q: int, top: Term, bottom: Term) -> None:
        """A term of a unit of a query; units and queries come one after another."""
        self._units.add((unit, q), top, bottom)
        self._queries.add((q,), top, bottom)

    def merge(self, other: "Ratio") -> None:
        """Add the units of other queries, all of whose terms have come."""
        self._units.merge(other._units)
        self._queries.merge(other._queries)

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
        """The estimate of a quantity that may be negative."""
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
        self.n += 1
        value = max(-_LARGEST, min(_LARGEST, value))
        if self._bins:
            self._bins[_bin(value)] += 1
            return
        self._values.append(value)
        if len(self._values) > EXACT:
            self._to_bins()

    def merge(self, other: "Median") -> None:
        """Add the values of another."""
        if other._bins and not self._bins:
            self._to_bins()
        self._bins += other._bins
        self.n += other.n - len(other._values)
        for value in other._values:
            self.add(value)

    def _to_bins(self) -> None:
        self._bins.update(map(_bin, self._values))
        self._values = array("q")

    def estimate(self, unit: float = 1.0, zeros: int = 0) -> Estimate | None:
        """In `unit`s, with so many zeros beside what was added; null when there is nothing."""
        n = self.n + zeros
        if not n:
            return None
        if not self._bins:
            return Estimate(value=statistics.median(value / unit for value in [0] * zeros + [*self._values]), n=n)
        bins = self._bins + Counter({0: zeros})
        lower, upper = (_at(bins, place) for place in ((n - 1) // 2, n // 2))
        return Estimate(value=(lower + upper) / 2 / unit, n=n)

    def interval(self) -> tuple[float, float]:
        """Interval of the median by order statistics: 95 % from six values on, their whole range for fewer."""
        first = max(0, math.floor((self.n - Z * math.sqrt(self.n)) / 2) - 1)
        bins = self._bins or Counter(self._values)
        return float(_at(bins, first)), float(_at(bins, self.n - 1 - first))


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
