"""Round: the tests of one round with their random numbers, p beside q, and every node in a table."""

import streamlit as st

from specviz_app.figures.tree import fig_pq, fig_tests, tree_rows
from specviz_app.ui import parts
from specviz_app.ui.pages import PanelBelow
from specviz_app.ui.viewer import Viewer


def _body(viewer: Viewer, dark: bool) -> None:
    frame = viewer.frame
    parts.dim(f"{frame.timeline.label} · {frame.counts.text} · {frame.strip.summary}")
    nodes = sorted((n for n in frame.tree.nodes if n.id >= 0), key=lambda n: n.id)
    tested = [n for n in nodes if n.values.u is not None]
    lost = [n.shown for n in tested if n.mark == "rejected"]
    left, right = st.columns(2, gap="large")
    with left:
        st.markdown("**Tests** · the band is where `u` keeps the token, ◆ is where it fell")
        alt = f"{len(tested)} tests; rejected: {', '.join(lost) or 'none'}."
        parts.plot(fig_tests(nodes, dark, frame.run.sampling.startswith("T 0")), "round-tests", alt)
    with right:
        st.markdown("**p and q** · what the target gives a drafted token, beside what the draft gave it")
        parts.plot(fig_pq(nodes, dark), "round-pq", f"Target and draft probabilities of {len(nodes)} drafted tokens.")
    parts.table(tree_rows(frame.tree), "round-tree")


PANELS = (PanelBelow("rounds", "Round", 30, _body),)
