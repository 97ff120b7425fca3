"""Overview: a run in numbers, with both denominators and their intervals."""

import streamlit as st

from specviz.view.frame.judgement import RunJudgement
from specviz.view.panels.overview.build import overview
from specviz.view.panels.overview.model import Overview
from specviz_app.server.server import current
from specviz_app.ui import around, blocks, guard, parts, state
from specviz_app.ui.library import LIVE
from specviz_app.ui.pages import Below, Page
from specviz_app.ui.viewer import Viewer


def page() -> None:
    server = current()
    growing = server.core.loaded and state.source_name(server) == LIVE
    guard.fragment(_body, 1.0 if growing else None)()


def _below(held: Viewer, dark: bool) -> None:
    run = held.player.run
    show(state.once("overview", held, lambda: overview(run, held.player.builder.meter)), dark)


def _body() -> None:
    held = around.opened(PAGE.nothing)
    if held is None:
        return
    _below(held, state.dark())
    if held.reading:
        around.watch(held)


def show(found: Overview, dark: bool) -> None:
    parts.run_header(found.info, found.n_rounds)
    if found.judgement.card is not None:
        parts.run_card(found.judgement.card)
    _judgement(found.judgement)
    blocks.show(found.blocks or (), dark)
    st.caption(
        "± is half of a 95 % interval, [a, b] the interval itself; rounds that are all alike show no spread, so "
        "their mean has none; — is not defined for this run, or not on record."
    )


def _judgement(judged: RunJudgement) -> None:
    """The line of the terminal, in the same words, and every finding with the rounds that show it."""
    st.markdown(f"**{parts.plain(' · '.join(p for p in (judged.tokens, judged.speed_text, judged.found) if p))}**")
    if judged.basis_words:
        st.caption(parts.plain(judged.basis_words))
    for finding in judged.findings:
        with st.expander(parts.plain(finding.headline)):
            st.markdown(parts.plain(finding.text))
            if finding.where:
                st.caption(parts.plain(f"seen in {finding.where}"))


PAGE = Page(
    "overview",
    "Overview",
    "bar_chart",
    20,
    "a run in numbers",
    page,
    nothing="Nothing to count yet. Choose a run at the top, or start one on the page Live.",
    below=(Below("overview", "Overview", _below),),
)
