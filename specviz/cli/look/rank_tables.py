"""The tables of `specviz stats` for trees shaped by predicted ranks: buckets, widths, slots, blocks, learning."""

from collections.abc import Iterator

from rich.table import Table

from specviz.cli.cells import cells, figure, table_of
from specviz.metrics import Metrics
from specviz.view.panels.ranks.model import BUCKETS
from specviz.view.words import numbers

_BASES = {"all_kept": "every node the target saw", "on_path": "on the path: given a right prefix"}


def rank_tables(metrics: Metrics) -> Iterator[Table]:
    """Those that apply to the run."""
    for basis, words in _BASES.items():
        if metrics.bucket_confusion is not None:
            yield _confusion(metrics.bucket_confusion[basis], words)
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


def _confusion(found: dict[int, dict[int, int]], words: str) -> Table:
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
