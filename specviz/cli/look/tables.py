"""The tables of `specviz stats`: one for the whole run, one by draft position and depth, one histogram.

The tables of `specviz stats` for trees shaped by predicted ranks: buckets, widths, slots, blocks, learning.
"""

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from specviz.cli.printing import cells, figure, setting, table_of
from specviz.console import standard_output
from specviz.events import End, Header
from specviz.metrics import Metrics
from specviz.text import running
from specviz.traits import CAPPED
from specviz.view.panels.ranks.model import BUCKETS
from specviz.view.words import numbers

_NARROWEST = 100  # columns when standard output is no terminal
_BAR = 24
# Name and unit, in the order they are read. A count has no interval.
_COUNTS = (
    "n_queries", "n_rounds", "n_blocks", "n_cut", "n_emitted", "n_drafted", "n_tested", "n_accepted", "n_draft_calls",
    "n_syncs",
)  # fmt: skip
_ESTIMATES = (
    ("mean_acceptance_length", "tokens per block, the closing one included"),
    ("mean_accepted", "drafted tokens kept per block"),
    ("draft_acceptance_rate", "accepted / drafted"),
    ("test_acceptance_rate", "accepted / tested"),
    ("block_efficiency", "tokens per target call"),
    ("accepted_run_length", "accepted tokens between rejections"),
    ("rollback_rate", "drafted and thrown away, on one path"),
    ("rollback_rate_tokens", "drafted and thrown away"),
    ("tokens_per_second", "prefill not in it"),
    ("time_to_first_token_s", "seconds, median over queries"),
    ("round_ms", "milliseconds, median"),
    ("drafting_share", "draft time / round time"),
    ("overhead", "time spent on recording / the rest"),
)
# Only some methods have these: shown where there are.
_OWN_ESTIMATES = (
    ("draft_calls_per_round", "drafter calls"),
    ("modelled_speedup", "over plain decoding, if a pass costs what its weights weigh"),
    ("bucket_accuracy", "rank buckets predicted right, at every node the target saw"),
    ("branch_mass", "the target's share of all branch tokens"),
    ("layer_calls_per_token", "sequential weight reads of a layer"),
    ("cells_per_token", "layers x rows: arithmetic"),
    ("head_tests_per_token", "exit heads asked"),
    ("exit_rate", "rows that stopped / rows"),
    ("mean_exit_layer", "of the stops"),
    ("draft_precision", "stops that drafted the target's token / judged stops"),
    ("wrong_exit_rate", "the others"),
)
_MODELLED = (
    ("speedup", "over plain decoding"),
    ("elapsed_s", "seconds"),
    ("overlap_efficiency", "0 in turn, 1 the shorter lane hidden"),
    ("bubble_target", "idle share of the target's lane"),
    ("bubble_draft", "idle share of the draft model's lane"),
    ("wasted_draft_s", "draft seconds of tokens not accepted"),
    ("t_s", "seconds of a draft forward, measured at the start"),
    ("c", "a target forward in draft forwards"),
    ("kappa_q", "what another row adds to a draft forward"),
    ("kappa_p", "what another row adds to a target forward"),
    ("hrad_s", "seconds of the classifier"),
)
_ALONE = (
    *_MODELLED[:2],
    ("t_s", "seconds of a target forward, measured at the start"),
    ("kappa_p", "what another row adds to a target forward"),
)


def print_run(file: str, header: Header, end: End | None, metrics: Metrics, first: bool = True) -> None:
    """One run as tables on standard output."""
    tables = (
        _whole(metrics), _modelled(metrics, header.models.draft is not None), _branches(metrics), _confusion(metrics),
        *rank_tables(metrics), _positions(metrics), _depths(metrics), _histogram(metrics), _same_draft(metrics),
    )  # fmt: skip
    with standard_output(_NARROWEST) as console:
        if not first:
            console.print()
        console.print(Text(running(file), style="bold"))
        console.print(Text(f"{running(setting(header))} · ended: {running(end.reason) if end else 'no end record'}"))
        for table in (table for table in tables if table is not None):
            console.print()
            console.print(table)


