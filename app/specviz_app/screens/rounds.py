"""Round explorer: one round, moment by moment, and why every token of it lived or died."""

from dataclasses import replace

import streamlit as st

from specviz.view import Frame, Options
from specviz.view.frame.frame import Folding
from specviz_app.figures.tree import fig_pq, fig_tests, node_name, tree_rows
from specviz_app.ui import around, parts, state
from specviz_app.ui.pages import Page
from specviz_app.ui.tree import tree
from specviz_app.ui.viewer import Viewer

TREE = "tree"
_AUTO = "as fits"
_VIEWS: dict[Folding, str] = {"losers": "losers", "pruned": "", "none": "none"}  # as the painter asks for them
_FOLDING: dict[str, Folding] = {"tested part": "losers", "sent to the target": "pruned", "everything": "none"}
_MANY = 40  # nodes of a round above which only the tested part is shown unless asked for more


def page() -> None:
    held = around.opened()
    if held is None:
        return
    dark = state.dark()
    state.known(TREE, [_AUTO, *_FOLDING])
    with around.moves(held):
        st.selectbox(
            "Tree",
            [_AUTO, *_FOLDING],
            key=TREE,
            bind="query-params",
            width=150,
            help=f"how much of the draft is drawn; with more than {_MANY} nodes the tested part",
        )
    around.timeline(held, dark)
    explorer(held, dark)
    state.put_place(held)
    around.watch(held)


def explorer(held: Viewer, dark: bool, key: str = "round") -> None:
    """The round under the cursor: the tree that plays, the choice of a node, and everything known about it."""
    held.options = _options(held)
    frame = held.frame
    parts.run_header(frame.run, len(held.player.run.rounds))
    parts.dim(f"round {frame.timeline.label} · {frame.counts.text} · {frame.strip.summary}")
    parts.strip(frame, dark)
    if frame.tree.folds:
        st.caption("Losers are folded; the list Tree above shows more.")
    tree(held, f"{key}-tree", _VIEWS[held.options.folding])
    parts.table(tree_rows(frame.tree), f"{key}-tree")
    left, right = st.columns([5, 6], gap="large")
    with left:
        _choice(held, frame, key)
        parts.why_panel(held.frame.why, dark, key)
    with right:
        _numbers(frame, dark, key)


def _options(held: Viewer) -> Options:
    """How much of the tree is drawn: what was asked for, or what can be looked at."""
    wanted = str(st.session_state.get(TREE) or _AUTO)
    many = (held.frame.counts.n_drafted or 0) > _MANY
    return replace(held.options, folding=_FOLDING.get(wanted, "losers" if many else "pruned"), shown=())


def _choice(held: Viewer, frame: Frame, key: str) -> None:
    """Every node by name: the keyboard's way to what a click does."""
    nodes = sorted(frame.tree.nodes, key=lambda n: (n.row, n.column))
    named = {n.id: f"{n.glyph} {n.shown}  ({node_name(n.id)}, {n.word})" for n in nodes}
    if named:
        around.choice(held, "Why", f"{key}-node", named, frame.selected, held.choose)


def _numbers(frame: Frame, dark: bool, key: str) -> None:
    """The tests with their random numbers, and p beside q."""
    nodes = sorted((n for n in frame.tree.nodes if n.id >= 0), key=lambda n: n.id)
    st.markdown("**Tests** · the band is where `u` keeps the token, ◆ is where it fell")
    tested = [n for n in nodes if n.values.u is not None]
    lost = [n.shown for n in tested if n.mark == "rejected"]
    alt = f"{len(tested)} tests; rejected: {', '.join(lost) or 'none'}."
    parts.plot(fig_tests(nodes, dark, frame.run.sampling.startswith("T 0")), f"{key}-tests", alt)
    st.markdown("**p and q** · what the target gives a drafted token, beside what the draft gave it")
    parts.plot(fig_pq(nodes, dark), f"{key}-pq", f"Target and draft probabilities of {len(nodes)} drafted tokens.")


PAGE = Page("rounds", "Round explorer", "account_tree", 30, "one round, and why every token of it lived or died", page)
