"""The formula of every metric, once (contract.md 6).

Σ runs over all rounds of the run, the last, cut one included. A function returns null where its quantity is undefined
(plain decoding drafts nothing, a tree has no one path) or was not recorded at this level.
"""

from collections import Counter

from specviz.metrics import ranks
from specviz.metrics.estimate import Estimate, share
from specviz.metrics.table import Table

MS, S = 1e6, 1e9  # nanoseconds
ByNumber = dict[int, Estimate]


def mean_acceptance_length(table: Table) -> Estimate | None:
    """Σ n_emitted / blocks: tokens a block commits, the recovered or bonus one included."""
    return table.ratio("mean_acceptance_length")


def mean_accepted(table: Table) -> Estimate | None:
    """Σ n_accepted / blocks: drafted tokens that a block keeps."""
    return table.ratio("mean_accepted") if table.drafts else None


def draft_acceptance_rate(table: Table) -> Estimate | None:
    """Σ n_accepted / Σ n_drafted.

    Drafted is what was put before the target. A stop token among it counts, and is accepted where it is kept, though
    it is never fed (nothing can follow it, so it needs no row): Σ n_drafted may exceed the rows sent to the target.
    """
    return table.ratio("draft_acceptance_rate", most=1.0)


def test_acceptance_rate(table: Table) -> Estimate | None:
    """Σ n_accepted / Σ n_tested; null for backward scans, which accept what they never test."""
    if table.backward:
        return None
    return table.ratio("test_acceptance_rate", most=1.0)


test_acceptance_rate.__test__ = False  # type: ignore[attr-defined]  # a metric, not a pytest function


def block_efficiency(table: Table) -> Estimate | None:
    """Σ n_emitted / rounds: tokens a target call."""
    return table.ratio("block_efficiency")


def accepted_run_length(table: Table) -> Estimate | None:
    """Mean number of accepted tokens between rejections, across rounds; the open run of every query is left out."""
    return table.tally.runs.estimate() if table.drafts else None


def rollback_rate(table: Table) -> Estimate | None:
    """Thrown away / drafted, on one path; null for trees.

    Chains: Σ (n_drafted - n_accepted) / Σ n_drafted. Pipelined drafters, which count a branch once however many were
    forked: (rejected + orphaned + the branch's length if void) / (drafted before the fork + the branch's length).
    """
    if not table.one_path or not table.settles:
        return None
    return table.ratio("rollback_rate", most=1.0)


def rollback_rate_tokens(table: Table) -> Estimate | None:
    """Drafted tokens with a fate other than accepted / all of them, losing branches and trimmed tokens included."""
    if not table.settles:
        return None
    return table.ratio("rollback_rate_tokens", most=1.0)


def branch_hit_rate(table: Table) -> ByNumber | None:
    """branch_hit_rate[k]: matches that hit one of the k branches / matches over k branches."""
    matches = table.tally.pipeline.matches
    hits = {k: (matches[k, True], matches[k, True] + matches[k, False]) for k in sorted({k for k, _ in matches})}
    return _numbered({k: share(*counts) for k, counts in hits.items()}) or None


def branch_mass(table: Table) -> Estimate | None:
    """Mean of the target's share of all branch tokens at the branch points: the chance of a hit under `topk`."""
    return table.tally.pipeline.masses.estimate(most=1.0)


def hrad_confusion(table: Table) -> dict[int, dict[int, int]] | None:
    """hrad_confusion[predicted][true]: signals whose true class the verdict tells (`Pipeline`), by class."""
    found = table.tally.pipeline.confusion
    return {s: {true: found[s][true] for true in (0, 1, 2)} for s in sorted(found)} or None


def draft_calls_per_round(table: Table) -> Estimate | None:
    """Σ n_draft_calls / rounds."""
    return table.ratio("draft_calls_per_round") if table.drafts else None


def modelled_speedup(table: Table) -> Estimate | None:
    """Σ n_emitted / Σ cost in target passes, over rounds whose cost is on record (`tree`); 1 a round without a tree."""
    return table.ratio("modelled_speedup") if table.tally.ranks.n_costed else None


