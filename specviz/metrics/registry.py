"""Metrics by declaration, and the sums they are written over: a decorated formula is a metric, with its unit, its words
and its group.

Nothing else lists them. `specviz stats`, its JSON, the header line of the screens and docs/metrics.md read `METRICS`,
in the order in which the formulas are declared.
"""

import inspect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeVar

import msgspec

from specviz.errors import SpecvizError
from specviz.events import Header, RoundEnd
from specviz.metrics.against_plain import PlainTally
from specviz.metrics.along_text import AlongTally
from specviz.metrics.collapse import CollapseTally
from specviz.metrics.draft_confidence import ConfidenceTally
from specviz.metrics.estimate import Estimate, Median, Ratio, Term
from specviz.metrics.outside import RequestCounts
from specviz.metrics.ranks import AdaptTally, RankTally
from specviz.metrics.replay_rules import DraftTally
from specviz.metrics.tallies import Exits, ExitTally, ModelledTally, PathCounts, Pipeline
from specviz.metrics.texts import TextTally
from specviz.runlog.run import RoundRecord

_QUERIES_AS_UNITS = 8
Block = tuple[int, int, int]  # n_accepted, n_emitted, depth (of its deepest judged position), over its rounds


class DepthCounts(msgspec.Struct):
    """Counts of one depth: nodes, and rounds in which any node there was tested or kept."""

    tested: int = 0
    accepted: int = 0
    rounds_tested: int = 0
    rounds_accepted: int = 0

    def __add__(self, other: "DepthCounts") -> "DepthCounts":
        return DepthCounts(*(getattr(self, f) + getattr(other, f) for f in self.__struct_fields__))


@dataclass(frozen=True, slots=True)
class RoundFigures:
    """A finished round, as the terms of ratios are taken from it (`registry.ratio`)."""

    record: RoundRecord
    end: RoundEnd
    ns: int
    opens_block: bool  # false for a round that goes on with the block of the one before
    cells: PathCounts
    exits: Exits
    cost: Fraction | None  # in target passes; None where it is not on record


class RunSums:
    """Integers and fractions alone, in a size that does not grow with the run. `Tally` adds to them."""

    def __init__(self) -> None:
        self.header: Header | None = None
        self.n_rounds = self.n_queries = self.n_blocks = 0
        self.totals: Counter[str] = Counter()  # fields of `round_end` by name, `cut` and `ns`
        self.ratios: defaultdict[str, Ratio] = defaultdict(Ratio)  # by the name of the metric
        self.blocks: Counter[Block] = Counter()  # those that are over
        self.open_block: Block | None = None
        self.has_trees = self.has_nodes = self.counted = self.backward = False
        self.round_ns = Median()
        self.stage_ns: dict[str, Median] = {}
        self.lost_ns: Counter[int] = Counter()  # n_drafted -> draft stage ns x drafted tokens that were not kept
        self.spots: dict[int, DepthCounts] = {}
        self.runs = Ratio()  # accepted tokens between rejections
        self.first_commit_ns = Median()  # per query, from the start of its prefill
        self.prefill_ns = Median()
        self.busy: Counter[str] = Counter()  # lane -> measured ns
        self.drafts = DraftTally()  # rounds whose draft was one sampled chain
        self.pipeline, self.exits, self.modelled = Pipeline(), ExitTally(), ModelledTally()
        self.ranks, self.adapted = RankTally(), AdaptTally()
        self.plain, self.confidence, self.along = PlainTally(), ConfidenceTally(), AlongTally()
        self.collapse = CollapseTally()
        self.texts = TextTally()
        self.outside = RequestCounts()  # of a run that another engine made

    def include(self, other: "RunSums") -> None:
        """Add the sums of other queries, as far as rates, lengths, speed and what is counted by place rest on them."""
        self.header, self.counted = other.header, other.counted
        self.backward, self.has_trees = self.backward or other.backward, self.has_trees or other.has_trees
        self.has_nodes = other.has_nodes and (self.has_nodes or not self.n_rounds)
        self.exits.counted = other.exits.counted and (self.exits.counted or not self.n_rounds)
        self.n_rounds, self.n_queries = self.n_rounds + other.n_rounds, self.n_queries + other.n_queries
        self.n_blocks += other.n_blocks
        self.totals.update(other.totals)
        self.plain.merge(other.plain)
        self.modelled.calibration = other.modelled.calibration or self.modelled.calibration
        self.blocks.update(other.all_blocks)
        for name, sums in other.ratios.items():
            self.ratios[name].merge(sums)
        for depth, spot in other.spots.items():
            self.spots[depth] = self.spots.get(depth, DepthCounts()) + spot

    @property
    def all_blocks(self) -> Counter[Block]:
        """Blocks, the unfinished last one included."""
        return self.blocks + Counter([self.open_block] if self.open_block is not None else [])

    @property
    def ours(self) -> bool:
        """Whether specviz decoded the run; a recording of another engine has only the times it reported."""
        return self.header is None or self.header.outside is None

    @property
    def tells_tokens(self) -> bool:
        """Whether anything is known of tokens."""
        return self.header is None or self.header.tells_tokens


