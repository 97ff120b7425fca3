"""When acceptance changed: the moment that parts the looks best, where chance does not explain the difference.

A round keeps a token at position k or does not, so its counts are binomial, but rounds of one request are alike: the
spread of the looks about their means is measured, and a change must stand out of that (quasi-likelihood).

How much it must stand out is calibrated. Somebody looks on and on, and every moment and position is a test of its own:
a change that chance alone makes shows at some moment of an hour of looks (1,800, two seconds apart; five positions of
constant acceptance, .3 to .9; 5 to 200 rounds a look; 150 simulated hours each, every sixth moment looked at) in

    threshold      16         20          24           28
    of hours   .49 to .66  .10 to .18  .01 to .03  0 to .01

so at 24 there is a false one in about 50 hours of looking on, and in about 25 where the looks of 50 rounds have twice
the variance of chance. What it costs: a fall from .7 to .6 at the first position, after half an hour of looks, is seen
after 400 to 800 rounds (median), in nine of ten cases within 1,000.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from specviz.metrics.estimate import Z

_ENOUGH = 24.0  # twice the log of the likelihood ratio, over the spread
_FEWEST = 4  # looks on either side

Hits = tuple[int, int]  # kept, of so many


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """At look `at` (its index) acceptance at `position`, from 0, went from one share to another; `by`: 95 % interval of
    the difference, as wide as the looks spread."""

    at: int
    position: int
    before: float
    after: float
    by: tuple[float, float]


def change_points(looks: Sequence[tuple[int, Sequence[int]]], most: int = 5) -> list[ChangePoint]:
    """Of looks `(rounds, kept by position)`, each since the look before; in order of time."""
    width = max((len(kept) for _, kept in looks), default=0)
    columns = [[(kept[k] if k < len(kept) else 0, n) for n, kept in looks] for k in range(width)]
    points: list[ChangePoint] = []
    waiting = [(0, len(looks))]
    while waiting and len(points) < most:
        first, last = waiting.pop()
        best = _parted(columns, first, last)
        if best is not None:
            points.append(best)
            waiting += [(first, best.at), (best.at, last)]
    points.sort(key=lambda change: change.at)
    edges = [0, *(change.at for change in points), len(looks)]
    return [
        replace(
            change,
            before=_share(columns[change.position], *sides[:2]),
            after=_share(columns[change.position], *sides[1:]),
        )
        for change, sides in zip(points, zip(edges, edges[1:], edges[2:], strict=False), strict=True)
    ]


def _share(column: list[Hits], first: int, last: int) -> float:
    """Kept of all rounds between two changes: what a change led from, or to, until the next one."""
    stretch = column[first:last]
    return sum(hits for hits, _ in stretch) / sum(of for _, of in stretch)


def _parted(columns: list[list[Hits]], first: int, last: int) -> ChangePoint | None:
    """The strongest change of that stretch, over all positions."""
    best: tuple[float, ChangePoint] | None = None
    for position, column in enumerate(columns):
        cut_here = _best_cut(column[first:last])
        if cut_here is not None and (best is None or cut_here[0] > best[0]):
            gain, cut, before, after, by = cut_here
            best = gain, ChangePoint(first + cut, position, before, after, by)
    return best[1] if best is not None else None


def _best_cut(column: list[Hits]) -> tuple[float, int, float, float, tuple[float, float]] | None:
    """Gain, index, share before and after, and the interval of their difference; None where no cut says enough."""
    busy = [k for k, (_, n) in enumerate(column) if n]
    if len(busy) < 2 * _FEWEST:
        return None
    hits, of = sum(h for h, _ in column), sum(n for _, n in column)
    whole = _fit(hits, of)
    best, place, left = 0.0, -1, (0, 0)
    h = n = 0
    for count, k in enumerate(busy[:-_FEWEST], 1):
        h, n = h + column[k][0], n + column[k][1]
        if count >= _FEWEST and (gain := 2 * (_fit(h, n) + _fit(hits - h, of - n) - whole)) > best:
            best, place, left = gain, count, (h, n)
    if place < 0:
        return None
    cut, right = busy[place], (hits - left[0], of - left[1])
    spread = _spread([column[k] for k in busy], place, left, right)
    gain = best / spread
    if gain < _ENOUGH:
        return None
    before, after = left[0] / left[1], right[0] / right[1]
    variance = before * (1 - before) / left[1] + after * (1 - after) / right[1]
    half = Z * math.sqrt(spread * variance)
    return gain, cut, before, after, (after - before - half, after - before + half)


def _fit(hits: int, of: int) -> float:
    """The log-likelihood of a binomial at its own share."""
    miss = of - hits
    kept = hits * math.log(hits / of) if hits else 0.0
    return kept + miss * math.log(miss / of) if miss > 0 else kept


def _spread(column: list[Hits], place: int, left: Hits, right: Hits) -> float:
    """How many times as far as chance the looks lie about their side's share; at least 1."""
    total = 0.0
    for k, (hits, of) in enumerate(column):
        side = left if k < place else right
        share = side[0] / side[1]
        total += (hits - of * share) ** 2 / (of * share * (1 - share)) if 0 < share < 1 else 0.0
    return max(1.0, total / (len(column) - 2))
