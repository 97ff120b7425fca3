"""A/B of a live run: its progress on the page, a way to end it, and the way to what came of it."""

import streamlit as st

from specviz_app.server.ab import ABTest
from specviz_app.server.core import ServedRun
from specviz_app.ui import guard, parts
from specviz_app.ui.owner import must_own

RUNS = "runs"  # of the page Compare, in its address
_MINE = "ab-mine"  # in the session's state: the trial that this tab began
_LOOK_S = 0.5


def begin(core: ServedRun) -> None:
    """For the button: decode both settings; this tab goes to Compare when they are done."""
    must_own()
    st.session_state[_MINE] = core.try_both().number


def progress(core: ServedRun) -> None:
    """What goes on, in a line; nothing where nothing does."""
    trial = core.trial
    if trial is None:
        return
    if trial.running:
        guard.fragment(_goes_on, _LOOK_S)(core, trial)
    elif trial.number == st.session_state.get(_MINE):
        _over(trial)


def _goes_on(core: ServedRun, trial: ABTest) -> None:
    if not trial.running:
        st.rerun()
    share, words = trial.progress()
    with st.container(horizontal=True, vertical_alignment="center", key="ab"):
        st.progress(share, words)
        st.button("Cancel A/B", key="ab-cancel", icon=":material/close:", on_click=guard.obeyed(_cancel), args=(trial,))


def _cancel(trial: ABTest) -> None:
    must_own()
    trial.cancel()


def forget() -> None:
    """This tab has come to what it asked for."""
    st.session_state.pop(_MINE, None)


def _over(trial: ABTest) -> None:
    """To both of them side by side; what stood in the way, where there are not two."""
    if trial.problem is None:  # what is noted is forgotten there: this script may be cut off before it comes so far
        st.session_state[RUNS] = list(trial.names)
        st.switch_page(st.session_state["pages"]["compare"], query_params={RUNS: list(trial.names)})
    forget()
    if trial.cancelled:
        st.info("A/B was ended before both were done.")
    else:
        st.error(parts.plain(f"A/B came to nothing: {trial.problem}"))
