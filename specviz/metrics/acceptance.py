"""Metrics of every run: counts, lengths of blocks, how much of the drafts was kept; and metrics that
only some methods have: branches drafted ahead, trees of trained drafters, early exit.

Σ runs over all rounds of the run, the last, cut one included. A formula returns null where its quantity is undefined
(plain decoding drafts nothing, a tree has no one path) or was not recorded at this level.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import partial

from specviz.metrics import ranks, registry
from specviz.metrics.estimate import Estimate, share
from specviz.metrics.registry import ByNumber, RoundFigures, SummedRun, numbered

metric, ratio = partial(registry.metric, group="common"), partial(registry.ratio, group="common")


def _count(name: str, words: str, group: str, formula: Callable[[SummedRun], int | None] | None = None) -> None:
    registry.metric(name, unit=words.replace(",", "").split()[0], help=words, group=group)(
        formula or (lambda run: run.count(name))
    )


_count("n_queries", "queries that any round belongs to", "run", lambda run: run.n_queries)
_count("n_rounds", "rounds that ended", "run", lambda run: run.n_rounds)
_count(
    "n_blocks",
    "blocks, a round and the carried rounds after it each",
    "run",
    lambda run: run.n_blocks if run.sums.tells_tokens else None,
)
_count("n_cut", "tokens committed past a stop or the last wanted token, and cut off", "run", lambda r: r.count("cut"))
_count("n_drafted", "tokens put before the target", "drafting")
_count("n_tested", "tokens that an accept test was made of", "drafting")
_count("n_accepted", "tokens drafted and kept", "drafting")
_count("n_emitted", "tokens committed, recovered and bonus ones included", "run")
_count("n_draft_calls", "calls of the drafter", "drafting", lambda r: r.total("n_draft_calls") if r.ours else None)
_count("n_syncs", "waits of the host for the device", "drafting", lambda r: r.total("n_syncs") if r.ours else None)


@ratio(
    "mean_acceptance_length",
    unit="tokens",
    help="tokens per block, the closing one included",
    per="block",
    header=("tok/round", "mean acceptance length: tokens per draft, the drawn ones included"),
)
def _mean_acceptance_length(at: RoundFigures) -> tuple[int, int]:
    """Σ n_emitted / blocks: tokens a block commits, the recovered or bonus one included."""
    return at.end.n_emitted, at.opens_block


@ratio("mean_accepted", unit="tokens", help="drafted tokens kept per block", per="block", when=lambda run: run.drafts)
def _mean_accepted(at: RoundFigures) -> tuple[int, int]:
    """Σ n_accepted / blocks: drafted tokens that a block keeps."""
    return at.end.n_accepted, at.opens_block


@ratio(
    "draft_acceptance_rate",
    unit="share",
    help="accepted / drafted",
    most=1.0,
    header=("kept/drafted", "acceptance rate: kept / drafted tokens"),
)
def _draft_acceptance_rate(at: RoundFigures) -> tuple[int, int]:
    """Σ n_accepted / Σ n_drafted.

    Drafted is what was put before the target. A stop token among it counts, and is accepted where it is kept, though
    it is never fed (nothing can follow it, so it needs no row): Σ n_drafted may exceed the rows sent to the target.
    """
    return at.end.n_accepted, at.end.n_drafted


@ratio(
    "test_acceptance_rate",
    unit="share",
    help="accepted / tested",
    most=1.0,
    when=lambda run: not run.backward,
    header=("kept/tested", "acceptance rate of tests: kept / tested tokens"),
)
def _test_acceptance_rate(at: RoundFigures) -> tuple[int, int]:
    """Σ n_accepted / Σ n_tested, siblings counted up to the kept one; null for backward scans, which accept what they
    never test."""
    return at.end.n_accepted, at.end.n_tested


@ratio("block_efficiency", unit="tokens", help="tokens per target call")
def _block_efficiency(at: RoundFigures) -> tuple[int, int]:
    """Σ n_emitted / rounds: tokens a target call."""
    return at.end.n_emitted, 1


@metric("accepted_run_length", unit="tokens", help="accepted tokens between rejections")
def _accepted_run_length(run: SummedRun) -> Estimate | None:
    """Mean number of accepted tokens between rejections, across rounds; the open run of every query is left out."""
    return run.sums.runs.estimate() if run.drafts else None


@ratio(
    "rollback_rate",
    unit="share",
    help="drafted and thrown away, on one path",
    most=1.0,
    when=lambda run: run.one_path and run.settles,
)
def _rollback_rate(at: RoundFigures) -> tuple[int, int]:
    """Thrown away / drafted, on one path; null for trees.

    Chains: Σ (n_drafted - n_accepted) / Σ n_drafted. Pipelined drafters, which count a branch once however many were
    forked: (rejected + orphaned + the branch's length if void) / (drafted before the fork + the branch's length).
    """
    return at.cells.path_void, at.cells.path


@ratio("rollback_rate_tokens", unit="share", help="drafted and thrown away", most=1.0, when=lambda run: run.settles)
def _rollback_rate_tokens(at: RoundFigures) -> tuple[int, int]:
    """Drafted tokens with a fate other than accepted / all of them, losing branches and trimmed tokens included."""
    return at.cells.cells_void, at.cells.cells


branch_metric, tree_metric = (partial(registry.metric, group=name) for name in ("branches", "trees"))
tree_ratio, exit_ratio = (partial(registry.ratio, group=name) for name in ("trees", "exits"))

# ---- branches


@branch_metric("branch_hit_rate", unit="share", help="matches that hit a branch")
def _branch_hit_rate(run: SummedRun) -> ByNumber | None:
    """branch_hit_rate[k]: matches that hit one of the k branches / matches over k branches."""
    matches = run.sums.pipeline.matches
    hits = {k: (matches[k, True], matches[k, True] + matches[k, False]) for k in sorted({k for k, _ in matches})}
    return numbered({k: share(*counts) for k, counts in hits.items()}) or None


@branch_metric("branch_mass", unit="share", help="the target's share of all branch tokens")
def _branch_mass(run: SummedRun) -> Estimate | None:
    """Mean of the target's share of all branch tokens at the branch points: the chance of a hit under `topk`."""
    return run.sums.pipeline.masses.estimate(most=1.0)


