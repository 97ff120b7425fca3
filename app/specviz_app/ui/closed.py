"""A panel that has nothing of a run: why, and the recording that fills it, one click away."""

import streamlit as st

from specviz.sources.offers import recording_for
from specviz.view.panels import AnyPanel
from specviz_app.server.server import current
from specviz_app.ui import guard, parts, state


def say(reason: str, panel: AnyPanel | None) -> None:
    """A button that opens the recording, then the reason; no button where that one is shown, or none fills it."""
    recording = recording_for(panel) if panel is not None else None
    if panel is not None and recording is not None and recording.name != state.source_name(current()):
        _offer(recording.name, panel)
    st.info(parts.plain(reason))


def _offer(name: str, panel: AnyPanel) -> None:
    st.button(
        f"▶ Show it with the recording {parts.plain(name)}",
        key=f"fill-{panel.id}",
        on_click=guard.obeyed(state.choose),
        args=(name,),
    )
