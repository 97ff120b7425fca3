"""Whether what an engine counted itself agrees with its rounds, and with itself."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from specviz.events import Reported
from specviz.runlog.fold import Run
from specviz.text import running

if TYPE_CHECKING:
    from specviz.metrics import Metrics, Tally

_CODES = ("rule_violated", "rounds_merged", "counters_fell", "cut_short", "behind_stop")  # warnings that belong here


def violations(run: Run, tally: "Tally", metrics: "Metrics | None") -> Iterator[str]:
    """Every identity that does not hold, in words."""
    for name, reported, ours in counted_twice(run, tally, metrics):
        if reported != ours:
            yield f"the engine counted {reported} {name}, its rounds add up to {ours}"
    for report in run.reported:
        yield from _by_itself(report)
    for warning in run.warnings:
        if warning.code in _CODES:
            yield running(warning.message)


def counted_twice(run: Run, tally: "Tally", metrics: "Metrics | None") -> Iterator[tuple[str, str, str]]:
    """Name, what the engine counted, what the rounds add up to; of requests whose rounds are known, where
    every one of them was counted by both."""
    seen = tally.outside.seen
    reports = [report for report in run.reported if not report.whole and (report.n_requests or report.q in seen)]
    if metrics is None or not reports or sum(report.n_requests or 1 for report in reports) != len(seen):
        return
    ours = (
        ("rounds that drafted", [report.n_rounds for report in reports], tally.outside.n_drafting),
        ("drafted tokens", [report.n_drafted for report in reports], metrics.n_drafted),
        ("accepted tokens", [report.n_accepted for report in reports], metrics.n_accepted),
        ("new tokens", [report.n_emitted for report in reports], metrics.n_emitted),
    )
    for name, reported, counted in ours:
        if all(value is not None for value in reported):
            yield name, str(sum(value or 0 for value in reported)), str(counted)
    yield from _places(reports, tally.outside.by_kept)


def _places(reports: Sequence[Reported], kept: Counter[int]) -> Iterator[tuple[str, str, str]]:
    """The same by place: rounds by tokens kept, or accepted tokens by position, whichever the engine counts."""
    rounds = [report.histogram for report in reports if report.histogram is not None]
    positions = [report.accepted_per_position for report in reports if report.accepted_per_position is not None]
    if len(rounds) == len(reports):
        ours = [kept[j] for j in range(1 + max(kept, default=0))]
        yield "rounds by tokens kept", _added(rounds), _added([ours])
    elif len(positions) == len(reports):
        ours = [sum(n for tokens, n in kept.items() if tokens > j) for j in range(max(kept, default=0))]
        yield "accepted tokens by position", _added(positions), _added([ours])


def _added(columns: Sequence[Sequence[int]]) -> str:
    """Sums place by place, without empty places at the end."""
    sums = [sum(place) for place in zip_longest(*columns, fillvalue=0)]
    while sums and not sums[-1]:
        sums.pop()
    return ", ".join(map(str, sums)) or "none"


def _by_itself(report: Reported) -> Iterator[str]:
    """Whether what an engine counted agrees with itself."""
    who = running(report.of)
    if report.n_accepted is not None and report.n_drafted is not None and report.n_accepted > report.n_drafted:
        yield f"{who} counted {report.n_accepted} accepted tokens of {report.n_drafted} drafted"
    if report.accepted_per_position is not None and report.n_accepted is not None:
        total = sum(report.accepted_per_position)
        if total != report.n_accepted:
            yield f"{who}: accepted by position add up to {total}, not to {report.n_accepted}"
        if any(b > a for a, b in zip(report.accepted_per_position, report.accepted_per_position[1:], strict=False)):
            yield f"{who}: more tokens are accepted at a position than at the one before it"
    if report.histogram is not None:
        rounds, accepted = sum(report.histogram), sum(j * n for j, n in enumerate(report.histogram))
        if report.n_rounds is not None and rounds != report.n_rounds:
            yield f"{who}: its histogram holds {rounds} rounds, not {report.n_rounds}"
        if report.n_accepted is not None and accepted != report.n_accepted:
            yield f"{who}: its histogram holds {accepted} accepted tokens, not {report.n_accepted}"
