"""`Metrics`: the numbers of a run by the names of contract.md 6, and the formula of each, once.

`Σ` runs over all rounds of the run, the last, cut one included (counted as `n_cut`). Null: undefined for this run (plain
decoding drafts nothing, a tree has no one path) or not recorded at this level. Intervals are 95 %, over rounds, from 8
queries on over queries.
"""

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from specviz.metrics.estimate import Estimate, mean, median, ratio, share

if TYPE_CHECKING:
    from specviz.metrics.tally import Tally

BACKWARD = frozenset({"blockwise", "hsd", "hsd_naive", "hsd_ref", "multi_hsd", "multi_traversal"})
_QUERIES_AS_UNITS = 8
_MS, _S = 1e-6, 1e-9
ByNumber = dict[int, Estimate]
Column = Any  # numpy [rounds] or [blocks]


class Metrics(msgspec.Struct, kw_only=True):
    """One run in numbers. Keys of `survival` and the like are positions, depths or counts."""

    method: str | None
    verifier: str | None
    lossless: bool | None
    n_queries: int
    n_rounds: int
    n_blocks: int
    n_cut: int
    n_drafted: int
    n_tested: int
    n_accepted: int
    n_emitted: int
    n_draft_calls: int
    n_syncs: int
    mean_acceptance_length: Estimate | None
    mean_accepted: Estimate | None
    draft_acceptance_rate: Estimate | None
    test_acceptance_rate: Estimate | None
    block_efficiency: Estimate | None
    accepted_run_length: Estimate | None
    rollback_rate: Estimate | None
    rollback_rate_tokens: Estimate | None
    tokens_per_second: Estimate | None
    time_to_first_token_s: Estimate | None
    round_ms: Estimate | None
    stage_ms: dict[str, Estimate]
    drafting_share: Estimate | None
    overhead: Estimate | None
    overlap_efficiency: float | None
    bubble_target: float | None
    bubble_draft: float | None
    wasted_draft_s: float | None
    accepted_histogram: dict[int, int]
    share_above: ByNumber
    survival: ByNumber | None
    position_acceptance: ByNumber | None
    depth_acceptance: ByNumber | None


class _Table:
    """The rounds as columns, and as blocks."""

    def __init__(self, tally: "Tally") -> None:
        self.tally, rows = tally, tally.rows
        self.rounds = len(rows)
        self.query = self.column("q")
        self.block = self.column("block")
        self.n_queries = len(np.unique(self.query))
        by_query = self.n_queries >= _QUERIES_AS_UNITS
        self.units = self.query if by_query else np.arange(self.rounds)
        self.block_units = self.query if by_query else self.block
        header = tally.header
        self.drafts = bool(self.column("n_drafted").sum())
        self.backward = header is not None and header.verifier in BACKWARD

    def column(self, name: str) -> Column:
        """One field of every round, as integers."""
        return np.fromiter((getattr(row, name) for row in self.tally.rows), np.int64, self.rounds)

    def blocks(self, name: str) -> Column:
        """One field summed over the rounds of every block."""
        return np.bincount(self.block, self.column(name)).astype(np.int64) if self.rounds else self.column(name)

    def stage(self, name: str) -> Column:
        """Nanoseconds of one stage in every round."""
        return np.fromiter((row.stage_ns.get(name, 0) for row in self.tally.rows), np.int64, self.rounds)


def report(tally: "Tally") -> Metrics:
    """Works everything out from the rows of a tally."""
    table, header = _Table(tally), tally.header
    total = {n: int(table.column(n).sum()) for n in _SUMMED}
    return Metrics(
        method=header.method if header else None,
        verifier=header.verifier if header else None,
        lossless=header.lossless if header else None,
        n_queries=table.n_queries,
        n_rounds=table.rounds,
        n_blocks=len(np.unique(table.block)),
        n_cut=int(table.column("cut").sum()),
        **total,
        mean_acceptance_length=mean_acceptance_length(table),
        mean_accepted=mean_accepted(table),
        draft_acceptance_rate=draft_acceptance_rate(table),
        test_acceptance_rate=test_acceptance_rate(table),
        block_efficiency=block_efficiency(table),
        accepted_run_length=accepted_run_length(table),
        rollback_rate=rollback_rate(table),
        rollback_rate_tokens=rollback_rate_tokens(table),
        tokens_per_second=tokens_per_second(table),
        time_to_first_token_s=time_to_first_token_s(table),
        round_ms=median(table.column("ns") * _MS),
        stage_ms=stage_ms(table),
        drafting_share=drafting_share(table),
        overhead=overhead(table),
        overlap_efficiency=overlap_efficiency(table),
        bubble_target=bubble(table, "target"),
        bubble_draft=bubble(table, "draft"),
        wasted_draft_s=tally.void_draft_ns * _S if tally.has_nodes and table.drafts else None,
        accepted_histogram=accepted_histogram(table),
        share_above=share_above(table),
        survival=survival(table),
        position_acceptance=position_acceptance(table),
        depth_acceptance=depth_acceptance(table),
    )


_SUMMED = ("n_drafted", "n_tested", "n_accepted", "n_emitted", "n_draft_calls", "n_syncs")


def mean_acceptance_length(table: _Table) -> Estimate | None:
    """Σ n_emitted / blocks: tokens a block commits, the recovered or bonus one included."""
    return ratio(table.column("n_emitted"), _first_of_block(table), table.block_units_of_rounds)


def mean_accepted(table: _Table) -> Estimate | None:
    """Σ n_accepted / blocks; null when nothing was drafted."""
    return _per_block(table, "n_accepted") if table.drafts else None
