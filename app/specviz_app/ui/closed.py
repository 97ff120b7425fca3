"""A panel that has nothing of a run: why, and the recording that fills it, one click away."""

import streamlit as st

from specviz.sources.offers import recording_for
from specviz.view.panels import AnyPanel
from specviz_app.server.server import current
from specviz_app.ui import guard, parts, state


def say(reason: str, panel: AnyPanel | None) -> None:
    """The reason, and a button that opens the recording; none where the shown run is that one, or none fills it."""
    st.info(parts.plain(reason))
    found = recording_for(panel) if panel is not None else None
    if panel is None or found is None or found.name == state.source_name(current()):
        return
    st.button(
        f"▶ Show it with the recording {parts.plain(found.name)}",
        key=f"fill-{panel.id}",
        on_click=guard.obeyed(state.choose),
        args=(found.name,),
    )
