"""Metrics by declaration: a decorated formula is a metric, with its unit, its words and its group.

Nothing else lists them. `specviz stats`, its JSON, the header line of the screens and docs/metrics.md read `METRICS`,
in the order in which the formulas are declared.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import msgspec

from specviz.errors import SpecvizError
from specviz.metrics.estimate import Estimate, Term
from specviz.metrics.run_sums import RoundFigures, RunSums, SummedRun

Formula = Callable[[SummedRun], Any]
Terms = Callable[[RoundFigures], tuple[Term, Term] | None]  # what a round adds above and below; None: nothing
ByNumber = dict[int, Estimate]
F = TypeVar("F", bound=Formula)


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """A number of a run. `formula` gives an Estimate, a count, a share, a dict of such, or None where it is undefined
    or not on record."""

    name: str
    formula: Formula
    unit: str
    help: str  # a few words beside the number
    group: str  # metrics of one group stand together
    definition: str  # the formula in words
    header: tuple[str, str] | None = None  # name and words on the header line of the screens

    @property
    def summary(self) -> str:
        """The definition on one line."""
        return " ".join(self.definition.split())


METRICS: dict[str, MetricSpec] = {}


@dataclass(frozen=True, slots=True)
class RatioSpec:
    """A metric that is a ratio of sums over rounds: the terms of a round, and the unit they belong to."""

    terms: Terms
    per: Literal["round", "block"]


RATIOS: dict[str, RatioSpec] = {}


def metric(
    name: str, *, unit: str, help: str, group: str = "own", header: tuple[str, str] | None = None
) -> Callable[[F], F]:
    """Make a formula over the sums of a run a metric of that name. SpecvizError for a name that is taken."""

    def declare(formula: F) -> F:
        if name in METRICS:
            raise SpecvizError(f"there is a metric '{name}' already; give yours another name")
        METRICS[name] = MetricSpec(name, formula, unit, help, group, inspect.getdoc(formula) or help, header)
        return formula

    return declare


def ratio(
    name: str,
    *,
    unit: str,
    help: str,
    group: str = "own",
    per: Literal["round", "block"] = "round",
    most: float | None = None,
    when: Callable[[SummedRun], bool] = lambda run: True,
    header: tuple[str, str] | None = None,
) -> Callable[[Terms], Terms]:
    """Make the ratio of two sums over the rounds a metric; the function gives what a round adds to either.

    `most`: no value and no interval exceeds it. `when`: whether it is defined for a run.
    """

    def declare(terms: Terms) -> Terms:
        def formula(run: SummedRun) -> Estimate | None:
            return run.ratio(name, most) if when(run) else None

        formula.__doc__ = terms.__doc__
        metric(name, unit=unit, help=help, group=group, header=header)(formula)
        RATIOS[name] = RatioSpec(terms, per)
        return terms

    return declare


class Metrics(Mapping[str, Any]):
    """One run in numbers, by the names of contract.md 6: `metrics["mean_accepted"]`, `metrics.mean_accepted`.

    Null: undefined for this run, or not recorded at its level. Keys of `survival` and the like are draft positions,
    depths or counts. `modelled` is another clock than every time beside it.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._values:  # copies ask before there are values
            raise AttributeError(name)
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return id(self)

    def as_dict(self) -> dict[str, Any]:
        """As plain JSON: an estimate as value, interval and n, keys as strings."""
        found: dict[str, Any] = msgspec.to_builtins(self._values, str_keys=True)
        return found


def summarize(sums: RunSums) -> Metrics:
    """Every metric of a run, from its sums."""
    run = SummedRun(sums)
    return Metrics({spec.name: spec.formula(run) for spec in METRICS.values()})


def numbered(found: Mapping[int, Estimate | None]) -> ByNumber:
    """Without those that are undefined."""
    return {number: value for number, value in found.items() if value is not None}