@branch_metric("hrad_confusion", unit="signals", help="predicted and true classes of the classifier")
def _hrad_confusion(run: SummedRun) -> dict[int, dict[int, int]] | None:
    """`hrad_confusion[predicted][true]`: signals whose true class the verdict tells, by class."""
    confusion = run.sums.pipeline.confusion
    return {s: {true: confusion[s][true] for true in (0, 1, 2)} for s in sorted(confusion)} or None


# ---- trees of trained drafters


@tree_ratio("draft_calls_per_round", unit="calls", help="drafter calls", when=lambda run: run.drafts and run.ours)
def _draft_calls_per_round(at: RoundFigures) -> tuple[int, int]:
    """Σ n_draft_calls / rounds."""
    return at.end.n_draft_calls, 1


@tree_ratio(
    "modelled_speedup",
    unit="times",
    when=lambda run: bool(run.sums.ranks.n_costed),
    help="over plain decoding, if a pass costs what its weights weigh",
)
def _modelled_speedup(at: RoundFigures) -> tuple[int, Fraction] | None:
    """Σ n_emitted / Σ cost in target passes, over rounds whose cost is on record (1 + calls × weights a call reads /
    weights a target pass reads); 1 a round without a tree."""
    return None if at.cost is None else (at.end.n_emitted, at.cost)


@tree_metric("bucket_confusion", unit="expansions", help="true and predicted rank buckets")
def _bucket_confusion(run: SummedRun) -> dict[str, ranks.Confusion] | None:
    """`bucket_confusion[basis][true][pred]`: expansions with a known parent row; `all_kept`, and of them `on_path`,
    where a right prefix is given."""
    seen = ranks.known(run.sums.ranks.seen)
    if not seen:
        return None
    return {"all_kept": ranks.confusion(seen), "on_path": ranks.confusion(ranks.known(seen, path_only=True))}


@tree_metric("bucket_accuracy", unit="share", help="rank buckets predicted right, at every node the target saw")
def _bucket_accuracy(run: SummedRun) -> Estimate | None:
    """Known expansions whose bucket was predicted / all of them."""
    seen = ranks.known(run.sums.ranks.seen)
    return share(sum(row.n for row in seen if row.bucket == row.true), sum(row.n for row in seen))


