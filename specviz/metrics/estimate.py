"""Estimates with 95 % intervals: ratios of sums by the delta method, shares by Wilson (contract.md 6).

No interval here has width 0. Where the units do not differ, the delta method measures no spread and would claim
certainty: of 3 rounds that all lost their draft it would say `0 +- 0`. A share then gets Wilson's interval; a mean
gets none, and `unknown` says why.
"""

import math
from typing import Any, Literal

import msgspec
import numpy as np

Z = 1.959963984540054  # the 97.5 % point of the normal law
Column = Any  # numpy [units]


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


def wilson_interval(hits: float, n: int) -> tuple[float, float]:
    """Wilson's score interval of a share: `(c +- h) / (1 + z^2/n)`, c = p + z^2/2n, h = z sqrt(p(1-p)/n + z^2/4n^2).

    `hits` need not be whole: units of which each counts for its share.
    """
    p, z2 = hits / n, Z * Z
    centre, half = p + z2 / (2 * n), Z * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    lo, hi = (centre - half) / (1 + z2 / n), (centre + half) / (1 + z2 / n)
    return (0.0 if hits == 0 else lo), (1.0 if hits == n else hi)


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
    below = float(bottom.sum())
    ratio = float(top.sum()) / below
    spread = float(((top - ratio * bottom) ** 2).sum())
    half = Z * math.sqrt(k / (k - 1) * spread) / below
    return ratio - half, ratio + half


def ratio(top: Column, bottom: Column, units: Column, *, most: float | None = None) -> Estimate | None:
    """`sum(top) / sum(bottom)` `[rows]`, with the delta interval over the units that the rows belong to.

    Null when the lower sum is 0. The interval of a quantity that cannot be negative, or above `most`, is cut there.
    A share (`most` 1) whose units are all equal gets Wilson's interval, every unit one trial: what is drafted in one
    round is kept or lost together, so its tokens are no trials of their own.
    """
    below = bottom.sum()
    if not below:
        return None
    _, where = np.unique(units, return_inverse=True)
    tops, bottoms = np.bincount(where, top.astype(float)), np.bincount(where, bottom.astype(float))
    counting = int((bottoms > 0).sum())
    return settled(float(top.sum() / below), delta_interval(tops, bottoms), len(tops), counting, most=most)


def settled(
    value: float, interval: tuple[float, float] | None, n: int, counting: int, *, most: float | None = None
) -> Estimate:
    """The estimate of a ratio that cannot be negative, from its delta interval over `n` units, of which `counting` have
    a lower sum above 0."""
    found = spread(interval)
    if found is not None:
        return Estimate(
            value=value, interval=(max(0.0, found[0]), found[1] if most is None else min(most, found[1])), n=n
        )
    if most == 1.0 and counting > 1:
        return Estimate(value=value, interval=wilson_interval(value * counting, counting), n=counting)
    return Estimate(value=value, n=counting, unknown=_why_unknown(counting))


def settled_difference(value: float, interval: tuple[float, float] | None, n: int) -> Estimate:
    """The estimate of a mean that may be negative."""
    found = spread(interval)
    if found is None:
        return Estimate(value=value, n=n, unknown=_why_unknown(n))
    return Estimate(value=value, interval=found, n=n)


def spread(interval: tuple[float, float] | None) -> tuple[float, float] | None:
    """A delta interval; null where the units do not differ, or only one of them counts."""
    if interval is None or (interval[1] - interval[0]) / 2 <= _NO_SPREAD * max(1.0, abs(sum(interval)) / 2):
        return None
    return interval


def _why_unknown(n: int) -> Unknown:
    return "few" if n < FEW else "alike"


def mean_difference(values: Column, units: Column) -> Estimate | None:
    """The mean of paired differences, which may be negative, with the delta interval over the units."""
    if not len(values):
        return None
    _, where = np.unique(units, return_inverse=True)
    tops, counts = np.bincount(where, values.astype(float)), np.bincount(where).astype(float)
    return settled_difference(float(values.mean()), delta_interval(tops, counts), len(tops))


def median(values: Column) -> Estimate | None:
    """The median, without an interval; null when there is nothing."""
    return Estimate(value=float(np.median(values)), n=len(values)) if len(values) else None


def mean(values: list[int]) -> Estimate | None:
    """The mean with the delta interval, each value a unit."""
    column = np.array(values, dtype=float)
    return ratio(column, np.ones(len(values)), np.arange(len(values))) if values else None
