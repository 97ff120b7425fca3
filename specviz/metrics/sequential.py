"""The difference of two means with an interval that stays valid when it is looked at after every round.

A 95 % interval that is computed again after each of 200 rounds misses the true value in far more than 5 % of runs. Here
the side that keeps growing has a confidence sequence by a normal mixture (Robbins 1970; Waudby-Smith and others 2021,
"Time-uniform central limit theory"), the finished side an ordinary interval, each with half of the error.

Rounds that are all alike do not prove that all will be: two imagined rounds are added before the spread is computed,
one equal to the smallest value of both sides, one a token above the largest.
"""

import math
from collections.abc import Iterator, Sequence

from specviz.metrics.estimate import Estimate

LEAST_LOOK = 10  # fewest rounds on either side for an interval
_ERROR = 0.03  # of 5 %: lengths of few rounds are too skewed for the normal law that both sides lean on
_Z = 2.432379058584449  # the point of the normal law that leaves a quarter of `_ERROR` above
_NARROWEST = 30  # rounds at which the sequence is about as narrow as it can be made


def lasting_difference(before: Sequence[int], after: Sequence[int]) -> Estimate | None:
    """`mean(after) - mean(before)` in tokens, with an interval that holds however often `after` is looked at as it
    grows; null with fewer than `LEAST_LOOK` of either."""
    *_, newest = None, *looks(before, after)
    return newest


def looks(before: Sequence[int], after: Sequence[int]) -> Iterator[Estimate]:
    """That difference after each round of `after`, from `LEAST_LOOK` on.

    As the interval holds at every look, it is what all looks so far have in common: a difference that stood once is not
    taken back. Where they have nothing in common one of them was wrong, and the newest stands alone.
    """
    n = len(before)
    if n < LEAST_LOOK:
        return
    sums = sum(before), sum(value * value for value in before)
    low, high = min(before), max(before)
    total = squares = 0
    common = (-math.inf, math.inf)
    for seen, value in enumerate(after, 1):
        total, squares = total + value, squares + value * value
        low, high = min(low, value), max(high, value)
        if seen < LEAST_LOOK:
            continue
        weight = seen / _NARROWEST
        growing = 2 * (weight + 1) / (weight * seen) * math.log(math.sqrt(weight + 1) / (_ERROR / 2))
        spread = _Z**2 * _variance(*sums, n, low, high) / n + growing * _variance(total, squares, seen, low, high)
        difference, half = total / seen - sums[0] / n, math.sqrt(spread)
        newest = difference - half, difference + half
        common = max(common[0], newest[0]), min(common[1], newest[1])
        yield Estimate(value=difference, interval=common if common[0] < common[1] else newest, n=seen)


def _variance(total: int, squares: int, count: int, low: int, high: int) -> float:
    """Of so many values, beside which the two imagined ones stand: `low`, and one above `high`."""
    n, total, squares = count + 2, total + low + high + 1, squares + low**2 + (high + 1) ** 2
    return (squares - total**2 / n) / (n - 1)
