"""The difference of two means with an interval that stays valid when it is looked at after every round.

A 95 % interval that is computed again after each of 200 rounds misses the true value in far more than 5 % of runs. Here
the side that keeps growing has a confidence sequence by a normal mixture (Robbins 1970; Waudby-Smith and others 2021,
"Time-uniform central limit theory"), the finished side an ordinary interval, each with half of the error.

Rounds that are all alike do not prove that all will be: two imagined rounds are added before the spread is computed,
one equal to the smallest value of both sides, one a token above the largest.
"""

import math
from collections.abc import Sequence

from specviz.metrics.estimate import Estimate

LEAST_LOOK = 10  # fewest rounds on either side for an interval
_ERROR = 0.03  # of 5 %: lengths of few rounds are too skewed for the normal law that both sides lean on
_Z = 2.432379058584449  # the point of the normal law that leaves a quarter of `_ERROR` above
_NARROWEST = 30  # rounds at which the sequence is about as narrow as it can be made


def lasting_difference(before: Sequence[int], after: Sequence[int]) -> Estimate | None:
    """`mean(after) - mean(before)` in tokens, with an interval that holds however often `after` is looked at as it
    grows; null with fewer than `LEAST_LOOK` of either."""
    n, k = len(before), len(after)
    if min(n, k) < LEAST_LOOK:
        return None
    low, high = min(*before, *after), max(*before, *after) + 1
    weight = k / _NARROWEST
    growing = 2 * (weight + 1) / (weight * k) * math.log(math.sqrt(weight + 1) / (_ERROR / 2))
    half = math.sqrt(_Z**2 * _variance(before, low, high) / n + growing * _variance(after, low, high))
    value = sum(after) / k - sum(before) / n
    return Estimate(value=value, interval=(value - half, value + half), n=k)


def _variance(values: Sequence[int], low: int, high: int) -> float:
    n = len(values) + 2
    total, squares = sum(values) + low + high, sum(v * v for v in values) + low**2 + high**2
    return (squares - total**2 / n) / (n - 1)
