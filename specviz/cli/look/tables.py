"""The tables of `specviz stats`: one for the whole run; branches, ranks and learning of the methods that have them; by
draft position and depth; a histogram. Names, words and order come from the registry of metrics.
"""

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from specviz import numerals
from specviz.cli.printing import cells, figure, narrate, setting, table_of
from specviz.console import standard_output
from specviz.events import Calibration, End, Header
from specviz.metrics import METRICS, Estimate, Metrics, SameDraft
from specviz.metrics.ranks import AdaptCounts
from specviz.metrics.tallies import Modelled
from specviz.text import running
from specviz.traits import CAPPED
from specviz.view.frame.judgement import RunCard, RunJudgement
from specviz.view.panels.built import block_panels
from specviz.view.panels.lanes.payoff import PayPanel, pay_panel
from specviz.view.panels.ranks.model import BUCKETS

_NARROWEST = 100  # columns of a table when standard output is not a terminal
_BAR = 24
# Groups of the first table, in the order they are read, before those that only an extension has.
_GROUPS = ("run", "drafting", "common", "trees", "branches", "exits", "wrong exits", "stages", "lanes")
_ALWAYS = "common"  # shown where they are undefined too
_PLACED = ("branch_hit_rate", "coverage", "share_above", "survival", "position_acceptance", "depth_acceptance")
_MODELLED = (
    ("speedup", "over plain decoding on this clock, which is not that of the run"),
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


def print_run(
    file: str,
    header: Header,
    end: End | None,
    metrics: Metrics,
    judgement: RunJudgement,
    first: bool = True,
    costs: Calibration | None = None,
) -> None:
    """One run on standard output: what it comes to, then tables; what the first one cannot hold has one of its own."""
    tables = [
        _whole(metrics),
        *_modelled(metrics.modelled, header.models.draft is not None),
        *_branches(metrics),
        *_trees(metrics),
        *_lengths(metrics),
        *_same_draft(metrics.same_draft),
        *_others(metrics),
    ]
    with standard_output(_NARROWEST) as console:
        if not first:
            console.print()
        console.print(Text(running(file), style="bold"))
        console.print(Text(f"{running(setting(header))} · ended: {running(end.reason) if end else 'no end record'}"))
        _judgement(console, judgement)
        for table in tables:
            console.print()
            console.print(table)
        for words, table in _pay(pay_panel(header, costs, metrics, header.knobs)):
            console.print()
            console.print(table)
            console.print(Text(words))


def print_panels(path: Path, header: Header) -> None:
    """Panels that are nothing but blocks, as they stand at the end of the run; painted by the terminal."""
    panels = [panel for panel in block_panels() if panel.in_stats and panel.needs(header.method_traits)]
    if not panels:
        return
    if find_spec("textual") is None:
        narrate(f"specviz: {', '.join(panel.title for panel in panels)}: to see more of it, install specviz-llm[tui]")
        return
    from specviz.runlog.fold import fold
    from specviz.trace import read_events
    from specviz.view import Options, Player
    from specviz_tui.common.blocks import painted
    from specviz_tui.common.paint import Painter

    player = Player(fold(read_events(path)), animate=False)
    player.seek_index(len(player.run.rounds) - 1)
    frame = player.frame(Options(shown=tuple(panel.id for panel in panels)))
    with standard_output(_NARROWEST) as console:
        for panel in panels:
            model = panel.of(frame)
            if model is not None and model.missing is None:
                console.print(Text(f"\n{panel.title}", style="bold"))
                console.print(painted(model.blocks, Painter(), console.width, titles=True))


def _pay(panel: PayPanel) -> Iterator[tuple[str, Table]]:
    """Tokens a second by draft length, and what that comes to."""
    if panel.curve is None:
        return
    curve = panel.curve
    table = table_of("draft length", "tokens/s", "95 %", "")
    for gamma in curve.gammas:
        notes = {0: "plain decoding", curve.own: "this run's", curve.best: "best"}
        ends = f"{figure(curve.low[gamma])} .. {figure(curve.high[gamma])}"
        table.add_row(str(gamma), figure(curve.speeds[gamma]), ends, notes.get(gamma, ""))
    yield f"{panel.words}\n{panel.point_text}\n{panel.note}", table


def _judgement(console: Console, judgement: RunJudgement) -> None:
    """The run in one line, how its speed-up came about, and what stands out with the rounds that show it."""
    if judgement.card is not None:
        _card(console, judgement.card)
    if not judgement.tokens:
        return
    console.print()
    console.print(Text(judgement.line, style="bold"))
    if judgement.basis_words:
        console.print(Text(judgement.basis_words))
    for finding in judgement.findings:
        console.print()
        console.print(Text(f"! {finding.headline}", style="bold"))
        console.print(Padding(Text(finding.text), (0, 0, 0, 2)))
        if finding.places:
            console.print(Text(f"  seen in {finding.where} (specviz tui FILE --at {finding.places[0].at})"))


def _card(console: Console, card: RunCard) -> None:
    """For a run of another engine: its engine and rule, and contradictions in its record."""
    console.print()
    for label, words in card.rows:
        red = label == "promise" and card.tone == "broken"
        console.print(Text(f"{label}: ", style="bold").append(words, style="bold red" if red else ""))
    for words in card.violations:
        console.print(Text(f"! {words}", style="bold red"))


def _whole(metrics: Metrics) -> Table:
    """Every metric that is one number, or one of every stage."""
    table = table_of("whole run", "value", "95 % interval", "n", "")
    groups = list(dict.fromkeys((*_GROUPS, *(spec.group for spec in METRICS.values()))))
    for spec in sorted(METRICS.values(), key=lambda spec: groups.index(spec.group)):
        value = metrics[spec.name]
        if isinstance(value, Estimate) or (value is None and spec.group == _ALWAYS):
            table.add_row(spec.name, *cells(value), spec.help)
        elif isinstance(value, int | float):
            table.add_row(spec.name, f"{value:,}" if isinstance(value, int) else figure(value))
        elif spec.group == "stages":
            for stage, estimate in value.items():
                table.add_row(Text(f"{spec.name} {running(stage)}"), *cells(estimate), spec.help)
    return table


def _modelled(modelled: Modelled | None, pair: bool) -> Iterator[Table]:
    """The run on the modelled clock: a table of its own, for none of its times was measured, by the names of the JSON.
    With one model alone there are no two lanes, and the target's pass is the unit."""
    if modelled is None:
        return
    table = table_of("modelled clock", "value", "")
    for name, meaning in _MODELLED if pair else _ALONE:
        value = getattr(modelled, name)
        table.add_row(f"modelled.{name}", numerals.UNKNOWN if value is None else figure(value), meaning)
    yield table


def _numbered(what: str, name: str, estimates: Mapping[int, Estimate] | None, *notes: str) -> Iterator[Table]:
    """A metric that has an estimate for every `what`."""
    if estimates:
        table = table_of(what, name, "95 % interval", "n", *notes)
        for key, estimate in estimates.items():
            table.add_row(str(key), *cells(estimate))
        yield table


def _others(metrics: Metrics) -> Iterator[Table]:
    """Tables of the metrics that no other table shows: estimates by number that extensions registered."""
    for name, estimates in metrics.items():
        if name in _PLACED or not isinstance(estimates, dict):
            continue
        if all(isinstance(key, int) and isinstance(value, Estimate) for key, value in estimates.items()):
            yield from _numbered("", name, estimates, METRICS[name].help)


def _confusion(
    title: str, word: str, names: Sequence[object], counts: Mapping[int, Mapping[int, int]], *notes: str
) -> Table:
    """`counts[predicted][true]`: predicted = rows, true = columns; precision by row, recall by column."""
    table = table_of(title, *(f"true {name}" for name in names), "precision", *notes)
    for pred, row in counts.items():
        shares = _share(row[pred], sum(row.values()))
        table.add_row(f"{word} {names[pred]}", *(f"{row[true]:,}" for true in range(len(names))), shares)
    columns = [
        (counts.get(true, {}).get(true, 0), sum(row[true] for row in counts.values())) for true in range(len(names))
    ]
    table.add_row("recall", *(_share(hits, n) for hits, n in columns))
    return table


def _share(hits: int, n: int) -> str:
    return numerals.percent(hits / n if n else None)


def _branches(metrics: Metrics) -> Iterator[Table]:
    """How often one of k branches was the target's token; what the classifier said against what the verdict showed."""
    yield from _numbered("branches", "branch_hit_rate", metrics.branch_hit_rate)
    if metrics.hrad_confusion is not None:
        yield _confusion("hrad_confusion", "said", range(3), metrics.hrad_confusion)


_BASES = {"all_kept": "every node the target saw", "on_path": "on the path: given a right prefix"}


def _trees(metrics: Metrics) -> Iterator[Table]:
    """Trees shaped by predicted ranks. A level of eagle3 counts as a block; medusa has one."""
    every = range(len(BUCKETS))
    for basis, words in _BASES.items() if metrics.bucket_confusion is not None else ():
        by_true = metrics.bucket_confusion[basis]
        counts = {pred: {true: by_true[true][pred] for true in every} for pred in every}
        yield _confusion("bucket_confusion", "predicted", BUCKETS, counts, words)
    yield from _numbered("width", "coverage", metrics.coverage, METRICS["coverage"].help)
    if metrics.slot_accuracy:
        table = table_of("slot_accuracy", "slot", "first right", "95 % interval", "bucket right", "95 % interval", "n")
        for block, slots in metrics.slot_accuracy.items():
            for slot, accuracy in slots.items():
                table.add_row(f"block {block}", str(slot), *cells(accuracy.top1)[:2], *cells(accuracy.bucket))
        yield table
    if metrics.block_counts:
        table = table_of("block_counts", "calls", "starts", "offered", "sent", "tested", "accepted", "ms a call")
        for block, count in metrics.block_counts.items():
            ms = figure(count.ns / count.calls / 1e6) if count.calls else numerals.UNKNOWN
            row = (count.calls, count.starts, count.nodes, count.sent, count.tested, count.accepted)
            table.add_row(f"block {block}", *(f"{n:,}" for n in row), ms)
        yield table
    if metrics.depth_counts:
        table = table_of("depth_counts", "offered", "sent", "tested", "accepted")
        for depth, count in metrics.depth_counts.items():
            counted = (count.nodes, count.sent, count.tested, count.accepted)
            table.add_row(f"depth {depth}", *(f"{n:,}" for n in counted))
        yield table
    if metrics.adapted is not None:
        yield _adapted(metrics.adapted)


def _adapted(counts: AdaptCounts) -> Table:
    table = table_of("adapted", "value", METRICS["adapted"].help)
    table.add_row("queries", f"{counts.n_queries:,}", ", ".join(f"{name} {n}" for name, n in counts.actions.items()))
    table.add_row("reasons", "", ", ".join(f"{name} {n}" for name, n in counts.reasons.items()))
    table.add_row("spent_s", figure(counts.spent_s), f"seconds of exploring, of {figure(counts.budget_s)} allowed")
    table.add_row("regret", numerals.UNKNOWN if counts.regret is None else figure(counts.regret), "seconds")
    table.add_row("n_reverted", f"{counts.n_reverted:,}", "updates taken back")
    table.add_row("version", str(counts.version), "of the drafter's weights")
    return table


def _lengths(metrics: Metrics) -> Iterator[Table]:
    """Survival and acceptance by draft position, acceptance of single nodes by depth; blocks by accepted tokens, and
    the share that committed more than so many."""
    survival, acceptance = metrics.survival or {}, metrics.position_acceptance or {}
    if survival or acceptance:
        table = table_of("position", "survival", "95 %", "n", "position_acceptance", "95 %", "n")
        for place in sorted({*survival, *acceptance}):
            table.add_row(str(place), *cells(survival.get(place)), *cells(acceptance.get(place)))
        yield table
    yield from _numbered("depth", "depth_acceptance", metrics.depth_acceptance)
    if metrics.accepted_histogram is not None and metrics.share_above is not None:
        most = max(metrics.accepted_histogram.values())
        table = table_of("accepted", "blocks", "share_above", "95 % interval", "")
        for count, blocks in metrics.accepted_histogram.items():
            above = cells(metrics.share_above[count])[:2] if count in metrics.share_above else ("", "")
            table.add_row(str(count), f"{blocks:,}", *above, "█" * round(_BAR * blocks / most))
        yield table


def _same_draft(same: SameDraft | None) -> Iterator[Table]:
    """Three verifiers on the drafts of this run: expected of them, estimated for such drafts, replayed, and paired."""
    if same is None:
        return
    headings = ("expected", "estimated", "accepted", "95 %", "gain over tokenwise", "95 %", "n")
    table = table_of("same_draft", *headings)
    for rule, estimated in same.estimated_accepted.items():
        name = "hsd = blockwise" if rule == CAPPED else rule
        expected = "" if (value := same.expected_accepted[rule]) is None else figure(value)
        table.add_row(name, expected, figure(estimated), *cells(same.accepted[rule])[:2], *cells(same.gain.get(rule)))
    yield table
