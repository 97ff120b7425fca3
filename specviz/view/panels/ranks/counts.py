"""The tables of screen *Ranks* over a run: predicted against true buckets, the expansions of a cell, width spent and
useful, slots, blocks and depths. Every number comes from `specviz.metrics`; here they are arranged and explained."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from specviz.numerals import UNKNOWN, number, percent, plural, prob
from specviz.runlog.fold import Run
from specviz.runlog.run import Mark
from specviz.text import shown
from specviz.view.blocks import Cell, Destination, Facts, Heat, Plot, PlotCurve, Square, TableBlock
from specviz.view.frame.steps import root_text
from specviz.view.panels.ranks.facts import Picked, Placed, true_token
from specviz.view.panels.ranks.model import (
    BUCKET_WORDS,
    BUCKETS,
    COSTS,
    Confusion,
    RankFilter,
    RunRanks,
)
from specviz.view.panels.ranks.tree import cost_of
from specviz.view.words.numbers import mean, share
from specviz.view.words.palette import COSTS as COST_STYLES
from specviz.view.words.palette import RankCost, glyph

if TYPE_CHECKING:
    from specviz.metrics import Metrics
    from specviz.metrics.ranks import ScoredExpansion

N = len(BUCKETS)
LISTED = 500  # entries of a cell
MOST_REACH, REACH_WIDTHS = 20, (1, 2, 3, 4, 6, 8, 10, 15, 20)
_SENT = "sent: nodes of the budget, by the block that offered them first; kept: they became text"
ON_PATH = "on the path only: given that every token before was right; the token is the one that was written"
ALL_KEPT = "at every node the target saw, on the path or not; the token is the target's best there"


def filter_text(wanted: RankFilter) -> str:
    """`all blocks · slot 2 · on the path`."""
    block = "all blocks" if wanted.block is None else f"block {wanted.block}"
    slot = "all slots" if wanted.slot is None else f"slot {wanted.slot}"
    return f"{block} · {slot} · {'on the path' if wanted.path_only else 'all kept'}"


# Predicted against true ---------------------------------------------------------------------------------------------


def confusion(picked: Picked, cursor: tuple[int, int] | None) -> Confusion | None:
    """The table of a filter; None where no expansion is known."""
    from specviz.metrics import ranks

    known = picked.known
    if not known:
        return None
    counts = ranks.confusion(known)
    widths_given = tuple(_width(known, b) for b in range(N))
    costs = tuple(tuple(_cost(pred, true, widths_given[pred]) for true in range(N)) for pred in range(N))
    rows = [sum(counts[true][pred] for true in range(N)) for pred in range(N)]
    right = [share(counts[b][b], rows[b]) for b in range(N)]
    recalls = [share(counts[b][b], sum(counts[b].values())) for b in range(N)]
    spent = [mean([seen.n_children for seen in known if seen.bucket == b]) for b in range(N)]
    basis = ON_PATH if picked.wanted.path_only else ALL_KEPT
    findings = tuple(_findings(picked))
    heat = Heat(
        "ranks-confusion",
        "Predicted × true bucket",
        tuple(f"pred {name}" for name in BUCKETS),
        tuple(f"true {name}" for name in BUCKETS),
        tuple(
            tuple(_square(counts, pred, true, rows[pred], costs[pred][true], widths_given[pred]) for true in range(N))
            for pred in range(N)
        ),
        ("precision", "children"),
        tuple((prob(right[b]), number(spent[b], 1)) for b in range(N)),
        (("recall", *map(prob, recalls)),),
        help="Which rank the target's token has: as the rank head said, and as it was. "
        + " ".join(f"{style.glyph} {style.word}." for cost, style in COST_STYLES.items() if cost != "right"),
        words=f"{sum(counts[b][b] for b in range(N)):,} of {len(known):,} right. Counted {basis}. "
        + " ".join(f"{words}." for words in findings),
        cursor=cursor,
    )
    return Confusion(heat, widths_given, len(known), len(picked.placed) - len(known), basis, findings)


def _cost(pred: int, true: int, children: str) -> RankCost:
    cost = cost_of(pred, true, children.startswith("0"))
    assert cost is not None
    return cost


def _square(
    counts: dict[int, dict[int, int]], pred: int, true: int, in_row: int, cost: RankCost, children: str
) -> Square:
    count, mark = counts[true][pred], COSTS[cost][0]
    note = (
        f"predicted {BUCKETS[pred]} ({BUCKET_WORDS[pred]}), was {BUCKETS[true]} ({BUCKET_WORDS[true]}): {count:,} "
        f"expansions\n{percent(share(count, in_row))} of its row, "
        f"{percent(share(count, sum(counts[true].values())))} of its column\n{COSTS[cost][1]}\n"
        f"children given: {children}\na click lists them"
    )
    return Square(f"{count:,}", share(count, in_row), COST_STYLES[cost].glyph if count else "", mark, note)


def _width(known: Sequence["ScoredExpansion"], bucket: int) -> str:
    """What a predicted bucket got, as a rule: `4`, `0, stops widening`. The root's first slot is no case of it."""
    mine = Counter(
        seen.width
        for seen in known
        if seen.bucket == bucket and (seen.reason == "bucket" or (seen.reason == "give_up" and bucket == N - 1))
    )
    if not mine:
        return "—"
    width = mine.most_common(1)[0][0]
    return str(width) if width else "0, stops widening"


