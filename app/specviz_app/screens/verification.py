"""Verification: the verdict on one draft, scanned backward; other rules on the same draft; the run as a whole."""

import streamlit as st

from specviz.view import Frame
from specviz.view.panels.verification import pictures
from specviz.view.panels.verification.build import VerificationPanel
from specviz.view.panels.verification.model import Scan, VerificationModel
from specviz.view.words.labels import PREFIX_RATIO
from specviz_app.figures import verification as draw
from specviz_app.ui import around, blocks, closed, parts
from specviz_app.ui.pages import PanelBelow, lacks
from specviz_app.ui.viewer import Viewer


def _body(viewer: Viewer, dark: bool) -> None:
    moments = viewer.moments()
    frame = moments[-1]
    model = VerificationPanel.of(frame)
    if model is not None:
        _round(viewer, moments, model, dark)
        st.divider()
        blocks.show(pictures.run_blocks(model), dark)


def _round(viewer: Viewer, moments: list[Frame], model: VerificationModel, dark: bool) -> None:
    """The draft under the cursor; the reason, where there is no scan of it."""
    scan, frame = model.scan, moments[-1]
    if scan is None:
        closed.say(model.missing or "Nothing to scan in this round.", VerificationPanel)
        return
    parts.dim(scan.title)
    st.dataframe(draw.scan_rows(scan), hide_index=True, key="scan-table", alt=draw.scan_alt(scan))
    if scan.note:
        parts.say(scan.note)
    _position(viewer, scan, frame.selected)
    event = parts.plot(draw.fig_scan(moments, dark), "scan", draw.scan_alt(scan), pick=True)
    around.clicked(viewer, frame.selected, event, "scan")
    parts.lead(scan.words)
    _stairs(model, dark)
    blocks.show(pictures.round_blocks(model), dark)


def _position(viewer: Viewer, scan: Scan, selected: int | None) -> None:
    """Every position by name: the keyboard's way to what a click on a bar does."""
    columns = {c.node: c for c in scan.columns}
    here = selected if selected in columns else scan.columns[0].node
    named = {node: f"{c.t}  {c.glyph} {c.shown}" for node, c in columns.items()}
    around.choice(viewer, "Position", "scan-position", named, here, viewer.choose)


def _stairs(model: VerificationModel, dark: bool) -> None:
    st.subheader(
        PREFIX_RATIO,
        help="r: target over draft probability of the whole prefix. The cap rides on its "
        "peaks; c is what is left below the cap, and what the prefix is worth.",
    )
    words = model.stairs.words if model.stairs is not None else ""
    parts.plot(draw.fig_stairs(model.stairs, dark), "stairs", words or "No ratios yet.", draw.stairs_rows(model.stairs))


PANELS = (
    PanelBelow(
        "verification", "Verification", 40, _body, ("verification",), lacks(VerificationPanel), VerificationPanel
    ),
)
