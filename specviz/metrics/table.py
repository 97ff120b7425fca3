"""The rounds of a tally as columns, and as blocks: what the formulas are written over."""

from typing import TYPE_CHECKING, Any

import numpy as np

from specviz.names import BACKWARD

if TYPE_CHECKING:
    from specviz.metrics.tally import Tally

_QUERIES_AS_UNITS = 8
Column = Any  # numpy [rounds] or [blocks]


class Table:
    """Columns of integers. `units`, `block_units`: what counts as independent, rounds or blocks, from 8 on queries."""

    def __init__(self, tally: "Tally") -> None:
        self.tally = tally
        self.header = tally.header
        self._columns: dict[str, Column] = {}
        self.n_rounds = len(tally.rows)
        self.query = self.column("q")
        self.block = self.column("block")
        self.n_queries, self.n_blocks = len(np.unique(self.query)), len(np.unique(self.block))
        by_query = self.n_queries >= _QUERIES_AS_UNITS
        first_rounds = np.unique(self.block, return_index=True)[1]
        self.units = self.query if by_query else np.arange(self.n_rounds)
        self.block_units = self.query[first_rounds] if by_query else np.arange(self.n_blocks)
        self.two_models = self.header is not None and self.header.models.draft is not None
        self.drafts = bool(self.column("n_drafted").sum())
        self.backward = self.header is not None and self.header.verifier in BACKWARD
        self.has_nodes = tally.has_nodes and self.drafts
        self.pipelined = tally.pipeline.active
        self.settles = tally.has_nodes or not self.pipelined  # whether it is known what became of drafted tokens

    def column(self, name: str) -> Column:
        """One field of every round."""
        if name not in self._columns:
            self._columns[name] = np.fromiter((getattr(row, name) for row in self.tally.rows), np.int64, self.n_rounds)
        return self._columns[name]

    def cells(self, name: str) -> Column:
        """Drafted positions of every round and what became of them, by a name of `Cells`."""
        return np.fromiter((getattr(row.cells, name) for row in self.tally.rows), np.int64, self.n_rounds)

    def exits(self, name: str) -> Column:
        """Costs and stops of every round, by a name of `Exits`."""
        return np.fromiter((getattr(row.exits, name) for row in self.tally.rows), np.int64, self.n_rounds)

    def blocks(self, name: str) -> Column:
        """One field summed over the rounds of every block."""
        return np.bincount(self.block, self.column(name), self.n_blocks).astype(np.int64)

    def stage(self, name: str) -> Column:
        """Nanoseconds of one stage in every round."""
        return np.fromiter((row.stage_ns.get(name, 0) for row in self.tally.rows), np.int64, self.n_rounds)

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
        return not any(row.tree for row in self.tally.rows) if self.has_nodes else "gamma" in self.header.knobs