def _findings(picked: Picked) -> list[str]:
    """The two ways to be wrong cost differently: that is worth a sentence each."""
    from specviz.metrics import ranks

    known, written = picked.known, picked.wanted.path_only
    widths = [seen.width for seen in known if seen.reason == "bucket"]
    narrow = [seen for seen in known if seen.true is not None and seen.true > seen.bucket]
    wide = [seen for seen in known if (seen.true or 0) < seen.bucket and seen.reason != "give_up"]
    gave_up = [seen for seen in known if seen.reason == "give_up"]
    out = []
    if narrow:
        uncovered = sum(not seen.covers(written) for seen in narrow)
        ends = "the round ended there" if written else "a walk that comes there ends"
        out.append(f"{len(narrow)} too narrow; in {uncovered} of them the token was not offered and {ends}")
    if wide:
        extra = sum(max(0, seen.n_children - max(1, ranks.needed(seen.true or 0, widths))) for seen in wide)
        out.append(f"{len(wide)} too wide: {extra} children more than the true bucket asks for")
    if gave_up:
        reachable = sum(seen.true is not None and seen.true < N - 1 and not seen.covers(written) for seen in gave_up)
        stopped = f"{plural(len(gave_up), 'slot')} stopped widening or lay behind one that did"
        out.append(f"{stopped}; {reachable} of them had it within rank 10")
    return out


# The expansions of a cell -------------------------------------------------------------------------------------------


def cell_table(run: Run, picked: Picked, at: tuple[int, int], entry: int | None) -> TableBlock:
    """What a cell holds, newest round first, and where each of it is."""
    pred, true = at
    inside = [p for p in picked.placed if (p.seen.bucket, p.seen.true) == (pred, true)]
    mine = list(reversed(inside))[:LISTED]
    written = picked.wanted.path_only
    words = _cell_words(pred, true, inside, written)
    more = f" {len(inside) - len(mine):,} more, of earlier rounds, are not listed." if len(inside) > len(mine) else ""
    return TableBlock(
        f"ranks-entries-{pred}-{true}",
        ("round", "", "after", "target's best", "rank", "offered", "width", "on the path"),
        tuple(_entry(run, placed, written) for placed in mine),
        title=f"predicted {BUCKETS[pred]} × true {BUCKETS[true]} ({len(inside):,})",
        words=words + more,
        missing="" if mine else words,
        places=tuple(Destination(placed.index, placed.seen.parent) for placed in mine),
        cursor=min(entry, len(mine) - 1) if entry is not None and mine else None,
    )


def _entry(run: Run, placed: Placed, written: bool) -> tuple[Cell, ...]:
    record, seen = run.rounds[placed.index], placed.seen
    born = record.nodes.get(seen.parent)
    expansion = next((e for e in record.expansions if e.id == seen.id), None)
    rank = seen.rank(written)
    truth = true_token(record, expansion, written) if expansion is not None else None
    covered = None if seen.true is None else seen.covers(written)
    mark: Mark = "accepted" if covered else "rejected"
    query = f"q{seen.q} " if len(run.queries) > 1 else ""
    return (
        Cell(f"{query}r{seen.r} b{seen.block}·s{seen.slot}"),
        Cell("" if covered is None else glyph(mark), covered, mark=mark),
        Cell(shown(born.text, born.bytes) if born is not None else root_text(run, record)),
        Cell(UNKNOWN if truth is None else run.word(truth)),
        Cell("not in the draft's vocabulary" if rank is None else f"#{rank}", rank),
        Cell(str(seen.n_children), seen.n_children),
        Cell(str(seen.width), seen.width),
        Cell("yes" if seen.on_path else "", seen.on_path),
    )


