"""The sums of a run, and what follows from them for the run as a whole: what every formula is written over."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction

import msgspec

from specviz.events import Header, RoundEnd
from specviz.metrics.estimate import Estimate, Median, Ratio
from specviz.metrics.exits import Exits, ExitTally
from specviz.metrics.pipelined import Cells, ModelledTally, Pipeline
from specviz.metrics.ranks import AdaptTally, RankTally
from specviz.metrics.replay_rules import DraftTally
from specviz.runlog.run import RoundRecord

_QUERIES_AS_UNITS = 8
Block = tuple[int, int, int]  # n_accepted, n_emitted, depth (of its deepest judged position), over its rounds


class DepthCounts(msgspec.Struct):
    """Counts of one depth: nodes, and rounds in which any node there was tested or kept."""

    tested: int = 0
    accepted: int = 0
    rounds_tested: int = 0
    rounds_accepted: int = 0


@dataclass(frozen=True, slots=True)
class RoundFigures:
    """A finished round, as the terms of ratios are taken from it (`registry.ratio`)."""

    record: RoundRecord
    end: RoundEnd
    ns: int
    opens_block: bool  # false for a round that goes on with the block of the one before
    cells: Cells
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
        self.open_block: Block = (0, 0, 0)
        self.has_trees = self.has_nodes = False
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


class SummedRun:
    """Sums, and what kind of run they are of. Queries count as independent units from 8 on; below that rounds or
    blocks do."""

    def __init__(self, sums: RunSums) -> None:
        self.sums, self.header = sums, sums.header
        self.n_rounds, self.n_queries, self.n_blocks = sums.n_rounds, sums.n_queries, sums.n_blocks
        self.by_query = self.n_queries >= _QUERIES_AS_UNITS
        self.blocks = sums.blocks + Counter([sums.open_block] if self.n_blocks else [])
        self.two_models = self.header is not None and self.header.models.draft is not None
        self.drafts = bool(self.total("n_drafted"))
        self.backward = self.header is not None and self.header.verifier_traits.backward
        self.has_nodes = sums.has_nodes and self.drafts
        self.pipelined = sums.pipeline.active
        self.settles = sums.has_nodes or not self.pipelined  # whether it is known what became of drafted tokens

    def total(self, name: str) -> int:
        """One field summed over the rounds."""
        return self.sums.totals[name]

    def ratio(self, name: str, most: float | None = None) -> Estimate | None:
        """The ratio of sums of a metric; null when the lower sum is 0. None of them can exceed `most`."""
        found = self.sums.ratios.get(name)
        return None if found is None else found.estimate(self.by_query, most=most)

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
