"""Figures about ranks over a run: predicted against true buckets, what widths cost and brought, blocks and depths."""

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from specviz.runlog.run import Mark
from specviz.view.panels.ranks.model import (
    BUCKET_WORDS,
    BUCKETS,
    COSTS,
    REACH_WIDTHS,
    BlockRow,
    Confusion,
    DepthRow,
    ReachPoint,
    ReachRow,
    SlotRow,
    WidthRow,
)
from specviz.view.words.numbers import number, percent, prob
from specviz.view.words.palette import RankCost, colour, glyph
from specviz_app.figures import base
from specviz_app.figures.base import sentence

_HEIGHT = 270
_SHARE = {"range": [0, 1.04], "tickformat": ".0%"}
_ARROWS: dict[RankCost, str] = {"right": "", "narrow": " ▸", "wide": " ◂", "gave_up": " ∅"}


def fig_rank_confusion(table: Confusion | None, dark: bool = False) -> go.Figure:
    """Predicted buckets as rows, true ones as columns, counts in the cells, shaded by share of the row.

    Right of the diagonal a width was too narrow (▸), left of it too wide (◂) or given up within reach (∅). At the
    margins precision and recall.
    """
    if table is None or not table.n:
        return base.empty("no expansion with a known rank yet")
    n = len(BUCKETS)
    cells = [cell for row in table.cells for cell in row]
    heat = go.Heatmap(
        x=list(range(n)),
        y=list(range(n)),
        z=[[cell.share for cell in row] for row in table.cells],
        zmin=0,
        zmax=1,
        colorscale=base.SCALE,
        showscale=False,
        hoverinfo="skip",
        xgap=3,
        ygap=3,
        name="confusion",
    )
    clicks = base.squares(
        [(cell.true, cell.pred) for cell in cells],
        [[cell.pred, cell.true] for cell in cells],
        [_cell_hover(table, cell) for cell in cells],
        48,
    )
    words = base.scatter(
        "text",
        "counts",
        [cell.true for cell in cells],
        [cell.pred for cell in cells],
        text=[f"<b>{cell.count:,}</b>{_ARROWS[cell.cost]}" for cell in cells],
        textfont={"size": 15, "color": [_ink(cell.share) for cell in cells]},
    )
    found = [f"true {name}<br>{prob(share)} found" for name, share in zip(BUCKETS, table.recall, strict=True)]
    right = [
        {
            "x": 1.01,
            "y": k,
            "xref": "paper",
            "text": f"{prob(share)}<br>right",
            "showarrow": False,
            "xanchor": "left",
            "font": {"size": 12},
            "align": "left",
        }
        for k, share in enumerate(table.precision)
    ]
    x = {**base.ticks(found), "side": "top", "range": [-0.55, n - 0.45]}
    y = {**base.ticks([f"said {name}" for name in BUCKETS]), "range": [n - 0.4, -0.6]}
    out = base.figure([heat, words, *_chosen(table, dark), clicks], 330, base.BARE | x, base.BARE | y, showlegend=False)
    return out.update_layout(margin={**base.MARGIN, "r": 64}, annotations=right, clickmode="event+select")


def _ink(share: float | None) -> str:
    """On the shade of that share; on the page's own ground where a row is empty."""
    return base.GREY if share is None else "#10141A" if share > 0.5 else "#FFFFFF"


def _cell_hover(table: Confusion, cell: Any) -> str:
    lines = [
        f"<b>said {BUCKETS[cell.pred]} ({BUCKET_WORDS[cell.pred]})</b><br>was {BUCKETS[cell.true]} "
        f"({BUCKET_WORDS[cell.true]}): {cell.count:,} expansions",
        f"{percent(cell.share)} of its row, {percent(cell.of_column)} of its column",
        sentence(COSTS[cell.cost][1]),
        f"children given: {sentence(table.widths[cell.pred])}",
    ]
    return base.told(*lines, "a click lists them")


def _chosen(table: Confusion, dark: bool) -> list[go.Scatter]:
    if table.cursor is None:
        return []
    pred, true = table.cursor
    return [
        base.scatter(
            "markers",
            "chosen",
            [true],
            [pred],
            marker={"symbol": "square-open", "size": 54, "color": colour("rejected", dark), "line": {"width": 4}},
        )
    ]