def _cell_words(pred: int, true: int, inside: Sequence[Placed], written: bool) -> str:
    """What being in this cell costs."""
    if not inside:
        return "No expansion of this filter is in this cell."
    covered = sum(placed.seen.covers(written) for placed in inside)
    if true == pred:
        return f"The right bucket; {covered} of {len(inside)} had the token among their children."
    if true > pred:
        return (
            f"Too narrow: {len(inside) - covered} of {len(inside)} did not offer the target's token, and a walk that "
            "comes there ends."
        )
    gave_up = sum(placed.seen.reason == "give_up" for placed in inside)
    if gave_up:
        return (
            f"Within reach, but {gave_up} of {len(inside)} stopped widening or lay behind a slot that did: no "
            "siblings, and no block starts there."
        )
    return f"Too wide: the token was offered in {covered} of {len(inside)}, and the nodes beyond it bought nothing."


# Over the run -------------------------------------------------------------------------------------------------------


def over_run(run: Run, picked: Picked, metrics: "Metrics | None", summary: Facts) -> RunRanks:
    """Everything that is counted over the run."""
    offered = (widths(picked), reach(picked), other_widths(picked), slots(picked))
    return RunRanks(summary, *offered, blocks(run, metrics), depths(metrics))


def widths(picked: Picked) -> Plot:
    """By the width that was given: children spent, and how often the token was among them."""
    from specviz.metrics import ranks

    written = picked.wanted.path_only
    covered = ranks.coverage(picked.known, written)
    groups = [[seen for seen in picked.known if seen.width == width] for width in covered]
    spent = tuple(sum(seen.n_children for seen in group) for group in groups)
    useful = tuple(sum(seen.covers(written) for seen in group) for group in groups)
    lines = []
    for width, group, n_spent, n_useful in zip(covered, groups, spent, useful, strict=True):
        coverage = covered[width]
        low, high = coverage.interval or (None, None)
        rank = mean([rank for seen in group if seen.covers(written) and (rank := seen.rank(written)) is not None])
        lines.append(
            (
                Cell(str(width), width),
                Cell(f"{len(group):,}", len(group)),
                Cell(f"{n_spent:,}", n_spent),
                Cell(f"{n_useful:,}", n_useful),
                Cell(prob(coverage.value), coverage.value, coverage.value, "accepted"),
                Cell("" if low is None else f"{prob(low)}–{prob(high)}"),
                Cell(number(rank, 1), rank),
            )
        )
    n, words = len(picked.known), ""
    if n:
        words = (
            f"{sum(spent)} children at {n} places, {sum(useful)} of which held the target's token: "
            f"{percent(sum(useful) / n)} covered, {sum(spent) / max(1, sum(useful)):.1f} children for each useful one."
        )
    heads = ("width", "places", "children", "useful", "covered", "95 %", "token's rank")
    return Plot(
        "ranks-widths",
        "Width spent and useful",
        "width",
        tuple(map(str, covered)),
        (PlotCurve("children spent", spent, "untested"), PlotCurve("useful: the target's token", useful)),
        "count",
        help="children given at each width (0: stopped widening), and expansions where one was the target's token",
        words=words,
        missing="" if covered else "no width was given to an expansion with a known rank",
        table=TableBlock("ranks-widths", heads, tuple(lines), words=words),
    )


def reach(picked: Picked) -> Plot:
    """What every width would have covered, beside how often it was given."""
    from specviz.metrics import ranks

    known = picked.known
    shares = tuple(ranks.reach(known, MOST_REACH, picked.wanted.path_only)) if known else ()
    xs = tuple(range(1, len(shares) + 1))
    width_shares = tuple(share(sum(seen.n_children >= width for seen in known), len(known)) for width in xs)
    return Plot(
        "ranks-reach",
        "Coverage by width",
        "width",
        xs,
        (
            PlotCurve("would be covered", shares, look="step"),
            PlotCurve("were given so much", width_shares, "recovered", "step"),
        ),
        "percent",
        help="what one width for every expansion would have covered, whatever they were given; exact, since the true "
        "ranks are on record",
        words=f"Counted: {filter_text(picked.wanted)}.",
        missing="" if shares else "no true rank is on record",
    )


def other_widths(picked: Picked) -> TableBlock:
    """The same by predicted bucket, at some widths: what another width for it would have covered. Exact: what a slot
    says does not depend on how many of its tokens became children."""
    from specviz.metrics import ranks

    written, rows = picked.wanted.path_only, []
    for bucket, name in enumerate(BUCKETS):
        mine = [seen for seen in picked.known if seen.bucket == bucket]
        if mine:
            shares = ranks.reach(mine, MOST_REACH, written)
            covered = share(sum(seen.covers(written) for seen in mine), len(mine))
            shown = [covered, *(shares[width - 1] for width in REACH_WIDTHS)]
            start = Cell(name), Cell(f"{len(mine):,}", len(mine)), Cell(_width(mine, bucket))
            rows.append((*start, *(Cell(percent(value), value) for value in shown)))
    return TableBlock(
        "ranks-other-widths",
        ("predicted", "places", "given", "covered", *map(str, REACH_WIDTHS)),
        tuple(rows),
        "Other widths on these expansions",
        "What a slot says does not depend on how many of its tokens became children, and the true ranks are on record: "
        "counted, not modelled. Of the recorded expansions only: other widths would start blocks elsewhere.",
        missing="" if rows else "no true rank is on record",
    )


