"""The sidebar: which run is looked at. The choice stands in the address."""

import streamlit as st

from specviz.errors import SpecvizError
from specviz_app.library import choices
from specviz_app.parts import plain
from specviz_app.server import Server
from specviz_app.settings import UPLOAD_MB
from specviz_app.state import SRC, source_name, take_wanted, uploads
from specviz_app.uploads import accept


def sidebar(server: Server) -> None:
    """The source, and a way to bring another."""
    with st.sidebar:
        problem = _take_upload()
        take_wanted()
        names = list(choices(server, uploads()))
        if st.session_state.get(SRC) not in (None, *names):
            st.session_state[SRC] = source_name(server)
        st.selectbox(
            "Run to look at", names, key=SRC, bind="query-params",
            help="a bundled trace, a file of yours, or the run that is decoded on the page Live",
        )  # fmt: skip
        with st.expander("Open a trace of yours"):
            st.file_uploader(
                "A trace", type=["jsonl", "gz"], key="upload", max_upload_size=UPLOAD_MB,
                help="written by specviz run --record FILE; .sv.jsonl or .sv.jsonl.gz",
            )  # fmt: skip
        if problem:
            st.error(f"Not opened: {plain(problem)}")


def _take_upload() -> str | None:
    """Check a newly uploaded file once; it becomes the chosen source, or the answer says what is wrong with it."""
    given = st.session_state.get("upload")
    if given is None:
        st.session_state.pop("upload_seen", None)
        return None
    seen: tuple[str, str | None] | None = st.session_state.get("upload_seen")
    if seen is None or seen[0] != given.file_id:
        problem = None
        try:
            path = accept(given.name, given.getvalue())
            name = f"{given.name} (upload)"
            uploads()[name] = path
            st.session_state[SRC] = name
        except SpecvizError as error:
            problem = str(error)
        seen = (given.file_id, problem)
        st.session_state["upload_seen"] = seen
    return seen[1]
