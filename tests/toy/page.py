"""The page: the same panel in the browser."""

import streamlit as st

from specviz_app.ui import around, parts
from specviz_app.ui.pages import Page
from specviz_app.ui.viewer import Viewer
from toy.panel import GuessPanel


def body(held: Viewer, dark: bool) -> None:
    """A line a round, as far as the cursor stands."""
    found = GuessPanel.of(held.moments()[-1])
    if found is not None:
        if found.missing is not None:
            st.info(parts.plain(found.missing))
        st.dataframe([{"guessed": n, "kept": kept} for n, kept in found.pairs])


PAGE = Page("guess", "Guess", "casino", 35, "what was thought beforehand", around.about_a_run(body, "guess"))
