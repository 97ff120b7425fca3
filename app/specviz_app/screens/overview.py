"""Overview: a run in numbers, with both denominators and their intervals."""

import streamlit as st

from specviz.view.frame.judgement import RunJudgement
from specviz.view.frame.parts import Series
from specviz.view.panels.overview.build import overview
from specviz.view.panels.overview.model import Overview
from specviz.view.words.numbers import prob
from specviz_app.figures import overview as draw
from specviz_app.server.server import current
from specviz_app.ui import around, guard, parts, state
from specviz_app.ui.library import LIVE
from specviz_app.ui.pages import Below, Page
from specviz_app.ui.viewer import Viewer

_SERIES = (  # name, axis, heading
    ("position_acceptance", "draft position", "Acceptance by position"),
    ("depth_acceptance", "depth in the tree", "Acceptance by depth"),
    ("survival", "tokens kept, at least", "Survival"),
    ("share_above", "tokens of a round, more than", "Long rounds"),
)


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
    parts.metrics(((metric.label, metric.text, metric.help) for metric in found.metrics), "overview")
    st.caption(
        "± is half of a 95 % interval, [a, b] the interval itself; rounds that are all alike show no spread, so "
        "their mean has none; — is not defined for this run, or not on record."
    )
    marks = [f"{n} {mark}" for mark, n in found.marks]
    parts.plot(
        draw.fig_marks(found.marks, dark, found.histogram.missing),
        "marks",
        f"Of all drafted tokens: {', '.join(marks) or 'none'}.",
    )
    left, right = st.columns(2, gap="large")
    for k, (name, axis, heading) in enumerate(_SERIES):
        with (left, right)[k % 2]:
            _series(found.series[name], axis, heading, dark)
    with left:
        _histogram(found, dark)
    with right:
        _stages(found, dark)


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


def _series(series: Series, axis: str, heading: str, dark: bool) -> None:
    st.subheader(heading, help=series.label)
    columns = (series.xs, series.values, series.lows, series.highs, series.ns)
    rows = [{axis: x, "share": v, "95 % from": lo, "to": hi, "n": n} for x, v, lo, hi, n in zip(*columns, strict=True)]
    lowest = min(zip(series.values, series.xs, series.ns, strict=True), default=None)
    takeaway = f"; lowest at {axis} {lowest[1]}: {prob(lowest[0])} of {lowest[2]}" if lowest else ""
    parts.plot(draw.fig_series(series, axis, dark=dark), series.name, f"{series.label}{takeaway}.", rows)


def _histogram(found: Overview, dark: bool) -> None:
    hist = found.histogram
    st.subheader(
        "Accepted tokens per round",
        help="The dotted line is what one and the same acceptance probability α at every position would give. More at "
        "both ends than the line: easy and hard stretches alternate.",
    )
    expected = dict(hist.expected)
    rows = [{"accepted": k, "rounds": n, "geometric": expected.get(k)} for k, n in hist.counts]
    most = max(hist.counts, key=lambda pair: pair[1], default=(0, 0))
    alt = f"Rounds by accepted tokens; most often {most[0]}, {most[1]} times. Geometric fit with α {hist.alpha or '—'}."
    parts.plot(draw.fig_histogram(hist, dark), "histogram", alt, rows)


def _stages(found: Overview, dark: bool) -> None:
    st.subheader("Where the time goes", help="medians; prefill once per prompt, the others once per round")
    rows = [{"stage": s.name, "ms": s.ms} for s in found.stages]
    alt = "Median time by stage: " + ", ".join(f"{s.name} {s.text}" for s in found.stages) + "."
    parts.plot(draw.fig_stages(found.stages, dark), "stages", alt, rows)
    st.caption(f"drafting is {found.drafting_share} of a round · recording cost {found.overhead}")


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
