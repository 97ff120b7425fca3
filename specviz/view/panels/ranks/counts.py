"""The tables of screen *Ranks* over a run: predicted against true buckets, the expansions of a cell, width spent and
useful, slots, blocks and depths. Every number comes from `specviz.metrics`; here they are arranged and explained."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from specviz.runlog.fold import Run
from specviz.text import shown
from specviz.view.frame.steps import root_text
from specviz.view.panels.ranks.facts import Picked, Placed, true_token
from specviz.view.panels.ranks.model import (
    BUCKETS,
    REACH_WIDTHS,
    BlockRow,
    CellEntry,
    CellList,
    Confusion,
    ConfusionCell,
    DepthRow,
    RankFilter,
    ReachPoint,
    ReachRow,
    SlotRow,
    WidthRow,
)
from specviz.view.panels.ranks.tree import cost_of
from specviz.view.words.numbers import mean, percent, share

if TYPE_CHECKING:
    from specviz.metrics import Metrics
    from specviz.metrics.ranks import Seen

N = len(BUCKETS)
LISTED = 500  # entries of a cell
MOST_REACH = 20
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
    given = tuple(_width(known, b) for b in range(N))
    cells = tuple(tuple(_cell(counts, pred, true, given, cursor) for true in range(N)) for pred in range(N))
    right = sum(counts[b][b] for b in range(N))
    widths = [seen.width for seen in known if seen.reason == "bucket"]
    narrow = [seen for seen in known if seen.true is not None and seen.true > seen.bucket]
    wide = [seen for seen in known if (seen.true or 0) < seen.bucket and seen.reason != "give_up"]
    gave_up = [seen for seen in known if seen.reason == "give_up"]
    extra = sum(max(0, seen.n_children - max(1, ranks.needed(seen.true or 0, widths))) for seen in wide)
    written = picked.wanted.path_only
    uncovered = sum(not seen.covers(written) for seen in narrow)
    reachable = sum(seen.true is not None and seen.true < N - 1 and not seen.covers(written) for seen in gave_up)
    return Confusion(
        cells=cells,
        precision=tuple(share(counts[b][b], sum(counts[t][b] for t in range(N))) for b in range(N)),
        recall=tuple(share(counts[b][b], sum(counts[b].values())) for b in range(N)),
        spent=tuple(mean([seen.n_children for seen in known if seen.bucket == b]) for b in range(N)),
        widths=given,
        accuracy=share(right, len(known)),
        n=len(known),
        n_unknown=len(picked.placed) - len(known),
        n_narrow=len(narrow),
        n_wide=len(wide),
        n_uncovered=uncovered,
        n_extra=extra,
        n_give_ups=len(gave_up),
        n_reachable=reachable,
        basis=ON_PATH if picked.wanted.path_only else ALL_KEPT,
        findings=tuple(_findings(len(narrow), uncovered, len(wide), extra, len(gave_up), reachable, picked)),
        cursor=cursor,
    )


def _cell(
    counts: dict[int, dict[int, int]], pred: int, true: int, given: Sequence[str], cursor: tuple[int, int] | None
) -> ConfusionCell:
    count, cost = counts[true][pred], cost_of(pred, true, given[pred].startswith("0"))
    assert cost is not None
    row, column = sum(counts[t][pred] for t in range(N)), sum(counts[true].values())
    return ConfusionCell(pred, true, count, share(count, row), share(count, column), cost, cursor == (pred, true))


def _width(known: Sequence["Seen"], bucket: int) -> str:
    """What a predicted bucket got, as a rule: `4`, `0, gives up`. The root's first slot is no case of it."""
    mine = Counter(
        seen.width
        for seen in known
        if seen.bucket == bucket and (seen.reason == "bucket" or (seen.reason == "give_up" and bucket == N - 1))
    )
    if not mine:
        return "—"
    width = mine.most_common(1)[0][0]
    return str(width) if width else "0, gives up"


def _findings(
    narrow: int, uncovered: int, wide: int, extra: int, gave_up: int, reachable: int, picked: Picked
) -> list[str]:
    """The two ways to be wrong cost differently: that is worth a sentence each."""
    out = []
    if narrow:
        ends = "the round ended there" if picked.wanted.path_only else "a walk that comes there ends"
        out.append(f"{narrow} too narrow; in {uncovered} of them the token was not offered and {ends}")
    if wide:
        out.append(f"{wide} too wide: {extra} children more than the true bucket asks for")
    if gave_up:
        slots = "slot" if gave_up == 1 else "slots"
        out.append(f"{gave_up} {slots} gave up or lay behind one that did; {reachable} of them had it within rank 10")
    return out


# The expansions of a cell -------------------------------------------------------------------------------------------


def cell_list(run: Run, picked: Picked, at: tuple[int, int], entry: int | None) -> CellList:
    """What a cell holds, newest round first."""
    pred, true = at
    inside = [p for p in picked.placed if (p.seen.bucket, p.seen.true) == (pred, true)]
    mine = list(reversed(inside))[:LISTED]
    written = picked.wanted.path_only
    cursor = min(entry, len(mine) - 1) if entry is not None and mine else None
    title = f"predicted {BUCKETS[pred]} × true {BUCKETS[true]}"
    entries = tuple(_entry(run, placed, k == cursor, written) for k, placed in enumerate(mine))
    return CellList(
        pred,
        true,
        title,
        len(inside),
        entries,
        len(inside) - len(mine),
        _cell_words(pred, true, inside, written),
        cursor,
    )


