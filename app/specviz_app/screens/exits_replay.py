"""The part of page Early exit about other settings on the recorded text, recomputed while a slider moves.

What to do when a trace does not hold what the exit heads say: the command, and a button that runs it. The pages
know no model, so they ask the command line, `specviz whatif --sweep`, which loads it in a process of its own and says
in one line on standard error what went wrong.
"""

import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from specviz.cost.exit_replay import ExitKnobs
from specviz.errors import SpecvizError
from specviz.events import Event, Header
from specviz.sources.scratch import scratch
from specviz.trace import Recorder
from specviz.view.blocks import Words
from specviz.view.panels.exits.grid import KNOBS, MEASURES, NOT_SWEPT, ExitGrid, TextReplay, exit_grid, replay_of
from specviz.view.panels.exits.sweeps import replayed_as
from specviz.view.panels.exits.what_if import exit_change, exit_text
from specviz_app.figures import exit_grid as of_grid
from specviz_app.server.server import Server, current
from specviz_app.ui import around, blocks, guard, parts, state
from specviz_app.ui.library import LIVE, choices
from specviz_app.ui.viewer import Viewer

_LAYERS = "try.layers"
_OWN, _ALL = "as the run", "every layer"


def arguments(header: Header, trace: str, out: str, target: str = "") -> list[str]:
    """The words after `specviz`: the run's own method and heads, so that its rounds come out again."""
    method = replayed_as(header)
    heads = [str(head) for head in header.knobs.get("heads") or ()][:1]
    more = (["--heads", *heads] if heads else []) + (["--target", target] if target else [])
    return ["whatif", trace, "--sweep", method, *more, "--write", out]


@dataclass
class SweepJob:
    """One sweep under way. `out` is where the copy with the heads' answers will be."""

    out: Path
    process: "subprocess.Popen[bytes]"
    stderr_path: Path  # what it wrote on standard error

    @classmethod
    def start(
        cls, header: Header, trace: Path, folder: Path, name: str, target: str = "", command: Sequence[str] = ()
    ) -> "SweepJob":
        """Begin. `command`: another one than this Python's specviz, for tests."""
        place = Path(tempfile.mkdtemp(dir=folder))
        out, stderr_path = place / f"{name}.sv.jsonl", place / "said"
        words = [*(command or (sys.executable, "-m", "specviz")), *arguments(header, str(trace), str(out), target)]
        with stderr_path.open("wb") as stderr:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr)
        return cls(out, process, stderr_path)

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    @property
    def result(self) -> Path | None:
        """The trace that was written; None while it runs, or when it failed."""
        if self.running or self.process.returncode != 0:
            return None
        packed = self.out.with_name(self.out.name + ".gz")
        return next((path for path in (packed, self.out) if path.exists()), None)

    @property
    def last_words(self) -> str:
        lines = self.stderr_path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1].removeprefix("specviz: ") if lines else ""

    def stop(self) -> None:
        """End it early."""
        if self.running:
            self.process.terminate()
            self.process.wait(timeout=5)


def written(events: Iterable[Event], folder: Path) -> Path:
    """A trace file of a run that was only watched."""
    place = Path(tempfile.mkdtemp(dir=folder)) / "live.sv.jsonl"
    recorder = Recorder(place)
    for event in events:
        recorder.write(event)
    recorder.close()
    return Path(recorder.path)


def section(viewer: Viewer) -> None:
    """Everything about other settings, or what to do so that it can be told."""
    st.subheader(
        "Other settings on this text",
        help="The text does not depend on the exit settings, so one pass over "
        "it decides all rounds of every setting, exactly. No model runs here.",
    )
    run = viewer.player.run
    try:
        n_told = sum(len(query.exit_table) for query in run.queries)
        replay = state.once("replay", viewer, lambda: replay_of(run), n_told)
    except SpecvizError as error:
        offer(viewer, str(error))
        return
    guard.fragment(_body)(viewer, replay)


def _body(viewer: Viewer, replay: TextReplay) -> None:
    dark = state.dark()
    own = {f"try.{name}": getattr(replay.start, name) for name in KNOBS}
    anew = {**own, _LAYERS: _OWN}
    state.begin("try-of", viewer, own, anew)
    st.session_state["try.d_max"] = min(st.session_state["try.d_max"], replay.n_layers - 1)  # of another model
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        alpha = st.slider("α annealing", 0.0, 4.0, step=0.1, key="try.alpha", bind="query-params", width=176)
        tau = st.slider("τ threshold", 0.0, 1.01, step=0.01, key="try.tau", bind="query-params", width=176)
        d_max = st.slider("d deepest layer", 0, replay.n_layers - 1, key="try.d_max", bind="query-params", width=176)
        w_max = st.slider("w drafts a round", 0, 16, key="try.w_max", bind="query-params", width=176)
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        layers = _layers(replay)
        st.button("as the run was", key="try-reset", on_click=guard.obeyed(state.put), args=(anew,))
    setting = ExitKnobs(round(alpha, 1), tau, d_max, w_max, layers)
    _changes(replay, setting, dark)
    _maps(replay, setting, dark)
    _text(viewer, replay, setting, dark)


