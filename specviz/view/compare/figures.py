"""The numbers of several sets beside each other, and how far each is from the first: whole, by place in the draft, by
kind of prompt. Every number and interval comes from `specviz.metrics`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from specviz.metrics import METRICS, Estimate
from specviz.metrics.sets import Beside, beside
from specviz.numerals import UNKNOWN, number
from specviz.runlog.fold import Run
from specviz.runlog.run import Mark
from specviz.view.blocks import Plot, PlotCurve, Unit, written
from specviz.view.compare.sets import Request, RunSet, shared_requests
from specviz.view.frame.parts import Metric
from specviz.view.frame.series import metric
from specviz.view.words.numbers import MINUS, uncertainty

# name, label, help
ROWS = (
    ("block_efficiency", "tokens per target call", "committed tokens / passes of the target"),
    ("mean_accepted", "kept per block", "drafted tokens kept per block"),
    ("draft_acceptance_rate", "accepted / drafted", "drafted tokens that were kept, of all that were drafted"),
    ("test_acceptance_rate", "accepted / tested", "drafted tokens that were kept, of those whose turn came"),
    ("tokens_per_second", "tokens / s", "new tokens / time of all rounds"),
    ("over_plain", "× plain decoding", "as fast as plain decoding would be, where the run tells it"),
    ("drafting_share", "drafting", "draft time / round time"),
)
SERIES = (
    ("position_acceptance", "draft position"),
    ("depth_acceptance", "depth in the tree"),
    ("survival", "tokens kept, at least"),
)
AXES = dict(SERIES)
_HEADINGS = {
    "position_acceptance": "Acceptance by draft position",
    "depth_acceptance": "Acceptance by depth",
    "survival": "Survival",
}
MARKS: tuple[Mark, ...] = ("accepted", "recovered", "bonus", "rejected", "exit", "plain")  # a set's, told by its place
NAMES = (*(name for name, _, _ in ROWS), *(name for name, _ in SERIES))
NO_KIND = "no kind told"


@dataclass(frozen=True, slots=True)
class CompareRow:
    """One metric of every set of runs: its text, and its difference to the first set."""

    name: str
    label: str
    values: tuple[Metric, ...]
    beside: tuple[Beside, ...]

    @property
    def differences(self) -> tuple[str, ...]:
        """To the first set, `—` for itself and where there is none."""
        return tuple(
            UNKNOWN if estimate.difference is None else _signed(estimate.difference) for estimate in self.beside
        )

    @property
    def apart(self) -> tuple[bool, ...]:
        """Whether the interval of the difference leaves out 0."""
        return tuple(estimate.difference is not None and _sure(estimate.difference) for estimate in self.beside)


@dataclass(frozen=True, slots=True)
class Steps:
    """Calls of the target that a run needed for its text: `calls[k]` for the first `positions[k]` tokens."""

    positions: tuple[int, ...]
    calls: tuple[int, ...]

    def needed(self, position: int) -> int | None:
        """Calls until that many tokens were written; None where there are not so many."""
        return next((c for p, c in zip(self.positions, self.calls, strict=True) if p >= position), None)


@dataclass(frozen=True, slots=True)
class Compared:
    """`places`: rows of the numbers by place, under the names of SERIES; `kinds`: rows of each kind of prompt, where
    prompts tell theirs. `n_paired`: prompts of which all sets have one, 0 where the sets count as independent."""

    rows: tuple[CompareRow, ...]
    places: Mapping[str, tuple[CompareRow, ...]]
    kinds: Mapping[str, tuple[CompareRow, ...]]
    n_paired: int

    @property
    def over(self) -> str:
        """What intervals are over, in words."""
        if self.n_paired:
            return f"{self.n_paired} prompts that all have, paired"
        return "rounds, or prompts from 8 on, not paired"

    def plots(self, names: Sequence[str]) -> Iterator[Plot]:
        """The numbers by place, then tokens a call by kind of prompt: bars for every set, under these names."""
        for name, rows in self.places.items():
            by_place = {int(row.name.partition("@")[2]): row for row in rows}
            yield _plot(name, _HEADINGS[name], AXES[name], names, by_place, "share", METRICS[name].help)
        calls, label, help_ = ROWS[0]
        kinds = {kind: row for kind, rows in self.kinds.items() for row in rows if row.name == calls}
        if kinds:
            yield _plot("kinds", "By kind of prompt", "kind of prompt", names, kinds, "number", f"{label}: {help_}")

    def find(self, name: str) -> CompareRow | None:
        """The row of `block_efficiency`, `survival@3` ..; None: there is none of that name."""
        return next((row for row in (*self.rows, *chain(*self.places.values())) if row.name == name), None)


def _plot(
    name: str, title: str, axis: str, names: Sequence[str], rows: Mapping[Any, CompareRow], unit: Unit, help_: str
) -> Plot:
    """A row of the numbers a place, a curve a set."""
    curves = []
    for k, (set_name, mark) in enumerate(zip(names, MARKS, strict=False)):
        values = [row.beside[k].value for row in rows.values()]
        edges = [(None, None) if value is None else value.interval or (None, None) for value in values]
        ys, ns = (
            [None if value is None else value.value for value in values],
            [value.n if value else 0 for value in values],
        )
        lows, highs = tuple(low for low, _ in edges), tuple(high for _, high in edges)
        curves.append(PlotCurve(set_name, tuple(ys), mark, lows=lows, highs=highs, ns=tuple(ns)))
    first = "; ".join(f"{curve.name}: {written(curve.ys[0], unit)}" for curve in curves)
    words = f"{help_} by {axis}; at {next(iter(rows))} {first}."
    return Plot(f"compare-{name}", title, axis, tuple(rows), tuple(curves), unit, help_, words)


def compared(sets: Sequence[RunSet]) -> Compared:
    """Everything that has ended so far. Where all sets have two prompts or more in common, these alone are compared,
    in pairs; else all of them, as independent."""
    shared, _ = shared_requests(sets)
    paired = len(shared) > 1
    requests = (
        [[run_set.requests[k] for k in picked] for run_set, picked in zip(sets, zip(*shared, strict=True), strict=True)]
        if paired
        else [run_set.requests for run_set in sets]
    )
    rows = {row.name: row for row in _rows(requests, NAMES, paired)}
    places = {name: tuple(row for row in rows.values() if row.name.startswith(f"{name}@")) for name, _ in SERIES}
    whole = tuple(rows[name] for name, _, _ in ROWS if name in rows)
    some = {name: place_rows for name, place_rows in places.items() if place_rows}
    return Compared(whole, some, _kinds(requests, paired), len(shared) if paired else 0)


def _rows(requests: Sequence[Sequence[Request]], names: Sequence[str], paired: bool) -> list[CompareRow]:
    compared_metrics = beside(
        [[request.tally for request in estimates] for estimates in requests], names, paired=paired
    )
    words = {name: (label, help_) for name, label, help_ in ROWS}
    return [
        CompareRow(
            name,
            words.get(name, (name, ""))[0],
            tuple(metric(name, name, one.value, words.get(name, ("", ""))[1]) for one in estimates),
            tuple(estimates),
        )
        for name, estimates in compared_metrics.items()
    ]


def _kinds(requests: Sequence[Sequence[Request]], paired: bool) -> dict[str, tuple[CompareRow, ...]]:
    """The comparison restricted to each kind (domain) of prompt on record."""
    names = {request.kind for set_requests in requests for request in set_requests}
    out = {}
    for kind in sorted(names) if names - {""} else ():
        # Pairs stay pairs, whatever another set calls the kind of a prompt.
        picked = [k for k, request in enumerate(requests[0]) if request.kind == kind]
        of_kind = [
            [set_requests[k] for k in picked]
            if paired
            else [request for request in set_requests if request.kind == kind]
            for set_requests in requests
        ]
        rows = _rows(of_kind, [name for name, _, _ in ROWS], paired and len(picked) > 1)
        out[kind or NO_KIND] = tuple(rows)
    return out


def _sure(estimate: Estimate) -> bool:
    """Whether the interval leaves out 0."""
    return estimate.interval is not None and not estimate.interval[0] <= 0 <= estimate.interval[1]


def _signed(estimate: Estimate) -> str:
    """`+.31 ±.12`, `−.04 ±.09: cannot tell`, `+2.4 (all 40 alike)` where one of the two shows no spread."""
    size = number(abs(estimate.value))
    sign = "+" if estimate.value > 0 else MINUS if estimate.value < 0 else "±"
    unsure = estimate.interval is not None and not _sure(estimate)
    return f"{sign}{size} {uncertainty(estimate)}".strip() + (": cannot tell" if unsure else "")


def steps(run: Run, query: int) -> Steps:
    """Of one prompt, by its place."""
    asked = run.queries[query]
    positions, calls, at = [], [], 0
    for n, index in enumerate(range(asked.first, asked.first + asked.n_rounds), 1):
        emitted = run.rounds.point(index).n_emitted
        if emitted:
            at += emitted
            positions.append(at)
            calls.append(n)
    return Steps(tuple(positions), tuple(calls))
