"""The panel in the browser, below the stage."""

import streamlit as st

from specviz_app.ui.pages import Below, lacks
from specviz_app.ui.viewer import Viewer
from toy.panel import GuessPanel


def body(held: Viewer, dark: bool) -> None:
    """A line a round, as far as the cursor stands."""
    model = GuessPanel.of(held.moments()[-1])
    if model is not None:
        st.dataframe([{"guessed": n, "kept": kept} for n, kept in model.pairs])


PANEL = Below("guess", "Guess", 35, body, ("guess",), lacks(GuessPanel), GuessPanel)