def bucket_confusion(table: Table) -> dict[str, ranks.Confusion] | None:
    """bucket_confusion[basis][true][pred]: expansions with a known parent row; `all_kept`, and of them `on_path`."""
    seen = ranks.known(table.tally.ranks.seen)
    if not seen:
        return None
    return {"all_kept": ranks.confusion(seen), "on_path": ranks.confusion(ranks.known(seen, path_only=True))}


def bucket_accuracy(table: Table) -> Estimate | None:
    """Known expansions whose bucket was predicted / all of them."""
    seen = ranks.known(table.tally.ranks.seen)
    return share(sum(row.n for row in seen if row.bucket == row.true), sum(row.n for row in seen))


def coverage(table: Table) -> ByNumber | None:
    """coverage[width]: expansions on the path whose written token was among their children / all of that width."""
    return ranks.coverage(ranks.known(table.tally.ranks.seen, path_only=True), written=True) or None


def slot_accuracy(table: Table) -> dict[int, dict[int, ranks.SlotAccuracy]] | None:
    """slot_accuracy[block][slot] over known expansions."""
    return ranks.slot_accuracy(table.tally.ranks.seen) or None


def block_counts(table: Table) -> dict[int, ranks.BlockCount] | None:
    """block_counts[block]: calls, nodes, and what became of them; null for methods without `tree` records."""
    return dict(sorted(table.tally.ranks.blocks.items())) if table.tally.ranks.n_trees else None


def depth_counts(table: Table) -> dict[int, ranks.NodeCount] | None:
    """depth_counts[depth]: nodes made, sent, tested, accepted; null for methods without `tree` records."""
    return dict(sorted(table.tally.ranks.depths.items())) if table.tally.ranks.n_trees else None


def layer_calls_per_token(table: Table) -> Estimate | None:
    """Σ layer calls / Σ n_emitted; the whole target once a round where nothing else ran."""
    return _per_token(table, "layer_calls")


def cells_per_token(table: Table) -> Estimate | None:
    """Σ cells (layer x row) / Σ n_emitted."""
    return _per_token(table, "cells")


def head_tests_per_token(table: Table) -> Estimate | None:
    """Σ head tests / Σ n_emitted; null where there are no exits."""
    asked = table.tally.ratios["exit_rate"].moments(False).bottom or table.tally.ratios["head_tests"].moments(False).top
    return _per_token(table, "head_tests") if asked else None


def _per_token(table: Table, name: str) -> Estimate | None:
    return table.ratio(name) if table.tally.exits.counted else None


def exit_rate(table: Table) -> Estimate | None:
    """Rows that stopped / rows that climbed."""
    return table.ratio("exit_rate", most=1.0)


def mean_exit_layer(table: Table) -> Estimate | None:
    """Mean layer of the stops."""
    return table.ratio("mean_exit_layer")


def draft_precision(table: Table) -> Estimate | None:
    """Stops whose draft is the token the text went on with / stops the target was asked about."""
    return table.ratio("draft_precision", most=1.0)


def wrong_exit_rate(table: Table) -> Estimate | None:
    """1 - draft_precision."""
    return table.ratio("wrong_exit_rate", most=1.0)


def tokens_per_second(table: Table) -> Estimate | None:
    """Σ n_emitted / Σ round seconds (prefill not in it)."""
    return table.ratio("tokens_per_second")


def time_to_first_token_s(table: Table) -> Estimate | None:
    """Start of the prefill to the first commit, median over queries."""
    return table.tally.first_commit_ns.estimate(S)


def round_ms(table: Table) -> Estimate | None:
    """Median round."""
    return table.tally.round_ns.estimate(MS)


def stage_ms(table: Table) -> dict[str, Estimate]:
    """Median of every stage over the rounds; `prefill` over the queries."""
    found = {"prefill": table.tally.prefill_ns.estimate(MS)}
    for name, took in table.tally.stage_ns.items():
        found[name] = took.estimate(MS, table.n_rounds - took.n)
    return {name: value for name, value in found.items() if value is not None}


