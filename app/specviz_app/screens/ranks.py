"""Ranks: why a drafted tree has its shape, and what widths cost and brought."""

from collections.abc import Mapping

import streamlit as st

from specviz.view.frame.frame import TreeFrame, TreeNode
from specviz.view.frame.parts import WhyRow
from specviz.view.panels.ranks.build import RanksPanel
from specviz.view.panels.ranks.model import BUCKETS, OUTCOMES, ExpansionView, RanksModel
from specviz_app.figures import rank_tree as draw
from specviz_app.figures.tree import node_name
from specviz_app.screens import ranks_run
from specviz_app.ui import around, closed, parts
from specviz_app.ui.pages import PanelBelow, lacks
from specviz_app.ui.tree import tree as stage_tree
from specviz_app.ui.viewer import Viewer

_PARTS = ("this round", "the run")
_SIGNS = (
    "b: the block that offered the node, s: its slot, #: its rank there, 1 the slot's best token; +: merged offers; "
    "◎: a block starts there."
)
_PLAIN_SIGNS = "#: rank among its parent's tokens, at this level or from that head."


def _ranks(viewer: Viewer, dark: bool) -> None:
    shown = around.part(_PARTS)
    viewer.asks("ranks", folding="none" if st.session_state.get("ranks-pruned") else "pruned")
    model = RanksPanel.of(viewer.frame)
    if model is None:
        return
    if model.missing is not None:
        closed.say(model.missing, RanksPanel)
        return
    for note in model.notes:
        st.info(parts.plain(note))
    section = _round if shown == _PARTS[0] else ranks_run.section
    section(viewer, model, dark)


def _round(viewer: Viewer, model: RanksModel, dark: bool) -> None:
    """The tree, the chosen node, what was said there, and every expansion of the round."""
    frame = viewer.frame
    tree = frame.tree
    parts.lead(" ".join(filter(None, (model.shape, model.ending))))
    if tree.missing is None and len(tree.nodes) > 1:
        stage_tree(viewer, "ranks-tree", "ranks-none" if st.session_state.get("ranks-pruned") else "ranks")
        parts.table(draw.rank_tree_rows(tree, model.badges), "ranks-tree")
    else:
        st.info(parts.plain(tree.missing or "Nothing was drafted in this round."))
    signs = _SIGNS if model.round_expansions else _PLAIN_SIGNS
    st.caption(parts.plain(" · ".join(filter(None, (model.tree_text, signs)))))
    st.toggle("show pruned nodes as well", key="ranks-pruned")
    left, right = st.columns(2, gap="large")
    with left:
        _choose(viewer, frame.tree, model.badges, frame.selected)
        parts.why_panel(frame.why, dark, "ranks-why")
        expansion = _expansion(model, dark) if model.round_expansions else None
    if not model.round_expansions:
        return
    with right:
        st.subheader(
            "What the slot said",
            help="The slot's best tokens, with what the draft gave them. Filled: they "
            "became children. ★ the target's best token, ✓ what was written.",
        )
        words = expansion.words if expansion is not None else "No block went on from this node."
        parts.plot(draw.fig_offers(expansion, dark), "ranks-offers", words, draw.offer_rows(expansion))
    _table(viewer, model)


def _choose(viewer: Viewer, tree: TreeFrame, badges: Mapping[int, str], selected: int | None) -> None:
    """Every node by name: the keyboard's way to what a click does."""

    def named(node: TreeNode) -> str:
        return f"{node.glyph} {node.shown}  ({', '.join(filter(None, (node_name(node.id), badges.get(node.id))))})"

    names = {node.id: named(node) for node in tree.nodes}
    if names:
        around.choice(viewer, "Node", "ranks-node", names, selected, viewer.choose)


def _expansion(model: RanksModel, dark: bool) -> ExpansionView | None:
    """What slots said of the place behind the chosen node: one of them in words."""
    if not model.expansions:
        parts.say(model.expansions_title or "No block went on from this node.")
        return None
    st.markdown(f"**{parts.plain(model.expansions_title)}**")
    views = {e.id: e for e in model.expansions}
    if len(views) > 1:
        labels = {e.id: f"block {e.block}, slot {e.slot}" for e in model.expansions}
        wanted = st.segmented_control(
            "Expansion",
            list(views),
            default=next(iter(views)),
            format_func=labels.__getitem__,
            key=parts.key_of("ranks-said", f"{list(views)}", list(labels.values())),
            label_visibility="collapsed",
            required=True,
        )
        expansion = views[wanted if wanted is not None else next(iter(views))]
    else:
        expansion = next(iter(views.values()))
    mark = OUTCOMES[expansion.outcome][0]
    rows = [
        WhyRow(
            f"P(rank {name})",
            f"{p:.2f}".removeprefix("0"),
            p,
            " · ".join(["predicted"] * (k == expansion.bucket) + ["true"] * (k == expansion.true_bucket)),
        )
        for k, (name, p) in enumerate(zip(BUCKETS, expansion.probs, strict=False))
    ]
    parts.facts(
        f"block {expansion.block}, slot {expansion.slot}: width {expansion.width}", expansion.words, rows, mark, dark
    )
    if expansion.phi:
        with st.expander("What the rank head read"):
            st.dataframe([{"": r.label, "value": r.value, "note": r.note} for r in expansion.phi], hide_index=True)
    return expansion


def _table(viewer: Viewer, model: RanksModel) -> None:
    """Every expansion of the round; a line leads to its node."""
    rows = model.round_expansions
    if not rows:
        return
    st.subheader(
        "Expansions",
        help="One slot's distribution at one node. A click on a line chooses the node. Ranks: "
        "of the target's best token, and of what was written, in that distribution.",
    )
    if st.toggle("on the path only", key="ranks-path-rows"):
        rows = tuple(e for e in rows if e.on_path)
    place = around.lines([_line(e) for e in rows], "ranks-expansions", 420)
    if place is not None:
        viewer.choose(rows[place].parent)
        st.rerun()


def _line(e: ExpansionView) -> dict[str, object]:
    became = {"kept": "✓ offered", "pruned": "· offered, pruned", "outside": "✗ not offered", "unknown": "? no row"}
    true = BUCKETS[e.true_bucket] if e.true_bucket is not None else ""
    return {
        "after": e.parent_shown,
        "block": e.block,
        "slot": e.slot,
        "said": e.bucket_text,
        "was": true,
        "width": e.width,
        "why": e.reason.replace("_", " "),
        "target's token": became[e.outcome],
        "rank of best": e.true_rank,
        "of written": e.emitted_rank,
        "path": e.on_path,
        "prefix right": e.valid_prefix,
        "children": e.n_children,
        "entropy": e.entropy,
        "start": e.start,
    }


PANELS = (PanelBelow("ranks", "Ranks", 70, _ranks, ("ranks",), lacks(RanksPanel), RanksPanel),)
