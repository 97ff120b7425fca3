"""Numbers of a set of queries by the names of `METRICS`, and how far they are from those of another set.

Every query is counted by itself and its sums are added, so the numbers of all queries of a run are those of the run. A
number by place goes by its name and the place, `survival@3`.

Where both sets have the same prompts, in pairs, what a prompt makes easy or hard cancels: the interval is Student's
over prompts. Else the two sets count as independent, and the interval is made of those of the two numbers.
"""

from collections.abc import Iterable, Sequence

import msgspec

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


class Beside(msgspec.Struct, frozen=True, kw_only=True):
    """A number of one of several sets. `difference`: to that of the first set; `ratio`: times as large as it, less 1.
    Both None for the first itself and where one of the two has no such number, `ratio` also where the first is 0."""

    value: Estimate | None
    difference: Estimate | None = None
    ratio: Estimate | None = None


def by_query(
    records: Iterable[RoundRecord], header: Header | None, costs: Calibration | None = None
) -> dict[int, Tally]:
    """The finished rounds of a run, every query counted by itself; by its number. `costs`: of passes timed alone."""
    tallies: dict[int, Tally] = {}
    for record in records:
        if record.complete:
            tally = tallies.setdefault(record.q, Tally())
            if header is not None:
                tally.begin(header, costs)
            tally.take(record)
    return tallies


def numbers(queries: Iterable[RunSums], names: Iterable[str]) -> Metrics:
    """Metrics of all these queries together: rates, lengths, speed, and what is counted by place."""
    whole = RunSums()
    for sums in queries:
        whole.include(sums)
    run = SummedRun(whole)
    return Metrics({name: METRICS[name].formula(run) for name in names})


def known_estimate(number: Estimate | PlainSpeed | None) -> Estimate | None:
    """A speed-up that cannot be told is none."""
    return number.trusted if isinstance(number, PlainSpeed) else number


def beside(sets: Sequence[Sequence[RunSums]], names: Iterable[str], *, paired: bool) -> dict[str, list[Beside]]:
    """Metrics of all sets, one by place at every place in turn; a name that no set has a number of is left out.

    `paired`: the k-th query of all sets had the same prompt. What is no ratio of sums, a speed-up, counts as
    independent all the same: a wider interval.
    """
    names, out = list(names), dict[str, list[Beside]]()
    measured = [numbers(set_sums, names) for set_sums in sets]
    for name in names:
        values = [metrics[name] for metrics in measured]
        if not any(isinstance(value, dict) for value in values):
            sums = [_sums(set_sums, name) for set_sums in sets] if paired and name in RATIOS else None
            out[name] = _beside([known_estimate(value) for value in values], sums)
            continue
        places = [[METRICS[name].formula(SummedRun(query)) or {} for query in set_sums] for set_sums in sets if paired]
        for at in sorted({at for by_place in values for at in by_place or ()}):
            sums = [_shares([query.get(at) for query in set_places]) for set_places in places] or None
            out[f"{name}@{at}"] = _beside([(by_place or {}).get(at) for by_place in values], sums)
    return {name: row for name, row in out.items() if any(one.value is not None for one in row)}


def _beside(values: Sequence[Estimate | None], sums: Sequence[RatioOfSums] | None) -> list[Beside]:
    out, base = [Beside(value=values[0])], values[0]
    for k, value in enumerate(values[1:], 1):
        if base is None or value is None:
            out.append(Beside(value=value))
        elif sums is None:
            grown = ratio_of_independent(value, base) if base.value else None
            out.append(Beside(value=value, difference=difference_of_independent(value, base), ratio=grown))
        else:
            grown = growth_of(sums[k], sums[0]) if base.value else None
            out.append(Beside(value=value, difference=difference_of(sums[k], sums[0]), ratio=grown))
    return out


def _sums(queries: Sequence[RunSums], name: str) -> RatioOfSums:
    """`[queries]` above and below the line."""
    parts = [query.ratios[name].moments(False) if name in query.ratios else None for query in queries]
    return _columns((0, 0) if part is None else (float(part.top), float(part.bottom)) for part in parts)


def _shares(estimates: Sequence[Estimate | None]) -> RatioOfSums:
    """`[queries]` likewise, of shares."""
    return _columns((0, 0) if share is None else (share.value * share.n, share.n) for share in estimates)


def _columns(rows: Iterable[tuple[float, float]]) -> RatioOfSums:
    top, bottom = zip(*rows, strict=True)
    return RatioOfSums(top, bottom)
