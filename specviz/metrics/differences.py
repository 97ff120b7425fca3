"""How far two numbers are apart: over the same units, where what moves both alike cancels, and over different ones."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from specviz.metrics.estimate import Estimate, Z

# Student's 97.5 % points for 1 to 8 degrees of freedom; from 9 on the expansion below is right to four digits.
_SMALL = {1: 12.70620, 2: 4.30265, 3: 3.18245, 4: 2.77645, 5: 2.57058, 6: 2.44691, 7: 2.36462, 8: 2.30600}


def student(df: int) -> float:
    """The 97.5 % point of Student's law (expansion of Cornish and Fisher in 1/df)."""
    if df in _SMALL:
        return _SMALL[df]
    z = Z
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    added: float = sum(term / df ** (k + 1) for k, term in enumerate(terms))
    return z + added


@dataclass(frozen=True, slots=True)
class RatioOfSums:
    """A ratio of sums `[units]`; `pulls` are what each unit adds to its error, by the delta method."""

    top: Sequence[float]
    bottom: Sequence[float]

    @property
    def value(self) -> float:
        return math.fsum(self.top) / math.fsum(self.bottom)

    @property
    def pulls(self) -> list[float]:
        """`[units]`, their sum is 0."""
        value, below = self.value, math.fsum(self.bottom)
        return [(top - value * bottom) / below for top, bottom in zip(self.top, self.bottom, strict=True)]

    def estimate(self) -> Estimate:
        """With Student's 95 % interval over the units; none for fewer than two."""
        return _estimate(self.value, self.pulls)


def difference_of(mine: RatioOfSums, other: RatioOfSums) -> Estimate:
    """The difference of two ratios over the same units: what moves both alike cancels."""
    pulls = [one - two for one, two in zip(mine.pulls, other.pulls, strict=True)]
    return _estimate(mine.value - other.value, pulls, _counting(mine, other))


def growth_of(mine: RatioOfSums, other: RatioOfSums) -> Estimate:
    """`mine / other - 1` over the same units, where the other is not 0."""
    times = mine.value / other.value
    pulls = [(one - times * two) / other.value for one, two in zip(mine.pulls, other.pulls, strict=True)]
    return _estimate(times - 1, pulls, _counting(mine, other))


def _counting(mine: RatioOfSums, other: RatioOfSums) -> int:
    """Units that either ratio has anything of."""
    return sum(one > 0 or two > 0 for one, two in zip(mine.bottom, other.bottom, strict=True))


def _estimate(value: float, pulls: Sequence[float], n: int | None = None) -> Estimate:
    n = len(pulls) if n is None else n
    if n < 2:
        return Estimate(value=value, n=n)
    half = student(n - 1) * math.sqrt(n / (n - 1) * math.fsum(pull * pull for pull in pulls))
    return Estimate(value=value, interval=(value - half, value + half), n=n)


def difference_of_independent(one: Estimate, other: Estimate) -> Estimate:
    """`one - other` of two numbers that rest on different units, by squaring and adding the arms of their intervals
    (Zou and Donner 2008, "MOVER"): it keeps the lopsided intervals of shares. No interval where either has none."""
    value, n = one.value - other.value, min(one.n, other.n)
    if one.interval is None or other.interval is None:
        lacking = one if one.interval is None else other
        return Estimate(value=value, n=lacking.n, unknown=lacking.unknown)
    down = math.hypot(one.value - one.interval[0], other.interval[1] - other.value)
    up = math.hypot(one.interval[1] - one.value, other.value - other.interval[0])
    return Estimate(value=value, interval=(value - down, value + up), n=n)


def ratio_of_independent(one: Estimate, other: Estimate) -> Estimate:
    """`one / other - 1` of two numbers that are not negative, likewise: ratios r for which `one - r other` may be 0.

    No interval where either has none, or where that of the other reaches 0. `other` must not be 0.
    """
    times, n = one.value / other.value, min(one.n, other.n)
    if one.interval is None or other.interval is None:
        lacking = one if one.interval is None else other
        return Estimate(value=times - 1, n=lacking.n, unknown=lacking.unknown)
    if other.interval[0] <= 0:
        return Estimate(value=times - 1, n=other.n, unknown="few")
    ends = zip(one.interval, reversed(other.interval), strict=True)
    (ours, theirs), (ours_up, theirs_down) = [(_around(one, a), _around(other, b)) for a, b in ends]
    both = one.value * other.value
    down = both + math.sqrt(both**2 - ours * theirs)
    up = both + math.sqrt(both**2 - ours_up * theirs_down)
    return Estimate(value=times - 1, interval=(ours / down - 1 if down else -1.0, up / theirs_down - 1), n=n)


def _around(number: Estimate, end: float) -> float:
    """The square of a number, less that of the arm to an end of its interval."""
    return number.value**2 - (number.value - end) ** 2