class SummedRun:
    """Sums, and what kind of run they are of. Queries count as independent units from 8 on; below that rounds or
    blocks do."""

    def __init__(self, sums: RunSums) -> None:
        self.sums, self.header = sums, sums.header
        self.n_rounds, self.n_queries, self.n_blocks = sums.n_rounds, sums.n_queries, sums.n_blocks
        self.by_query = self.n_queries >= _QUERIES_AS_UNITS
        self.blocks = sums.all_blocks
        self.two_models = self.header is not None and self.header.models.draft is not None
        self.drafts = bool(self.total("n_drafted"))
        self.ours = sums.ours  # else the stages of a round were not timed
        self.backward = sums.backward
        self.has_nodes = sums.has_nodes and self.drafts
        self.pipelined = sums.pipeline.active
        self.settles = sums.has_nodes or not self.pipelined  # whether it is known what became of drafted tokens

    def total(self, name: str) -> int:
        """One field summed over the rounds."""
        return self.sums.totals[name]

    def count(self, name: str) -> int | None:
        """The same of tokens; null where nothing is known of any."""
        return self.total(name) if self.sums.tells_tokens else None

    def ratio(self, name: str, most: float | None = None) -> Estimate | None:
        """The ratio of sums of a metric; null when the lower sum is 0. None of them can exceed `most`."""
        sums = self.sums.ratios.get(name)
        return None if sums is None else sums.estimate(self.by_query, most=most)

    def counts(self, name: str) -> Counter[int]:
        """Blocks by one of `n_accepted`, `n_emitted`, `depth`."""
        place = ("n_accepted", "n_emitted", "depth").index(name)
        out: Counter[int] = Counter()
        for key, n in self.blocks.items():
            out[key[place]] += n
        return out

    @property
    def one_path(self) -> bool:
        """Whether every draft is a chain, or one path with branches counted once; unknown counts as no."""
        if not self.drafts or self.header is None:
            return False
        if self.pipelined:
            return True
        shape = self.header.knobs.get("shape")
        if shape is not None:
            return bool(shape == "chain")
        return not self.sums.has_trees if self.has_nodes else "gamma" in self.header.knobs


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


def unregister(name: str) -> None:
    """Forget a metric."""
    METRICS.pop(name, None)
    RATIOS.pop(name, None)


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
    """One run in numbers, by the names of docs/metrics.md: `metrics["mean_accepted"]`, `metrics.mean_accepted`.

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
        values: dict[str, Any] = msgspec.to_builtins(self._values, str_keys=True)
        return values


def summarize(sums: RunSums) -> Metrics:
    """Every metric of a run, from its sums."""
    run = SummedRun(sums)
    return Metrics({spec.name: spec.formula(run) for spec in METRICS.values()})


def numbered(estimates: Mapping[int, Estimate | None]) -> ByNumber:
    """Without those that are undefined."""
    return {number: value for number, value in estimates.items() if value is not None}
