"""What to do when a trace does not hold what the exit heads say: the command, and a button that runs it."""

import shlex
from pathlib import Path

import streamlit as st

from specviz.errors import SpecvizError
from specviz.view.panels.exits.grid import NOT_SWEPT
from specviz_app.server.server import Server, current
from specviz_app.server.sweep_job import SweepJob, arguments, written
from specviz_app.ui import guard, parts, state
from specviz_app.ui.library import LIVE, choices
from specviz_app.ui.uploads import scratch
from specviz_app.ui.viewer import Viewer

_JOB = "sweep-job"


def offer(held: Viewer, reason: str) -> None:
    """The reason, the command line that mends it, and the button."""
    server, header = current(), held.player.run.header
    st.info(parts.plain(reason))
    if header is None or reason != NOT_SWEPT:
        return
    if held.player.run.end is None:
        st.caption("This becomes possible when the run has ended.")
        return
    path = choices(server, state.uploads()).get(held.name)
    if path is not None:
        words = arguments(header, str(path), f"{Path(held.name).stem}-heads.sv.jsonl", server.settings.model("target"))
        st.code(shlex.join(["specviz", *words]), language=None, wrap_lines=True)
    job: SweepJob | None = st.session_state.get(_JOB)
    if job is not None and job.running:
        guard.fragment(_wait, 0.5)(job)
        return
    if job is not None:
        st.error(parts.plain(job.last_words or "the sweep ended without a word"))
    st.button("Ask the heads now", key="sweep", type="primary", on_click=guard.obeyed(_start),
              args=(held, server, path),
              help="loads the target in a process of its own, one pass over the text; the copy opens here")  # fmt: skip
    if problem := st.session_state.pop("sweep_problem", None):
        st.error(parts.plain(problem))


def _start(held: Viewer, server: Server, path: Path | None) -> None:
    header = held.player.run.header
    assert header is not None
    try:
        trace = path if path is not None else written(server.core.since(-1, 0)[1], scratch())
        job = SweepJob.start(header, trace, scratch(), "swept", server.settings.model("target"))
    except (SpecvizError, OSError) as error:
        st.session_state["sweep_problem"] = str(error)
        return
    st.session_state[_JOB] = job
    st.session_state["sweep-of"] = (held.name, held.place)


def _wait(job: SweepJob) -> None:
    """Until it has ended; the copy then becomes the run to look at, at the same place."""
    if job.running:
        st.caption(f"⏳ {parts.plain(job.last_words or 'loading the target')} …")
        st.button("Stop", key="sweep-stop", on_click=guard.obeyed(job.stop))
        return
    result = job.result
    if result is not None:
        name, place = st.session_state["sweep-of"]
        st.session_state.pop(_JOB)
        title = f"{LIVE if name == LIVE else name} + heads"
        state.look_at(title, result, place)
    st.rerun()