def rank_confusion_rows(table: Confusion | None) -> list[dict[str, Any]]:
    """The table twin: predicted rows, true columns."""
    if table is None:
        return []
    return [
        {
            "predicted": BUCKETS[p],
            **{f"true {BUCKETS[cell.true]}": cell.count for cell in row},
            "precision": table.precision[p],
            "recall": table.recall[p],
            "children each": table.spent[p],
            "width": table.widths[p],
        }
        for p, row in enumerate(table.cells)
    ]


# Widths -------------------------------------------------------------------------------------------------------------


def fig_widths(rows: Sequence[WidthRow], dark: bool = False) -> go.Figure:
    """By width: children that were spent, and expansions where one of them was the target's token."""
    if not rows:
        return base.empty("no width was given to an expansion with a known rank")
    xs = [str(row.width) if row.width else "0: gave up" for row in rows]
    about = [
        f"width {row.width}: {row.n:,} expansions, {row.spent:,} children<br>{row.useful:,} useful: covered "
        f"{percent(row.coverage)}{_between(row)}<br>mean rank where covered {number(row.mean_rank)}"
        for row in rows
    ]
    common: dict[str, Any] = {"x": xs, "hovertext": about, "hoverinfo": "text"}
    spent = go.Bar(
        **common,
        y=[row.spent for row in rows],
        name="children spent",
        text=[f"{row.spent:,}" for row in rows],
        textposition="outside",
        cliponaxis=False,
        marker={"color": colour("untested", dark), "pattern": base.hatched("/")},
    )
    useful = go.Bar(
        **common,
        y=[row.useful for row in rows],
        name="useful: the target's token",
        textposition="outside",
        marker={"color": colour("accepted", dark)},
        cliponaxis=False,
        text=[f"{row.useful:,}<br>{percent(row.coverage)}" for row in rows],
    )
    x = {"title": "width", "type": "category"}
    y = {"title": "children", "range": [0, max(row.spent for row in rows) * 1.18]}
    return base.figure([spent, useful], _HEIGHT, x, y, barmode="group", bargap=0.25)


def _between(row: WidthRow) -> str:
    return f" (95 % {percent(row.interval[0])} to {percent(row.interval[1])})" if row.interval else ""


def width_rows(rows: Sequence[WidthRow]) -> list[dict[str, Any]]:
    return [
        {
            "width": r.width,
            "expansions": r.n,
            "children": r.spent,
            "useful": r.useful,
            "coverage": r.coverage,
            "from": r.interval[0] if r.interval else None,
            "to": r.interval[1] if r.interval else None,
            "mean rank": r.mean_rank,
        }
        for r in rows
    ]


def fig_reach(points: Sequence[ReachPoint], dark: bool = False) -> go.Figure:
    """What one width for all would have covered, and how many expansions were given so much."""
    if not points:
        return base.empty("no true rank is on record")
    xs = [p.width for p in points]
    cover = base.scatter(
        "lines+markers",
        "would be covered",
        xs,
        [p.share for p in points],
        [f"width {p.width} for all would cover {percent(p.share)}" for p in points],
        line={"shape": "hv"},
        marker={"size": 7, "color": colour("accepted", dark)},
    )
    used = base.scatter(
        "lines+markers",
        "were given so much",
        xs,
        [p.used for p in points],
        [f"{percent(p.used)} of the expansions got width {p.width} or more" for p in points],
        line={"shape": "hv", "dash": "dot", "color": colour("recovered", dark)},
        marker={"size": 7, "symbol": "diamond", "color": colour("recovered", dark)},
    )
    x = {"title": "width", "dtick": 1 if len(xs) <= 10 else 2, "tick0": 2, "range": [0.5, xs[-1] + 0.5]}
    return base.figure([cover, used], _HEIGHT, x, _SHARE)


def reach_rows(points: Sequence[ReachPoint]) -> list[dict[str, Any]]:
    return [{"width": p.width, "would cover": p.share, "given so much": p.used} for p in points]


def other_width_rows(rows: Sequence[ReachRow]) -> list[dict[str, Any]]:
    """By predicted bucket, what other widths would have covered."""
    widths = [str(width) for width in REACH_WIDTHS]
    return [
        {"said": row.bucket, "expansions": row.n, "children given": row.width, "covered": percent(row.covered)}
        | dict(zip(widths, map(percent, row.at), strict=True))
        for row in rows
    ]


# Slots, blocks, depths ----------------------------------------------------------------------------------------------


