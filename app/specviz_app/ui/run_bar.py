"""Which run is looked at, and a way to bring another: in the bar at the top of every page. The choice stands in the
address.
"""

import streamlit as st

from specviz.errors import SpecvizError
from specviz.text import running
from specviz_app.server.core import UPLOAD_MB
from specviz_app.server.server import Server
from specviz_app.ui import address, clinic, gallery, lessons
from specviz_app.ui.address import SRC
from specviz_app.ui.library import bring, choices
from specviz_app.ui.parts import plain
from specviz_app.ui.state import source_name, take_wanted, uploads

_READ = "what-was-read"  # in the session's state: of what was brought, by its name
UPLOADED = " (upload)"  # ends the name of an uploaded run


def run_bar(server: Server) -> None:
    """The run, and a way to bring another."""
    problem = _take_upload()
    lessons.lead(server)
    clinic.lead(server)
    take_wanted()
    names = list(choices(server, uploads()))
    if st.session_state.get(SRC) not in (None, *names):
        st.session_state[SRC] = source_name(server)
    unknown(server)
    if SRC not in st.session_state and address.asks(SRC) not in names:
        # In the address, not as the list's default: those are left out of it, and a link would lead elsewhere.
        # And as the value: of an address that is written here the list learns nothing any more.
        st.session_state[SRC] = source_name(server)
        address.put({SRC: source_name(server)})
    elif SRC in st.session_state and st.session_state[SRC] is None:
        st.session_state[SRC] = source_name(server)
    with st.container(key="run-bar", horizontal=True, gap="xsmall"):
        st.selectbox(
            "Run to look at",
            names,
            index=None,
            required=True,
            key=SRC,
            bind="query-params",
            label_visibility="collapsed",
        )
        gallery.button()
        lessons.button()
        with st.popover("", icon=":material/folder_open:", help="Open a trace or a log of yours"):
            st.file_uploader(
                "A trace, or a log, table, answer or scrape of an engine",
                type=["jsonl", "gz", "log", "txt", "json", "md", "csv", "out"],
                key="upload",
                max_upload_size=UPLOAD_MB,
                help="a trace is what specviz run --record FILE writes; the rest is read as specviz import does",
            )
    gallery.show(choices(server, uploads()))
    _say_unknown(server)
    for words in st.session_state.get(_READ, {}).get(source_name(server), ()):
        st.caption(plain(running(words)))
    if problem:
        st.error(f"Not opened: {plain(problem)}")


def unknown(server: Server) -> str | None:
    """The run that is shown in place of one that the address names and that is not here; noted, to be said."""
    wanted = address.asks(SRC)
    if wanted is None or SRC in st.session_state or wanted in choices(server, uploads()):
        return None
    lost = "an upload is gone when its tab is; open the file again" if wanted.endswith(UPLOADED) else "a mistyped link?"
    shown = source_name(server)
    st.session_state["src-unknown"] = (f"There is no run '{wanted}' here ({lost}). Shown instead: {shown}.", shown)
    return shown


def _say_unknown(server: Server) -> None:
    """Until another run is chosen."""
    unknown = st.session_state.get("src-unknown")
    if unknown is None:
        return
    if SRC in st.session_state and source_name(server) != unknown[1]:
        st.session_state.pop("src-unknown")
        return
    st.warning(plain(unknown[0]))


def take(name: str, data: bytes) -> None:
    """Bring a file or a text; the first run of it becomes the chosen one. Raises SpecvizError."""
    brought = bring(name, data)
    named = {f"{trace}{UPLOADED}": path for trace, path in brought.traces.items()}
    uploads().update(named)
    st.session_state[SRC] = next(iter(named))
    st.session_state.setdefault(_READ, {}).update(dict.fromkeys(named, brought.words))


def _take_upload() -> str | None:
    """Check a newly uploaded file once; it becomes the chosen source, or the answer says what is wrong with it."""
    upload = st.session_state.get("upload")
    if upload is None:
        st.session_state.pop("upload_seen", None)
        return None
    seen: tuple[str, str | None] | None = st.session_state.get("upload_seen")
    if seen is None or seen[0] != upload.file_id:
        problem = None
        try:
            take(upload.name, upload.getvalue())
        except SpecvizError as error:
            problem = str(error)
        seen = (upload.file_id, problem)
        st.session_state["upload_seen"] = seen
    return seen[1]