def _whole(metrics: Metrics) -> Table:
    table = table_of("whole run", "value", "95 % interval", "n", "")
    for name in _COUNTS:
        table.add_row(name, f"{getattr(metrics, name):,}")
    for name, meaning in _ESTIMATES:
        table.add_row(name, *cells(getattr(metrics, name)), meaning)
    for name, meaning in _OWN_ESTIMATES:
        if getattr(metrics, name) is not None:
            table.add_row(name, *cells(getattr(metrics, name)), meaning)
    for stage, estimate in metrics.stage_ms.items():
        table.add_row(Text(f"stage_ms {running(stage)}"), *cells(estimate), "milliseconds, median")
    for name in ("overlap_efficiency", "bubble_target", "bubble_draft", "wasted_draft_s"):
        if getattr(metrics, name) is not None:
            table.add_row(name, figure(getattr(metrics, name)))
    return table


def _modelled(metrics: Metrics, pair: bool) -> Table | None:
    """The run on the modelled clock: a table of its own, for none of its times was measured. With one model alone
    there are no two lanes, and the target's pass is the unit."""
    if metrics.modelled is None:
        return None
    table = table_of("modelled clock", "value", "")
    for name, meaning in _MODELLED if pair else _ALONE:
        value = getattr(metrics.modelled, name)
        table.add_row(name, numbers.UNKNOWN if value is None else figure(value), meaning)
    return table


def _branches(metrics: Metrics) -> Table | None:
    """How often one of k branches was the target's token."""
    if not metrics.branch_hit_rate:
        return None
    table = table_of("branches", "branch_hit_rate", "95 % interval", "n")
    for k, estimate in metrics.branch_hit_rate.items():
        table.add_row(str(k), *cells(estimate))
    return table


def _confusion(metrics: Metrics) -> Table | None:
    """What the classifier said against what the verdict showed; precision by row, recall by column."""
    found = metrics.hrad_confusion
    if found is None:
        return None
    table = table_of("hrad_confusion", *(f"true {true}" for true in (0, 1, 2)), "precision")
    for said, counts in found.items():
        n = sum(counts.values())
        table.add_row(f"said {said}", *(f"{counts[true]:,}" for true in counts), numbers.percent(counts[said] / n))
    recall = [(found.get(true, {}).get(true, 0), sum(counts[true] for counts in found.values())) for true in (0, 1, 2)]
    table.add_row("recall", *(numbers.percent(hits / n if n else None) for hits, n in recall), "")
    return table


def _positions(metrics: Metrics) -> Table | None:
    """Survival and acceptance by draft position."""
    survival, acceptance = metrics.survival or {}, metrics.position_acceptance or {}
    if not survival and not acceptance:
        return None
    table = table_of("position", "survival", "95 %", "n", "position_acceptance", "95 %", "n")
    for place in sorted({*survival, *acceptance}):
        table.add_row(str(place), *cells(survival.get(place)), *cells(acceptance.get(place)))
    return table


def _depths(metrics: Metrics) -> Table | None:
    """Acceptance of single nodes by depth."""
    if not metrics.depth_acceptance:
        return None
    table = table_of("depth", "depth_acceptance", "95 % interval", "n")
    for depth, estimate in metrics.depth_acceptance.items():
        table.add_row(str(depth), *cells(estimate))
    return table


def _histogram(metrics: Metrics) -> Table | None:
    """Blocks by accepted tokens, and the share that committed more than so many."""
    if metrics.accepted_histogram is None or metrics.share_above is None:
        return None
    most = max(metrics.accepted_histogram.values())
    table = table_of("accepted", "blocks", "share_above", "95 % interval", "")
    for count, blocks in metrics.accepted_histogram.items():
        above = cells(metrics.share_above[count])[:2] if count in metrics.share_above else ("", "")
        table.add_row(str(count), f"{blocks:,}", *above, "█" * round(_BAR * blocks / most))
    return table