def _layers(replay: TextReplay) -> tuple[int, ...]:
    """Which layers have a test: those of the run, all of them, or every second, .."""
    choices: dict[str, tuple[int, ...]] = {_OWN: replay.start.layers or replay.layers, _ALL: replay.layers}
    choices |= {f"layer {layer} alone": (layer,) for layer in replay.layers}
    wanted = st.selectbox(
        "tested layers", list(choices), key=_LAYERS, bind="query-params", width=170, help="d leaves out those above it"
    )
    return choices[wanted or _OWN]


def _changes(replay: TextReplay, setting: ExitKnobs, dark: bool) -> None:
    change = exit_change(replay, setting)
    parts.lead(change.words, change.setting)
    mark = {True: "✓ ", False: "⚠ ", None: ""}[change.agrees]
    blocks.show((change.table, Words(f"{mark}{change.check}"), change.regret), dark)


def _maps(replay: TextReplay, setting: ExitKnobs, dark: bool) -> None:
    """All four knobs: α and τ on one map, d and w on the other, each around the other's place."""
    labels = {m.label: m for m in MEASURES}
    chosen = st.segmented_control("Shown", list(labels), default=MEASURES[1].label, key="try-measure", required=True)
    measure = labels[chosen or MEASURES[1].label]
    st.caption(
        parts.plain(f"{measure.help}. Brighter is better; ★ best, ◆ this run, □ the sliders. A click moves them.")
    )
    left, right = st.columns([7, 5], gap="large")
    for column, (x, y) in ((left, ("alpha", "tau")), (right, ("d_max", "w_max"))):
        with column:
            _map(exit_grid(replay, setting, measure, x, y), dark)


def _map(grid: ExitGrid, dark: bool) -> None:
    key = f"try-map-{grid.x}"

    def taken() -> None:
        kind = int if grid.x == "d_max" else float
        for point in st.session_state[key].selection.points:
            place = around.plain_data(point.get("customdata"))
            state.put({f"try.{name}": kind(value) for name, value in zip((grid.x, grid.y), place, strict=False)})

    title = f"{grid.measure.label} by {grid.x_label} and {grid.y_label}. {grid.words}"
    parts.plot(of_grid.fig_grid(grid, dark), key, title, of_grid.grid_rows(grid), pick=guard.obeyed(taken))
    parts.say(grid.words)


def _text(viewer: Viewer, replay: TextReplay, setting: ExitKnobs, dark: bool) -> None:
    """The stretch of text that begins with the round under the cursor."""
    record = viewer.player.run.rounds[viewer.player.cursor.index]
    text = exit_text(replay, setting, record.q, record.start.n - 1)
    st.markdown("**The text under this setting** · from the round under the cursor on")
    parts.plot(of_grid.fig_text(text, dark), "try-text", text.words, of_grid.text_rows(text))
    run = " □ where the run stopped; strokes at the foot: its rounds." if text.run is not None else ""
    caption = (
        f"{text.words} Strokes at the top: where a round begins. Dotted: the first layer whose head is right.{run}"
    )
    parts.say(caption)


_JOB = "sweep-job"


def offer(viewer: Viewer, reason: str) -> None:
    """The reason, the command line that mends it, and the button."""
    server, header = current(), viewer.player.run.header
    st.info(parts.plain(reason))
    if header is None or reason != NOT_SWEPT:
        return
    if viewer.player.run.end is None:
        st.caption("This becomes possible when the run has ended.")
        return
    path = choices(server, state.uploads()).get(viewer.name)
    if path is not None:
        words = arguments(header, str(path), f"{Path(viewer.name).stem}-heads.sv.jsonl", server.settings.models.target)
        st.code(shlex.join(["specviz", *words]), language=None, wrap_lines=True)
    job: SweepJob | None = st.session_state.get(_JOB)
    if job is not None and job.running:
        guard.fragment(_wait, 0.5)(job)
        return
    if job is not None:
        st.error(parts.plain(job.last_words or "the sweep ended without a word"))
    st.button(
        "Ask the heads now",
        key="sweep",
        type="primary",
        on_click=guard.obeyed(_start),
        args=(viewer, server, path),
        help="loads the target in a process of its own, one pass over the text; the copy opens here",
    )
    if problem := st.session_state.pop("sweep_problem", None):
        st.error(parts.plain(problem))


def _start(viewer: Viewer, server: Server, path: Path | None) -> None:
    header = viewer.player.run.header
    assert header is not None
    try:
        trace = path if path is not None else written(server.core.since(-1, 0)[1], scratch())
        job = SweepJob.start(header, trace, scratch(), "swept", server.settings.models.target)
    except (SpecvizError, OSError) as error:
        st.session_state["sweep_problem"] = str(error)
        return
    st.session_state[_JOB] = job
    st.session_state["sweep-of"] = (viewer.name, viewer.place)


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