def slots(picked: Picked) -> Plot:
    """How right the rank head and the draft were, slot by slot."""
    from specviz.metrics import ranks

    written = picked.wanted.path_only
    accuracies = [(b, s, accuracy) for b, of in ranks.slot_accuracy(picked.known).items() for s, accuracy in of.items()]
    groups = [[seen for seen in picked.known if (seen.block, seen.slot) == (b, s)] for b, s, _ in accuracies]
    first = tuple(accuracy.top1.value if accuracy.top1 else None for *_, accuracy in accuracies)
    bucket = tuple(accuracy.bucket.value if accuracy.bucket else None for *_, accuracy in accuracies)
    return Plot(
        "ranks-slots",
        "Accuracy by block and slot",
        "",
        tuple(f"b{b} s{s}" for b, s, _ in accuracies),
        (
            PlotCurve("best token right", first),
            PlotCurve("bucket right", bucket, "recovered"),
            PlotCurve("covered", tuple(share(sum(e.covers(written) for e in g), len(g)) for g in groups), "bonus"),
        ),
        "percent",
        help="given what the filter counts; later slots see less",
        words="; ".join(f"block {b} slot {s}: {percent(v)}" for (b, s, _), v in zip(accuracies, first, strict=True)),
        missing="" if accuracies else "no slot with a known rank yet",
        notes=tuple(f"{len(g):,} expansions, mean width {number(mean([e.n_children for e in g]))}" for g in groups),
    )


def blocks(run: Run, metrics: "Metrics | None") -> Plot:
    """By block level; what a call costs, and what of the budget it used for how many kept tokens."""
    counts = (metrics.block_counts if metrics is not None else None) or {}
    name = {"blocks": "block", "heads": "call"}.get(run.method_traits.tree, "level")
    every, sent = list(counts.values()), sum(count.sent for count in counts.values())
    rows = []
    for block, count in counts.items():
        starts = count.starts / count.calls if count.calls else 0.0
        ms = count.ns / count.calls / 1e6 if count.calls else None
        shares = [share(count.accepted, count.sent), share(count.sent, sent)]
        rows.append(
            (
                Cell(f"{name} {block}"),
                *(Cell(f"{n:,}", n) for n in (count.sent, count.accepted)),
                *(Cell(percent(value), value) for value in shares),
                *(Cell(f"{n:,}", n) for n in (count.nodes, count.calls)),
                Cell(number(starts, 1), starts),
                Cell(number(ms), ms),
            )
        )
    heads = ("", "sent", "kept", "kept of sent", "of all sent", "offered", "calls", "starts a call", "ms a call")
    return Plot(
        "ranks-blocks",
        "Budget by block",
        "",
        tuple(f"{name} {block}" for block in counts),
        (
            PlotCurve("kept", tuple(count.accepted for count in every)),
            PlotCurve("sent in vain", tuple(count.sent - count.accepted for count in every), "rejected"),
            PlotCurve("cut by the budget", tuple(count.nodes - count.sent for count in every), "pruned"),
        ),
        "count",
        help="nodes that each block offered first, and what became of them",
        words="; ".join(f"{name} {block}: {count.sent} sent, {count.accepted} kept" for block, count in counts.items()),
        missing="" if counts else "no drafter call is on record",
        flat=True,
        stacked=True,
        table=TableBlock("ranks-block-table", heads, tuple(rows), words=_SENT),
    )


def depths(metrics: "Metrics | None") -> Plot:
    """By depth: how many rounds got so deep, and of the nodes tested there how many lived."""
    counts = (metrics.depth_counts if metrics is not None else None) or {}
    n = metrics.n_rounds if metrics is not None else 0
    every = list(counts.values())
    return Plot(
        "ranks-depths",
        "Acceptance by depth",
        "depth",
        tuple(counts),
        (
            PlotCurve("rounds that got here", tuple(share(count.accepted, n) for count in every)),
            PlotCurve("kept of tested", tuple(share(count.accepted, count.tested) for count in every), "recovered"),
        ),
        "percent",
        help="rounds that kept a node so deep; nodes kept of those the walk tested there",
        words="; ".join(f"depth {depth}: {count.accepted} of {count.tested}" for depth, count in counts.items()),
        missing="" if counts else "no node was sent yet",
        notes=tuple(f"{count.sent:,} sent, {count.tested:,} tested, {count.accepted:,} kept" for count in every),
    )