@tree_metric("coverage", unit="share", help="written tokens among the children, on the path")
def _coverage(run: SummedRun) -> ByNumber | None:
    """coverage[width]: expansions on the path whose written token was among their children / all of that width."""
    return ranks.coverage(ranks.known(run.sums.ranks.seen, path_only=True), written=True) or None


@tree_metric("slot_accuracy", unit="share", help="first tokens and buckets right, by block and slot")
def _slot_accuracy(run: SummedRun) -> dict[int, dict[int, ranks.SlotAccuracy]] | None:
    """`slot_accuracy[block][slot]` over known expansions."""
    return ranks.slot_accuracy(run.sums.ranks.seen) or None


@tree_metric("block_counts", unit="nodes", help="calls and nodes of every block")
def _block_counts(run: SummedRun) -> dict[int, ranks.BlockCount] | None:
    """block_counts[block]: calls, nodes, and what became of them; null for methods without `tree` records."""
    return dict(sorted(run.sums.ranks.blocks.items())) if run.sums.ranks.n_trees else None


@tree_metric("depth_counts", unit="nodes", help="nodes of every depth")
def _depth_counts(run: SummedRun) -> dict[int, ranks.NodeCount] | None:
    """depth_counts[depth]: nodes made, sent, tested, accepted; null for methods without `tree` records."""
    return dict(sorted(run.sums.ranks.depths.items())) if run.sums.ranks.n_trees else None


@tree_metric("adapted", unit="queries", help="learning while serving")
def _adapted(run: SummedRun) -> ranks.AdaptCounts | None:
    """What was learnt while serving: decisions, what exploring cost, what was taken back, regret."""
    return run.sums.adapted.summary()


# ---- early exit


def _counted(run: SummedRun) -> bool:
    """Layer calls are known of every round."""
    return run.sums.exits.counted


def _asks_heads(run: SummedRun) -> bool:
    ratios = run.sums.ratios
    climbed = ratios["exit_rate"].moments(False).bottom or ratios["head_tests_per_token"].moments(False).top
    return _counted(run) and bool(climbed)


@exit_ratio("layer_calls_per_token", unit="calls", help="sequential weight reads of a layer", when=_counted)
def _layer_calls_per_token(at: RoundFigures) -> tuple[int, int]:
    """Σ layer calls / Σ n_emitted; the whole target once a round where nothing else ran."""
    return at.exits.layer_calls, at.end.n_emitted


@exit_ratio("cells_per_token", unit="cells", help="layers x rows: arithmetic", when=_counted)
def _cells_per_token(at: RoundFigures) -> tuple[int, int]:
    """Σ cells (layer x row) / Σ n_emitted."""
    return at.exits.cells, at.end.n_emitted


@exit_ratio("head_tests_per_token", unit="tests", help="exit heads asked", when=_asks_heads)
def _head_tests_per_token(at: RoundFigures) -> tuple[int, int]:
    """Σ head tests / Σ n_emitted; null where there are no exits."""
    return at.exits.head_tests, at.end.n_emitted


@exit_ratio("exit_rate", unit="share", help="rows that stopped / rows", most=1.0)
def _exit_rate(at: RoundFigures) -> tuple[int, int]:
    """Rows that stopped / rows that climbed."""
    return at.exits.stops, at.exits.rows


@exit_ratio("mean_exit_layer", unit="layers", help="of the stops")
def _mean_exit_layer(at: RoundFigures) -> tuple[int, int]:
    """Mean layer of the stops."""
    return at.exits.depth, at.exits.stops


@registry.ratio("wrong_exit_rate", unit="share", help="the others", group="wrong exits", most=1.0)
def _wrong_exit_rate(at: RoundFigures) -> tuple[int, int]:
    """1 - draft_precision."""
    return at.exits.judged - at.exits.right, at.exits.judged


@exit_ratio("draft_precision", unit="share", most=1.0, help="stops that drafted the target's token / judged stops")
def _draft_precision(at: RoundFigures) -> tuple[int, int]:
    """Stops whose draft is the token the text went on with / stops the target was asked about."""
    return at.exits.right, at.exits.judged
