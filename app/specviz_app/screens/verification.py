"""Verification: the verdict on one draft, scanned backward; other rules on the same draft; the run as a whole."""

import streamlit as st

from specviz.view import Frame
from specviz.view.panels.verification.build import VerificationPanel
from specviz.view.panels.verification.model import Scan, VerificationModel
from specviz_app.figures import rules
from specviz_app.figures import verification as draw
from specviz_app.ui import around, closed, parts
from specviz_app.ui.pages import Below, Page, lacks
from specviz_app.ui.viewer import Viewer


def _body(held: Viewer, dark: bool) -> None:
    moments = held.moments()
    frame = moments[-1]
    parts.run_header(frame.run, len(held.player.run.rounds))
    found = VerificationPanel.of(frame)
    if found is not None:
        _round(held, moments, found, dark)
        _run(found, dark)


def _round(held: Viewer, moments: list[Frame], found: VerificationModel, dark: bool) -> None:
    """The draft under the cursor; the reason, where there is no scan of it."""
    scan, frame = found.scan, moments[-1]
    if scan is None:
        closed.say(found.missing or "Nothing to scan in this round.", VerificationPanel)
        return
    parts.dim(scan.title)
    st.dataframe(draw.scan_rows(scan), hide_index=True, key="scan-table", alt=draw.scan_alt(scan))
    if scan.note:
        parts.say(scan.note)
    _position(held, scan, frame.selected)
    event = parts.plot(draw.fig_scan(moments, dark), "scan", draw.scan_alt(scan), pick=True)
    around.clicked(held, frame.selected, event, "scan")
    parts.lead(scan.words)
    left, right = st.columns(2, gap="large")
    with left:
        _stairs(found, dark)
        _branches(found, dark)
    with right:
        _rules(found, dark)
        _closing(found, dark)


def _position(held: Viewer, scan: Scan, selected: int | None) -> None:
    """Every position by name: the keyboard's way to what a click on a bar does."""
    columns = {c.node: c for c in scan.columns}
    here = selected if selected in columns else scan.columns[0].node
    named = {node: f"{c.t}  {c.glyph} {c.shown}" for node, c in columns.items()}
    around.choice(held, "Position", "scan-position", named, here, held.choose)


def _stairs(found: VerificationModel, dark: bool) -> None:
    st.subheader(
        "Ratio staircase",
        help="r: target over draft probability of the whole prefix. The cap rides on its "
        "peaks; c is what is left below the cap, and what the prefix is worth.",
    )
    words = found.stairs.words if found.stairs is not None else ""
    parts.plot(draw.fig_stairs(found.stairs, dark), "stairs", words or "No ratios yet.", draw.stairs_rows(found.stairs))


def _branches(found: VerificationModel, dark: bool) -> None:
    st.subheader(
        "Below each prefix",
        help="The mass of the next token under both laws, the target's weighted with c. D+ over D- is the keep chance.",
    )
    alt = "; ".join(f"{b.shown}: D+ {b.d_plus:.3f}, D- {b.d_minus:.3f}" for b in found.branches)
    figure = draw.fig_branches(found.branches, found.branches_missing, dark)
    parts.plot(
        figure, "branches", alt or found.branches_missing or "No branches yet.", draw.branch_rows(found.branches)
    )


def _rules(found: VerificationModel, dark: bool) -> None:
    st.subheader(
        "Same draft, same u",
        help="Three rules on this draft with the uniforms of this round. They follow "
        "from the seed: no model is asked. ▶ is the rule of the run.",
    )
    words = found.comparison.words if found.comparison is not None else ""
    parts.plot(
        rules.fig_rules(found.comparison, dark), "rules", words or "No comparison.", rules.rule_rows(found.comparison)
    )
    if words:
        parts.say(words)


def _closing(found: VerificationModel, dark: bool) -> None:
    row = found.closing
    st.subheader("The row at the stop", help="What the token that closes the round was drawn from.")
    alt = f"{row.title}. {row.words}" if row is not None and row.missing is None else "No row."
    parts.plot(draw.fig_closing(row, dark), "closing", alt, draw.closing_rows(row))
    if row is not None and row.title:
        parts.say(f"{row.title}. {row.words}")


def _run(found: VerificationModel, dark: bool) -> None:
    """Survival, and the paired difference."""
    st.divider()
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader(
            "Survival",
            help="Bars: drafts of which at least so many tokens were kept, with 95 % intervals. "
            "Lines: what each rule must give on these very drafts, exactly.",
        )
        words = (found.survival.words or found.survival.missing) if found.survival is not None else None
        rows = rules.survival_rows(found.survival)
        parts.plot(rules.fig_survival(found.survival, dark), "survival-exact", words or "No survival.", rows)
        parts.say(words or "")
    with right:
        st.subheader("More than token-wise", help="Paired: the same draft, the same uniforms.")
        said = " ".join(p.words or p.missing or "" for p in found.paired)
        parts.plot(
            rules.fig_paired(found.paired, dark),
            "paired",
            said or "Nothing to compare.",
            rules.paired_rows(found.paired),
        )
        for p in found.paired:
            parts.say(p.words or p.missing or "")


PAGE = Page(
    "verification",
    "Verification",
    "rule",
    40,
    "the verdict on a draft, scanned backward, and other rules on it",
    around.about_a_run(_body, "verification"),
    below=(
        Below("verification", "Verification", _body, ("verification",), lacks(VerificationPanel), VerificationPanel),
    ),
)
