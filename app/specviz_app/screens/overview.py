"""Overview: a run in numbers, with both denominators and their intervals."""

from collections.abc import Sequence
from functools import partial

import streamlit as st

from specviz.errors import SpecvizError
from specviz.numerals import plural
from specviz.text import clip
from specviz.view.find.fields import HINT, NAMES
from specviz.view.find.search import filter_for, first_matches
from specviz.view.frame.run_header import warning_groups
from specviz.view.panels.overview.build import overview
from specviz.view.panels.overview.model import Overview
from specviz_app.server.core import place_name
from specviz_app.ui import below, blocks, guard, parts, state
from specviz_app.ui.pages import PanelBelow, all_below
from specviz_app.ui.viewer import Viewer

_MOST_PLACES = 12  # rounds of one finding, or of one search, that are led to
_CELLS = 36  # of a finding in the row of panels
_MOST_COUNTED = 2000  # rounds of a run that is counted whole only for its tab
_FIND_S = 2.0  # that a search takes at most


def _body(viewer: Viewer, dark: bool) -> None:
    run = viewer.player.run
    show(viewer, state.once("overview", viewer, lambda: overview(run, viewer.player.builder.meter)), dark)


def show(viewer: Viewer, model: Overview, dark: bool) -> None:
    frame = viewer.frame
    if model.judgement.card is not None:
        parts.run_card(model.judgement.card)
    _judgement(viewer, model)
    if frame.n_warnings:
        _warnings(viewer, frame.n_warnings)
    _find(viewer)
    blocks.show(model.blocks or (), dark)
    st.caption(
        "± is half of a 95 % interval, [a, b] the interval itself; rounds that are all alike show no spread, so "
        "their mean has none; — is not defined for this run, or not on record."
    )


def _judgement(viewer: Viewer, model: Overview) -> None:
    """The line of the terminal, in the same words, and every finding with the rounds that show it; the first open."""
    judged = model.judgement
    st.markdown(f"**{parts.plain(' · '.join(p for p in (judged.tokens, judged.speed_text, judged.found) if p))}**")
    if judged.basis_words:
        st.caption(parts.plain(judged.basis_words))
    for k, finding in enumerate(judged.findings):
        with st.expander(parts.plain(finding.headline), expanded=k == (model.finding or 0)):
            st.markdown(parts.plain(finding.text))
            panel = finding.screen if finding.screen in {panel.id for panel in all_below()} else "overview"
            _places(viewer, [(place.label, place.at) for place in finding.places], panel, finding.headline)


def with_finding(viewer: Viewer, row: Sequence[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """The row of panels, where the tab of this one says what stands out most; not of a run too long to be counted."""
    run = viewer.player.run
    if len(run.rounds) > _MOST_COUNTED:
        return [*row]
    model = state.once("overview", viewer, lambda: overview(run, viewer.player.builder.meter))
    first = next(iter(model.judgement.findings), None)
    sure = "" if first is None or first.certainty == "sure" else f"{first.certainty}: "
    tab = "Overview" if first is None else f"Overview · {clip(sure + first.headline, _CELLS)}"
    return [(panel, tab if panel == PANELS[0].id and not lacks else title, lacks) for panel, title, lacks in row]


def _warnings(viewer: Viewer, n: int) -> None:
    """Every warning once, with the rounds that have it."""
    with st.expander(parts.plain(f"⚠ {plural(n, 'warning')}")):
        for group in warning_groups(viewer.player.run):
            st.markdown(parts.plain(group.text + (f" ({group.n:,} times)" if group.n > 1 else "")))
            _places(viewer, [(label, label.replace(" ", "/")) for _, label in group.places], "overview", group.text)


def _find(viewer: Viewer) -> None:
    """Rounds and nodes that pass a filter, as far as there is time to look."""
    typed = st.text_input("Find rounds and nodes", key="find", bind="query-params", placeholder=HINT, help=NAMES)
    if not typed.strip():
        return
    run = viewer.player.run
    try:
        wanted = filter_for(run, typed)
    except SpecvizError as error:
        st.error(parts.plain(str(error)))
        return
    places, n_seen = state.once("found", viewer, lambda: first_matches(run, wanted, _MOST_PLACES, _FIND_S), typed)
    looked = f"looked through {n_seen:,} of {plural(len(run.rounds), 'round')}"
    parts.say(f"The first {len(places)}; {looked}." if places else f"Nothing passes: {looked}.")
    named = [place_name(run, place.index, place.node) for place in places]
    _places(viewer, [(name.replace("/", " "), name) for name in named], "overview", "found")


def _places(viewer: Viewer, places: Sequence[tuple[str, str]], panel: str, key: str) -> None:
    """Rounds by label and address; each leads to the stage there, with that panel below it."""
    if not places:
        return
    with st.container(horizontal=True, gap="small"):
        for label, at in places[:_MOST_PLACES]:
            st.button(
                f"→ {label}",
                key=f"evidence-{key}-{at}",
                help="to this round",
                type="tertiary",
                on_click=guard.obeyed(partial(_lead, viewer, panel, at)),
            )


def _lead(viewer: Viewer, panel: str, at: str) -> None:
    below.switch(viewer, {"id": panel, "place": at}, viewer.go)
    state.show_picture()


PANELS = (PanelBelow("overview", "Overview", 20, _body),)
