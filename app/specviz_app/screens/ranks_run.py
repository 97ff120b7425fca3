"""The parts of page Ranks about the run: predicted against true buckets with lists to go on from, widths, blocks."""

import streamlit as st

from specviz.view.panels.ranks.build import RanksPanel
from specviz.view.panels.ranks.model import BUCKET_WORDS, BUCKETS, CellList, RankFilter, RanksModel
from specviz_app.figures import ranks as draw
from specviz_app.ui import around, parts
from specviz_app.ui.viewer import Viewer

_ANY = 0
_KEPT, _PATH = "all kept parents", "on the path"


def section(held: Viewer, found: RanksModel, dark: bool) -> None:
    """Everything about ranks over the run."""
    parts.metrics(((row.label, row.value, row.note) for row in found.summary), "ranks-run")
    if found.confusion is not None:
        _filters(held, found)
        found = RanksPanel.of(held.frame) or found
        _buckets(held, found, dark)
        _widths(found, dark)
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("Budget by block", help="nodes that each block offered first, and what became of them")
        rows = found.block_rows
        alt = "; ".join(f"{r.label}: {r.sent} sent, {r.accepted} accepted" for r in rows) or "No drafter call."
        parts.plot(draw.fig_blocks(rows, dark), "ranks-blocks", alt, draw.block_rows(rows))
    with right:
        st.subheader(
            "Acceptance by depth",
            help="bars: rounds that kept a node so deep; line: nodes kept of those the walk tested there",
        )
        depths = found.depth_rows
        alt = "; ".join(f"depth {r.depth}: {r.accepted} of {r.tested}" for r in depths) or "Nothing was sent."
        parts.plot(draw.fig_depths(depths, dark), "ranks-depths", alt, draw.depth_rows(depths))


def filters(found: RanksModel) -> RankFilter:
    """Which expansions are counted: block, slot, and whether the path alone. The choice stands in the address."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        basis = st.segmented_control(
            "Counted",
            (_KEPT, _PATH),
            default=_KEPT,
            key="ranks-basis",
            bind="query-params",
            required=True,
            help="on the path: what the drafter is like given that all before was right. All kept parents: everywhere "
            "the target looked, most of it behind tokens that were not written.",
        )
        block = _some("Block", found.blocks, "ranks-block", 1)
        slot = _some("Slot", found.slots, "ranks-slot", 0)
    return RankFilter(block, slot, basis == _PATH)


def _some(label: str, values: tuple[int, ...], key: str, first: int) -> int | None:
    """One of the values; None for all. Numbers in the address count from 1: 0 means all."""
    options = [_ANY, *(value - first + 1 for value in values)]

    def named(value: int) -> str:
        return "all" if value == _ANY else str(value + first - 1)

    chosen = st.selectbox(label, options, key=key, format_func=named, bind="query-params", width=100)
    return None if chosen == _ANY else chosen + first - 1


def _filters(held: Viewer, found: RanksModel) -> None:
    held.options = RanksPanel.choose(held.options, filter=filters(found))


def _buckets(held: Viewer, found: RanksModel, dark: bool) -> None:
    """The confusion, and what the chosen cell holds."""
    table = found.confusion
    assert table is not None
    left, right = st.columns([6, 5], gap="large")
    with left:
        st.subheader(
            "Predicted × true bucket",
            help="Which rank the target's token has: as the rank head said, and "
            "as it was. ▸ too narrow: the round may end there; ◂ too wide: nodes for nothing; ∅ gave up "
            "though it was in reach.",
        )
        alt = f"{table.n} expansions, {table.basis}. {' '.join(table.findings)}"
        event = parts.plot(
            draw.fig_rank_confusion(table, dark), "ranks-confusion", alt, draw.rank_confusion_rows(table), pick=True
        )
        if cell := around.click(event, "ranks-confusion"):
            held.options = RanksPanel.choose(held.options, cell=(int(cell[0]), int(cell[1])), entry=None)
            st.rerun()
        st.caption("  \n".join(map(parts.plain, (f"{table.n:,} expansions, {table.basis}", *table.findings))))
    with right:
        _cell(held, found)


def _cell(held: Viewer, found: RanksModel) -> None:
    """The cell by name, and its expansions: a line leads to the round."""
    names = {(p, t): f"said {BUCKETS[p]}, was {BUCKETS[t]}" for p in range(4) for t in range(4)}
    here = RanksPanel.chosen(held.options).cell

    def take(cell: tuple[int, int]) -> None:
        held.options = RanksPanel.choose(held.options, cell=cell, entry=None)

    st.subheader("In the cell", help="choose a cell of the map, or here; a line leads to the node in its round")
    around.choice(
        held,
        "Cell",
        "ranks-cell",
        names,
        here,
        take,
        placeholder="a click on the map, or here",
        label_visibility="collapsed",
    )
    if found.cell is None:
        table = found.confusion
        rows = [
            {"rank": BUCKETS[k], "means": word, "children given": table.widths[k] if table else None}
            for k, word in enumerate(BUCKET_WORDS)
        ]
        st.dataframe(rows, hide_index=True, key="ranks-buckets")
        return
    _entries(held, found.cell)


def _entries(held: Viewer, cell: CellList) -> None:
    st.caption(parts.plain(" ".join(filter(None, (f"{cell.title}.", cell.words)))))
    if not cell.entries:
        return
    rows = [
        {
            "round": e.place,
            "after": e.parent_shown,
            "target's best": e.token_shown,
            "rank": e.rank,
            "width": e.width,
            "offered": e.covered,
            "on the path": e.on_path,
        }
        for e in cell.entries
    ]
    place = around.lines(rows, f"ranks-entries-{cell.pred}-{cell.true}", 290)
    parts.say(f"{cell.more:,} more are not listed." if cell.more else "A line leads to its round.")
    if place is not None:
        entry = cell.entries[place]
        held.seek(entry.index)
        held.choose(entry.node)
        around.go_to_part("this round")


def _widths(found: RanksModel, dark: bool) -> None:
    left, middle = st.columns(2, gap="large")
    with left:
        st.subheader(
            "Width spent and useful",
            help="children given at each width, and expansions where one of them was the target's token",
        )
        parts.plot(
            draw.fig_widths(found.widths, dark),
            "ranks-widths",
            found.widths_words or "No widths.",
            draw.width_rows(found.widths),
        )
        parts.say(found.widths_words)
    with middle:
        st.subheader(
            "Coverage by width",
            help="what one width for every expansion would have covered, whatever they "
            "were given; exact, since the true ranks are on record",
        )
        points = found.reach
        alt = "; ".join(f"{p.width}: {p.share:.2f}" for p in points[:8]) or "No true rank is on record."
        parts.plot(draw.fig_reach(points, dark), "ranks-reach", alt, draw.reach_rows(points))
        parts.say(f"Counted: {found.filter_text}.")
    if found.reach_rows:
        st.subheader(
            "Other widths on these expansions",
            help="What a slot says does not depend on how many of its tokens became children, and the true ranks are "
            "on record: counted, not modelled. Of the recorded expansions only: other widths would start blocks "
            "elsewhere.",
        )
        st.dataframe(draw.other_width_rows(found.reach_rows), hide_index=True, key="ranks-other-widths")
    st.subheader("Accuracy by block and slot", help="given what the filter counts; later slots see less")
    alt = "; ".join(f"block {r.block} slot {r.slot}: {r.top1}" for r in found.slot_rows) or "No slots."
    parts.plot(draw.fig_slots(found.slot_rows, dark), "ranks-slots", alt, draw.slot_rows(found.slot_rows))
