"""`Metrics`: a run in numbers, by the names of contract.md 6, ready for JSON."""

from typing import TYPE_CHECKING

import msgspec

from specviz.metrics import common as f
from specviz.metrics.estimate import Estimate
from specviz.metrics.modelled import Modelled
from specviz.metrics.ranks import Adapted, BlockCount, Confusion, NodeCount, SlotAccuracy
from specviz.metrics.replay_rules import SameDraft
from specviz.metrics.table import Table

if TYPE_CHECKING:
    from specviz.metrics.tally import Tally


class Metrics(msgspec.Struct, kw_only=True, frozen=True):
    """One run in numbers. Null: undefined for this run, or not recorded at its level. Formulas:
    `specviz.metrics.common`.

    Keys of `survival` and the like are draft positions, depths or counts. `modelled` is another clock than every time
    above it.
    """

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
    branch_hit_rate: f.ByNumber | None
    branch_mass: Estimate | None
    hrad_confusion: dict[int, dict[int, int]] | None
    draft_calls_per_round: Estimate | None
    modelled_speedup: Estimate | None
    bucket_confusion: dict[str, Confusion] | None
    bucket_accuracy: Estimate | None
    coverage: f.ByNumber | None
    slot_accuracy: dict[int, dict[int, SlotAccuracy]] | None
    block_counts: dict[int, BlockCount] | None
    depth_counts: dict[int, NodeCount] | None
    adapted: Adapted | None
    layer_calls_per_token: Estimate | None
    cells_per_token: Estimate | None
    head_tests_per_token: Estimate | None
    exit_rate: Estimate | None
    mean_exit_layer: Estimate | None
    wrong_exit_rate: Estimate | None
    draft_precision: Estimate | None
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
    accepted_histogram: dict[int, int] | None
    share_above: f.ByNumber | None
    survival: f.ByNumber | None
    position_acceptance: f.ByNumber | None
    depth_acceptance: f.ByNumber | None
    same_draft: SameDraft | None
    modelled: Modelled | None


_SUMMED = ("n_drafted", "n_tested", "n_accepted", "n_emitted", "n_draft_calls", "n_syncs")


def report(tally: "Tally") -> Metrics:
    """Works everything out from the sums of a tally."""
    table = Table(tally)
    return Metrics(
        n_queries=table.n_queries,
        n_rounds=table.n_rounds,
        n_blocks=table.n_blocks,
        n_cut=table.total("cut"),
        **{name: table.total(name) for name in _SUMMED},
        mean_acceptance_length=f.mean_acceptance_length(table),
        mean_accepted=f.mean_accepted(table),
        draft_acceptance_rate=f.draft_acceptance_rate(table),
        test_acceptance_rate=f.test_acceptance_rate(table),
        block_efficiency=f.block_efficiency(table),
        accepted_run_length=f.accepted_run_length(table),
        rollback_rate=f.rollback_rate(table),
        rollback_rate_tokens=f.rollback_rate_tokens(table),
        branch_hit_rate=f.branch_hit_rate(table),
        branch_mass=f.branch_mass(table),
        hrad_confusion=f.hrad_confusion(table),
        draft_calls_per_round=f.draft_calls_per_round(table),
        modelled_speedup=f.modelled_speedup(table),
        bucket_confusion=f.bucket_confusion(table),
        bucket_accuracy=f.bucket_accuracy(table),
        coverage=f.coverage(table),
        slot_accuracy=f.slot_accuracy(table),
        block_counts=f.block_counts(table),
        depth_counts=f.depth_counts(table),
        adapted=tally.adapted.summary(),
        layer_calls_per_token=f.layer_calls_per_token(table),
        cells_per_token=f.cells_per_token(table),
        head_tests_per_token=f.head_tests_per_token(table),
        exit_rate=f.exit_rate(table),
        mean_exit_layer=f.mean_exit_layer(table),
        wrong_exit_rate=f.wrong_exit_rate(table),
        draft_precision=f.draft_precision(table),
        tokens_per_second=f.tokens_per_second(table),
        time_to_first_token_s=f.time_to_first_token_s(table),
        round_ms=f.round_ms(table),
        stage_ms=f.stage_ms(table),
        drafting_share=f.drafting_share(table),
        overhead=f.overhead(table),
        overlap_efficiency=f.overlap_efficiency(table),
        bubble_target=f.bubble(table, "target"),
        bubble_draft=f.bubble(table, "draft"),
        wasted_draft_s=f.wasted_draft_s(table),
        accepted_histogram=f.accepted_histogram(table),
        share_above=f.share_above(table),
        survival=f.survival(table),
        position_acceptance=f.position_acceptance(table),
        depth_acceptance=f.depth_acceptance(table),
        same_draft=tally.drafts.summary(),
        modelled=tally.modelled.summary(),
    )