def fig_slots(rows: Sequence[SlotRow], dark: bool = False) -> go.Figure:
    """A group of bars a (block, slot): best token right, bucket right, covered by the width it was given."""
    if not rows:
        return base.empty("no slot with a known rank yet")
    xs = [f"b{r.block} s{r.slot}" for r in rows]
    about = [
        f"block {r.block}, slot {r.slot}: {r.n:,} expansions<br>best token right {percent(r.top1)}<br>bucket right "
        f"{percent(r.bucket)}<br>covered {percent(r.coverage)}, mean width {number(r.mean_width)}"
        for r in rows
    ]
    groups: list[base.Group] = [
        ("best token right", [r.top1 for r in rows], "accepted", ""),
        ("bucket right", [r.bucket for r in rows], "recovered", "/"),
        ("covered", [r.coverage for r in rows], "bonus", "."),
    ]
    x = {"title": "block and slot", "type": "category"}
    return base.figure(base.bars(xs, groups, dark, about), _HEIGHT, x, _SHARE, barmode="group", bargap=0.3)


def slot_rows(rows: Sequence[SlotRow]) -> list[dict[str, Any]]:
    return base.table(
        "block | slot | expansions | best token right | bucket right | covered | mean width",
        [(r.block, r.slot, r.n, r.top1, r.bucket, r.coverage, r.mean_width) for r in rows],
    )


def fig_blocks(rows: Sequence[BlockRow], dark: bool = False) -> go.Figure:
    """Where the budget went: nodes a block offered first and the budget cut, sent in vain, accepted."""
    if not rows:
        return base.empty("no drafter call is on record")
    names = [sentence(r.label) for r in rows]
    about = [
        f"{sentence(r.label)}: {r.calls:,} calls, {number(r.starts)} starts each, {number(r.ms)} ms<br>{r.nodes:,} "
        f"nodes, {r.sent:,} sent ({percent(r.share)} of all sent), {r.accepted:,} accepted ({percent(r.yield_)})"
        for r in rows
    ]
    looks: tuple[tuple[str, list[int], Mark, str], ...] = (
        (f"{glyph('accepted')} accepted", [r.accepted for r in rows], "accepted", ""),
        ("sent in vain", [r.sent - r.accepted for r in rows], "rejected", "/"),
        ("cut by the budget", [r.nodes - r.sent for r in rows], "pruned", "."),
    )
    drawn = [
        base.bar(
            name,
            values,
            names,
            about,
            orientation="h",
            text=[f"{v:,}" if v else "" for v in values],
            textposition="inside",
            insidetextanchor="middle",
            marker={
                "color": colour(mark, dark),
                "opacity": 0.6 if mark == "pruned" else 1,
                "pattern": base.hatched(hatch),
            },
        )
        for name, values, mark, hatch in looks
    ]
    y = {"autorange": "reversed", "type": "category"}
    out = base.figure(drawn, 110 + 46 * len(names), {"title": "nodes"}, y, barmode="stack", bargap=0.35)
    return out.update_layout(legend={"traceorder": "normal"})


def block_rows(rows: Sequence[BlockRow]) -> list[dict[str, Any]]:
    return base.table(
        " | calls | starts a call | nodes | sent | share of all sent | accepted | accepted of sent | ms a call",
        [(r.label, r.calls, r.starts, r.nodes, r.sent, r.share, r.accepted, r.yield_, r.ms) for r in rows],
    )


def fig_depths(rows: Sequence[DepthRow], dark: bool = False) -> go.Figure:
    """By depth: how many rounds got so deep, and of the nodes tested there how many lived."""
    if not rows:
        return base.empty("no node was sent yet")
    xs = [r.depth for r in rows]
    about = [
        f"depth {r.depth}: {r.sent:,} sent, {r.tested:,} tested, {r.accepted:,} accepted<br>{percent(r.rate)} of those "
        f"tested, {percent(r.reached)} of the rounds got here"
        for r in rows
    ]
    reached = base.bar(
        "rounds that kept a node here", xs, [r.reached for r in rows], about, marker={"color": colour("accepted", dark)}
    )
    line = base.scatter(
        "lines+markers",
        "accepted of tested",
        xs,
        [r.rate for r in rows],
        about,
        line={"color": colour("recovered", dark), "dash": "dot", "width": 2},
        marker={"symbol": "diamond", "size": 9},
    )
    return base.figure([reached, line], _HEIGHT, {"title": "depth", "dtick": 1}, _SHARE)


def depth_rows(rows: Sequence[DepthRow]) -> list[dict[str, Any]]:
    return base.table(
        "depth | sent | tested | accepted | accepted of tested | rounds that got here",
        [(r.depth, r.sent, r.tested, r.accepted, r.rate, r.reached) for r in rows],
    )
