"""The part of page Ranks about learning while serving: the bandit over the queries of a stream."""

import streamlit as st

from specviz.view.panels.learning.build import AdaptView, LearningPanel
from specviz.view.panels.ranks.model import RanksModel
from specviz.view.words.numbers import number
from specviz_app.figures import learning as draw
from specviz_app.ui import around, parts
from specviz_app.ui.viewer import Viewer


def section(held: Viewer, found: RanksModel, dark: bool) -> None:
    """The queries, the actions, the money; the reason, where nothing was learnt."""
    learnt = LearningPanel.of(held.frame)
    view = learnt.view if learnt is not None else None
    if view is None:
        st.info(parts.plain((learnt.missing if learnt is not None else "") or "Nothing was learnt in this run."))
        return
    parts.metrics(((row.label, row.value, row.note or None) for row in view.summary), "content")
    here = next((s for s in view.steps if s.cursor), None)
    if here is not None:
        parts.lead(f"After query {here.q}: {here.words}")
    _stream(held, view, dark)
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader(
            "What each action promises",
            help="Expected profit: seconds saved over the next queries less the "
            "action's cost, with its bounds. Taken for sure when a lower bound is above 0.",
        )
        parts.plot(draw.fig_arms(view, dark), "learning-arms", _arms_alt(view), draw.arm_rows(view))
        st.subheader(
            "Spent, allowed, given up",
            help="Exploring has a budget, a share of the serving time. Regret is "
            "what the decisions gave up against the best expected profit.",
        )
        alt = f"Exploring spent {view.spent:.3g} s of {view.budget:.3g} s; regret {view.total_regret:.3g} s."
        parts.plot(draw.fig_ledger(view, dark), "learning-ledger", alt, draw.ledger_rows(view))
    with right:
        st.subheader(
            "Expected and measured gain",
            help="measured by replay on held-out places of recent queries, "
            "before and after the update; hatched: worse, and taken back",
        )
        alt = f"{sum(s.measured_gain is not None for s in view.steps)} updates measured, {view.n_reverted} taken back."
        parts.plot(draw.fig_gains(view, dark), "learning-gains", alt, draw.gain_rows(view))
        _query(view)


def _stream(held: Viewer, view: AdaptView, dark: bool) -> None:
    st.subheader(
        "Length by query",
        help="mean acceptance length; dashed: the domain changes. Below: what was learnt "
        "after the query. Filled: it surely pays; open: tried within the budget; ✗ taken back.",
    )
    event = parts.plot(draw.fig_stream(view, dark), "learning-stream", view.words, draw.stream_rows(view), pick=True)
    if (place := around.click(event, "learning-stream")) and place[0] is not None:
        held.seek(int(place[0]))
        st.rerun()
    if len(view.domains) > 1:
        rows = [
            {"domain": d.domain, "queries": d.n, "len": d.tau, "earlier half": d.first, "later half": d.last}
            for d in view.domains
        ]
        st.dataframe(rows, hide_index=True, key="learning-domains")


def _query(view: AdaptView) -> None:
    """The decision after the query on screen."""
    step = next((s for s in view.steps if s.cursor), None)
    if step is None:
        return
    st.subheader(
        f"The actions after query {step.q}",
        help="gain in tokens a round, the rest in seconds: what it would "
        "save over the next queries, what it costs, and the bounds of the difference",
    )
    rows = [
        {
            "action": f"{a.glyph} {a.action}",
            "taken": a.chosen,
            "gain": f"{number(a.gain)} ± {number(a.se)}",
            "saves": number(a.save),
            "costs": number(a.cost),
            "at least": number(a.lcb),
            "at most": number(a.ucb),
        }
        for a in view.arms
    ]
    st.dataframe(rows, hide_index=True, key="learning-arms-here")


def _arms_alt(view: AdaptView) -> str:
    return ", ".join(f"{action} taken {n} times" for action, n in view.counts) or "No bounds are on record."
