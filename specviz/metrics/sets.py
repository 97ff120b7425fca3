"""Numbers of a set of queries by the names of `METRICS`, and how far they are from those of another set.

Every query is counted by itself and its sums are added, so the numbers of all queries of a run are those of the run. A
number by place goes by its name and the place, `survival@3`.

Where both sets have the same prompts, in pairs, what a prompt makes easy or hard cancels: the interval is Student's
over prompts. Else the two sets count as independent, and the interval is made of those of the two numbers.
"""

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from specviz.events import Calibration, Header
from specviz.metrics.against_plain import PlainSpeed
from specviz.metrics.differences import (
    RatioOfSums,
    difference_of,
    difference_of_independent,
    growth_of,
    ratio_of_independent,
)
from specviz.metrics.estimate import Estimate
from specviz.metrics.registry import METRICS, RATIOS, Metrics, RunSums, SummedRun
from specviz.metrics.tally import Tally
from specviz.runlog.run import RoundRecord


class NumberChange(msgspec.Struct, frozen=True, kw_only=True):
    """A number of two sets. `ratio`: b / a - 1; None where a is 0, and both are None where a set has no such number."""

    metric: str
    a: Estimate | None
    b: Estimate | None
    difference: Estimate | None = None
    ratio: Estimate | None = None


def by_query(
    records: Iterable[RoundRecord], header: Header | None, costs: Calibration | None = None
) -> dict[int, Tally]:
    """The finished rounds of a run, every query counted by itself; by its number. `costs`: of passes timed alone."""
    found: dict[int, Tally] = {}
    for record in records:
        if record.complete:
            tally = found.setdefault(record.q, Tally())
            if header is not None:
                tally.begin(header, costs)
            tally.take(record)
    return found


def numbers(queries: Iterable[RunSums], names: Iterable[str]) -> Metrics:
    """Metrics of all these queries together: rates, lengths, speed, and what is counted by place."""
    whole = RunSums()
    for sums in queries:
        whole.include(sums)
    run = SummedRun(whole)
    return Metrics({name: METRICS[name].formula(run) for name in names})


def told(number: Estimate | PlainSpeed | None) -> Estimate | None:
    """A speed-up that cannot be told is none."""
    return number.trusted if isinstance(number, PlainSpeed) else number


def changes(a: Sequence[RunSums], b: Sequence[RunSums], name: str, *, paired: bool) -> list[NumberChange]:
    """A metric of both sets; of one by place, every place in turn. `paired`: the k-th of both had the same prompt.
    What is no ratio of sums, a speed-up, counts as independent all the same: a wider interval."""
    ours, theirs = (numbers(each, [name])[name] for each in (a, b))
    if not isinstance(ours or theirs, dict):
        sums = [_sums(each, name) for each in (a, b)] if paired and name in RATIOS else None
        return [_change(name, told(ours), told(theirs), sums)]
    ours, theirs = ours or {}, theirs or {}
    return [
        _change(
            f"{name}@{at}",
            ours.get(at),
            theirs.get(at),
            [_places(each, name, at) for each in (a, b)] if paired else None,
        )
        for at in sorted({*ours, *theirs})
    ]


def _change(name: str, a: Estimate | None, b: Estimate | None, sums: Sequence[RatioOfSums] | None) -> NumberChange:
    if a is None or b is None:
        return NumberChange(metric=name, a=a, b=b)
    if sums is None:
        grown = ratio_of_independent(b, a) if a.value else None
        return NumberChange(metric=name, a=a, b=b, difference=difference_of_independent(b, a), ratio=grown)
    before, after = sums
    grown = growth_of(after, before) if a.value else None
    return NumberChange(metric=name, a=a, b=b, difference=difference_of(after, before), ratio=grown)


def _sums(queries: Sequence[RunSums], name: str) -> RatioOfSums:
    """`[queries]` above and below the line."""
    parts = [each.ratios[name].moments(False) if name in each.ratios else None for each in queries]
    return _columns((0, 0) if part is None else (float(part.top), float(part.bottom)) for part in parts)


def _places(queries: Sequence[RunSums], name: str, at: int) -> RatioOfSums:
    found = [(METRICS[name].formula(SummedRun(each)) or {}).get(at) for each in queries]
    return _columns((0, 0) if share is None else (share.value * share.n, share.n) for share in found)


def _columns(rows: Iterable[tuple[float, float]]) -> RatioOfSums:
    top, bottom = np.array(list(rows), dtype=float).T
    return RatioOfSums(top, bottom)
