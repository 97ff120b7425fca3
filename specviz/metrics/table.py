"""What is known of a tally's run as a whole, and its sums by name: what the formulas are written over."""

from collections import Counter
from typing import TYPE_CHECKING

from specviz.metrics.estimate import Estimate

if TYPE_CHECKING:
    from specviz.metrics.tally import Tally

_QUERIES_AS_UNITS = 8


class Table:
    """Sums of integers. `by_query`: queries count as independent, from 8 on; below that rounds or blocks do."""

    def __init__(self, tally: "Tally") -> None:
        self.tally = tally
        self.header = tally.header
        self.n_rounds, self.n_queries, self.n_blocks = tally.n_rounds, tally.n_queries, tally.n_blocks
        self.by_query = self.n_queries >= _QUERIES_AS_UNITS
        self.blocks = tally.blocks + Counter([tally.open_block] if self.n_blocks else [])
        self.two_models = self.header is not None and self.header.models.draft is not None
        self.drafts = bool(self.total("n_drafted"))
        self.backward = self.header is not None and self.header.verifier_traits.backward
        self.has_nodes = tally.has_nodes and self.drafts
        self.pipelined = tally.pipeline.active
        self.settles = tally.has_nodes or not self.pipelined  # whether it is known what became of drafted tokens

    def total(self, name: str) -> int:
        """One field summed over the rounds."""
        return self.tally.totals[name]

    def ratio(self, name: str, *, most: float | None = None) -> Estimate | None:
        """A ratio of sums by its name (`tally.RATIOS`)."""
        return self.tally.ratios[name].estimate(self.by_query, most=most)

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
        return not self.tally.has_trees if self.has_nodes else "gamma" in self.header.knobs