def _entry(run: Run, placed: Placed, cursor: bool, written: bool) -> CellEntry:
    record, seen = run.rounds[placed.index], placed.seen
    born = record.nodes.get(seen.parent)
    parent = shown(born.text, born.bytes) if born is not None else root_text(run, record)
    each = next((e for e in record.expansions if e.id == seen.id), None)
    rank = seen.rank(written)
    found = true_token(record, each, written) if each is not None else None
    token = "—" if found is None else run.word(found)
    query = f"q{seen.q} " if len(run.queries) > 1 else ""
    return CellEntry(
        index=placed.index,
        q=seen.q,
        round=seen.r,
        node=seen.parent,
        expansion=seen.id,
        block=seen.block,
        slot=seen.slot,
        place=f"{query}r{seen.r} b{seen.block}·s{seen.slot}",
        parent_shown=parent,
        token_shown=token,
        rank=rank,
        width=seen.width,
        covered=None if seen.true is None else seen.covers(written),
        on_path=seen.on_path,
        text=_entry_text(rank, seen.n_children),
        cursor=cursor,
    )


def _entry_text(rank: int | None, offered: int) -> str:
    if rank is None:
        return f"not in the draft's vocabulary, {offered} offered"
    return f"#{rank}, {offered} offered"


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
            f"Within reach, but {gave_up} of {len(inside)} gave up or lay behind a slot that did: no siblings, and no "
            "block starts there."
        )
    return f"Too wide: the token was offered in {covered} of {len(inside)}, and the nodes beyond it bought nothing."


# Widths -------------------------------------------------------------------------------------------------------------


def width_rows(picked: Picked) -> tuple[WidthRow, ...]:
    """By the width that was given: children spent, and how often the token was among them."""
    from specviz.metrics import ranks

    out = []
    written = picked.wanted.path_only
    for width, estimate in ranks.coverage(picked.known, written).items():
        mine = [seen for seen in picked.known if seen.width == width]
        useful = [seen for seen in mine if seen.covers(written)]
        ranked = [rank for seen in useful if (rank := seen.rank(written)) is not None]
        out.append(
            WidthRow(
                width,
                len(mine),
                sum(seen.n_children for seen in mine),
                len(useful),
                estimate.value,
                estimate.interval,
                mean(ranked),
            )
        )
    return tuple(out)


def width_words(rows: Sequence[WidthRow]) -> str:
    """Spent against useful, in a sentence. At most one child of an expansion can be useful."""
    spent, useful, n = (sum(getattr(row, name) for row in rows) for name in ("spent", "useful", "n"))
    if not n:
        return ""
    return (
        f"{spent} children at {n} places, {useful} of which held the target's token: {percent(useful / n)} covered, "
        f"{spent / max(1, useful):.1f} children for each useful one."
    )


def reach_points(picked: Picked) -> tuple[ReachPoint, ...]:
    """What every width would have covered, beside how often it was given."""
    from specviz.metrics import ranks

    known = picked.known
    shares = ranks.reach(known, MOST_REACH, picked.wanted.path_only)
    return tuple(
        ReachPoint(width, value, share(sum(seen.n_children >= width for seen in known), len(known)))
        for width, value in enumerate(shares, 1)
    )


def reach_rows(picked: Picked) -> tuple[ReachRow, ...]:
    """The same by predicted bucket, at some widths: what another width for it would have covered. Exact: what a slot
    says does not depend on how many of its tokens became children."""
    from specviz.metrics import ranks

    written, out = picked.wanted.path_only, []
    for bucket, name in enumerate(BUCKETS):
        mine = [seen for seen in picked.known if seen.bucket == bucket]
        if mine:
            shares = ranks.reach(mine, MOST_REACH, written)
            covered = share(sum(seen.covers(written) for seen in mine), len(mine))
            at = tuple(shares[width - 1] for width in REACH_WIDTHS)
            out.append(ReachRow(name, len(mine), _width(mine, bucket), covered, at))
    return tuple(out)


def slot_rows(picked: Picked) -> tuple[SlotRow, ...]:
    from specviz.metrics import ranks

    out, written = [], picked.wanted.path_only
    for block, slots in ranks.slot_accuracy(picked.known).items():
        for slot, found in slots.items():
            mine = [seen for seen in picked.known if (seen.block, seen.slot) == (block, slot)]
            out.append(
                SlotRow(
                    block,
                    slot,
                    len(mine),
                    found.top1.value if found.top1 else None,
                    found.bucket.value if found.bucket else None,
                    share(sum(s.covers(written) for s in mine), len(mine)),
                    mean([seen.n_children for seen in mine]),
                )
            )
    return tuple(out)


# Blocks and depths --------------------------------------------------------------------------------------------------


def block_rows(run: Run, metrics: "Metrics | None") -> tuple[BlockRow, ...]:
    """By block level; what a call costs, and what of the budget it used for how many kept tokens."""
    counts = metrics.block_counts if metrics is not None else None
    if not counts:
        return ()
    name = {"blocks": "block", "heads": "call"}.get(run.method_traits.tree, "level")
    sent = sum(count.sent for count in counts.values())
    return tuple(
        BlockRow(
            block,
            f"{name} {block}",
            count.calls,
            count.starts / count.calls if count.calls else 0.0,
            count.nodes,
            count.sent,
            share(count.sent, sent),
            count.accepted,
            share(count.accepted, count.sent),
            count.ns / count.calls / 1e6 if count.calls else None,
        )
        for block, count in counts.items()
    )


def depth_rows(metrics: "Metrics | None") -> tuple[DepthRow, ...]:
    counts = metrics.depth_counts if metrics is not None else None
    if metrics is None or not counts:
        return ()
    return tuple(
        DepthRow(
            depth,
            count.sent,
            count.tested,
            count.accepted,
            share(count.accepted, count.tested),
            share(count.accepted, metrics.n_rounds),
        )
        for depth, count in counts.items()
    )