def _same_draft(metrics: Metrics) -> Table | None:
    """Three verifiers on the drafts and uniforms of this run: exactly expected, replayed, and paired with tokenwise."""
    same = metrics.same_draft
    if same is None:
        return None
    headings = ("expected_accepted", "accepted", "95 %", "gain over tokenwise", "95 %", "n")
    table = table_of("same_draft", *headings)
    for rule, expected in same.expected_accepted.items():
        name = "hsd = blockwise" if rule == CAPPED else rule
        table.add_row(name, figure(expected), *cells(same.accepted[rule])[:2], *cells(same.gain.get(rule)))
    return table


_BASES = {"all_kept": "every node the target saw", "on_path": "on the path: given a right prefix"}


def rank_tables(metrics: Metrics) -> Iterator[Table]:
    """Those that apply to the run."""
    for basis, words in _BASES.items():
        if metrics.bucket_confusion is not None:
            yield _rank_confusion(metrics.bucket_confusion[basis], words)
    if metrics.coverage:
        table = table_of("width", "coverage", "95 % interval", "n", "written tokens among the children, on the path")
        for width, estimate in metrics.coverage.items():
            table.add_row(str(width), *cells(estimate))
        yield table
    if metrics.slot_accuracy:
        yield _slots(metrics)
    if metrics.block_counts:
        yield _blocks(metrics)
    if metrics.depth_counts:
        table = table_of("depth_counts", "offered", "sent", "tested", "accepted")
        for depth, count in metrics.depth_counts.items():
            row = (count.nodes, count.sent, count.tested, count.accepted)
            table.add_row(f"depth {depth}", *(f"{n:,}" for n in row))
        yield table
    if metrics.adapted is not None:
        yield _adapted(metrics)


def _rank_confusion(found: dict[int, dict[int, int]], words: str) -> Table:
    """Predicted = rows, true = columns; precision by row, recall by column."""
    table = table_of("bucket_confusion", *(f"true {name}" for name in BUCKETS), "precision", words)
    every = range(len(BUCKETS))
    for pred in every:
        row = [found[true][pred] for true in every]
        precision = row[pred] / sum(row) if sum(row) else None
        table.add_row(f"predicted {BUCKETS[pred]}", *(f"{count:,}" for count in row), numbers.percent(precision))
    columns = [(found[true][true], sum(found[true].values())) for true in every]
    table.add_row("recall", *(numbers.percent(hits / n if n else None) for hits, n in columns))
    return table


def _slots(metrics: Metrics) -> Table:
    table = table_of("slot_accuracy", "slot", "first right", "95 % interval", "bucket right", "95 % interval", "n")
    for block, slots in (metrics.slot_accuracy or {}).items():
        for slot, found in slots.items():
            table.add_row(f"block {block}", str(slot), *cells(found.top1)[:2], *cells(found.bucket))
    return table


def _blocks(metrics: Metrics) -> Table:
    """A level of eagle3 counts as a block; medusa has one."""
    table = table_of("block_counts", "calls", "starts", "offered", "sent", "tested", "accepted", "ms a call")
    for block, count in (metrics.block_counts or {}).items():
        ms = figure(count.ns / count.calls / 1e6) if count.calls else numbers.UNKNOWN
        counts = (count.calls, count.starts, count.nodes, count.sent, count.tested, count.accepted)
        table.add_row(f"block {block}", *(f"{n:,}" for n in counts), ms)
    return table


def _adapted(metrics: Metrics) -> Table:
    found = metrics.adapted
    assert found is not None
    table = table_of("adapted", "value", "learning while serving")
    table.add_row("queries", f"{found.n_queries:,}", ", ".join(f"{name} {n}" for name, n in found.actions.items()))
    table.add_row("reasons", "", ", ".join(f"{name} {n}" for name, n in found.reasons.items()))
    table.add_row("spent_s", figure(found.spent_s), f"seconds of exploring, of {figure(found.budget_s)} allowed")
    table.add_row("regret", numbers.UNKNOWN if found.regret is None else figure(found.regret), "seconds")
    table.add_row("n_reverted", f"{found.n_reverted:,}", "updates taken back")
    table.add_row("version", str(found.version), "of the drafter's weights")
    return table