def drafting_share(table: Table) -> Estimate | None:
    """Σ draft ns / Σ round ns."""
    return table.ratio("drafting_share") if table.drafts else None


def overhead(table: Table) -> Estimate | None:
    """Σ probe_ns / (Σ round_ns - Σ probe_ns): what recording costs."""
    return table.ratio("overhead")


def bubble(table: Table, lane: str) -> float | None:
    """Idle / elapsed of one lane over all rounds, by its recorded spans; null without any, or with one model alone:
    it does both kinds of work itself, so neither lane waits for the other."""
    if not table.two_models:
        return None
    busy, elapsed = table.tally.busy.get(lane, 0), table.total("ns")
    return max(0.0, 1 - busy / elapsed) if busy and elapsed else None


def overlap_efficiency(table: Table) -> float | None:
    """(T_draft + T_target - T_round) / min(T_draft, T_target); null on serial lanes."""
    draft, target = (table.tally.busy.get(lane, 0) for lane in ("draft", "target"))
    if not draft or not target or not table.two_models or table.header is None or table.header.lanes == "serial":
        return None
    return float((draft + target - table.total("ns")) / min(draft, target))


def wasted_draft_s(table: Table) -> float | None:
    """Measured draft seconds of tokens that were not accepted, a forward's time shared by the tokens drawn from it.

    Where every draft is settled by its own round, its tokens share the round's draft time evenly; null with one model
    alone, whose time is not its drafts' only.
    """
    if table.pipelined:
        return table.tally.pipeline.wasted_ns / S if table.settles else None
    if not table.has_nodes or not table.two_models:
        return None
    return sum((ns / max(drafted, 1) for drafted, ns in table.tally.lost_ns.items()), 0.0) / S


def accepted_histogram(table: Table) -> dict[int, int] | None:
    """Blocks by n_accepted, 0 to the largest seen."""
    if not table.drafts:
        return None
    counts = table.counts("n_accepted")
    return {j: counts[j] for j in range(max(counts) + 1)}


def share_above(table: Table) -> ByNumber | None:
    """share_above[w]: share of blocks with n_emitted > w, for w from 1 to the largest seen."""
    if not table.drafts:
        return None
    emitted = table.counts("n_emitted")
    return _numbered({w: share(_at_least(emitted, w + 1), table.n_blocks) for w in range(1, max(emitted) + 1)})


def survival(table: Table) -> ByNumber | None:
    """survival[t]: blocks with n_accepted >= t / blocks whose draft is at least t deep."""
    if not table.has_nodes:
        return None
    accepted, depth = table.counts("n_accepted"), table.counts("depth")
    counts = {t: (_at_least(accepted, t), _at_least(depth, t)) for t in range(1, max(depth) + 1)}
    return _numbered({t: share(min(hits, n), n) for t, (hits, n) in counts.items()})


def position_acceptance(table: Table) -> ByNumber | None:
    """position_acceptance[t]: rounds that kept a token at draft position t / rounds that tested one there.

    On a tree a round tests a position with several siblings and keeps at most one. Null for backward scans.
    """
    if not table.has_nodes or table.backward:
        return None
    spots = sorted(table.tally.spots.items())
    return _numbered({t: share(spot.rounds_accepted, spot.rounds_tested) for t, spot in spots})


def depth_acceptance(table: Table) -> ByNumber | None:
    """depth_acceptance[d]: nodes kept / nodes tested at depth d. Equals `position_acceptance` on chains."""
    if not table.has_nodes or table.backward:
        return None
    return _numbered({d: share(spot.accepted, spot.tested) for d, spot in sorted(table.tally.spots.items())})


def _at_least(counts: Counter[int], least: int) -> int:
    return sum(n for value, n in counts.items() if value >= least)


def _numbered(found: dict[int, Estimate | None]) -> ByNumber:
    return {number: value for number, value in found.items() if value is not None}
