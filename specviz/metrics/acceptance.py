"""Metrics of every run: counts, lengths of blocks, and how much of the drafts was kept (contract.md 6).

Σ runs over all rounds of the run, the last, cut one included. A formula returns null where its quantity is undefined
(plain decoding drafts nothing, a tree has no one path) or was not recorded at this level.
"""

from collections.abc import Callable
from functools import partial

from specviz.metrics import registry
from specviz.metrics.estimate import Estimate
from specviz.metrics.run_sums import RoundFigures, SummedRun

metric, ratio = partial(registry.metric, group="common"), partial(registry.ratio, group="common")


def _count(name: str, words: str, group: str, formula: Callable[[SummedRun], int] | None = None) -> None:
    registry.metric(name, unit=words.replace(",", "").split()[0], help=words, group=group)(
        formula or (lambda run: run.total(name))
    )


_count("n_queries", "queries that any round belongs to", "run", lambda run: run.n_queries)
_count("n_rounds", "rounds that ended", "run", lambda run: run.n_rounds)
_count("n_blocks", "blocks, a round and the carried rounds after it each", "run", lambda run: run.n_blocks)
_count("n_cut", "tokens committed past a stop or the last wanted token, and cut off", "run", lambda r: r.total("cut"))
_count("n_drafted", "tokens put before the target", "drafting")
_count("n_tested", "tokens that an accept test was made of", "drafting")
_count("n_accepted", "tokens drafted and kept", "drafting")
_count("n_emitted", "tokens committed, recovered and bonus ones included", "run")
_count("n_draft_calls", "calls of the drafter", "drafting")
_count("n_syncs", "waits of the host for the device", "drafting")


@ratio(
    "mean_acceptance_length",
    unit="tokens",
    help="tokens per block, the closing one included",
    per="block",
    header=("len", "tokens per draft, the drawn ones included"),
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
    header=("acc/drafted", "kept / drafted tokens"),
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
    header=("acc/tested", "kept / tested tokens, the draft's tests alone"),
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
