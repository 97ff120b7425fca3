"""Early exit: who climbed how far in a round and what the heads said, and other settings on the same text.

The lower half of page Early exit: other settings on the recorded text, recomputed while a slider moves.

What to do when a trace does not hold what the exit heads say: the command, and a button that runs it.
"""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import streamlit as st

from specviz.cost.exit_replay import Setting
from specviz.errors import SpecvizError
from specviz.view.panels.exits.grid import (
    MEASURES,
    NOT_SWEPT,
    ExitGrid,
    Replay,
    exit_grid,
    replay_of,
)
from specviz.view.panels.exits.model import CellInfo, HeatMap, Layers
from specviz.view.panels.exits.over_run import ExitRun, exit_run
from specviz.view.panels.exits.what_if import ExitText, exit_change, exit_text
from specviz.view.panels.lanes.model import ConfStep
from specviz_app.figures.exit_grid import (
    change_rows,
    fig_grid,
    fig_regret,
    fig_text,
    grid_rows,
    regret_rows,
    text_rows,
)
from specviz_app.figures.exits import (
    cell_rows,
    fig_cell,
    fig_gates,
    fig_heat,
    fig_kinds,
    fig_ledger,
    fig_stairs,
    fig_sweeps,
    fig_times,
    gate_rows,
    heat_rows,
    kind_rows,
    ledger_rows,
    stair_rows,
    sweep_rows,
    time_rows,
)
from specviz_app.figures.lanes import fig_steps, step_rows
from specviz_app.screens import rounds
from specviz_app.server.server import Server, current
from specviz_app.server.sweep_job import SweepJob, arguments, written
from specviz_app.ui import guard, parts, state
from specviz_app.ui.library import LIVE, choices
from specviz_app.ui.uploads import scratch
from specviz_app.ui.viewer import Viewer

_CROWDED = 25  # columns of the map for which a phone is too narrow
_PARTS = ("this round", "the run", "other settings")


def page() -> None:
    """The page."""
    rounds.about_a_run(_body)


def _body(held: Viewer, dark: bool) -> None:
    held.asks(layers=True, lanes=True)
    frame = held.frame
    parts.run_header(frame.run, len(held.player.run.rounds))
    shown = rounds.part(_PARTS)
    if shown == _PARTS[2]:
        section(held)
    elif frame.layers is not None:
        (_run if shown == _PARTS[1] else _round)(held, frame.layers, dark)
        if shown == _PARTS[0] and frame.lanes is not None and any(s.bound is not None for s in frame.lanes.steps):
            _looks(frame.lanes.steps, dark)


def _round(held: Viewer, found: Layers, dark: bool) -> None:
    """The rows up to this round; the reason, where none has climbed."""
    heat = found.heat
    if heat is None:
        st.info(parts.plain(found.missing or "No row climbed in this round."))
        return
    st.subheader("Layers × tokens", help="A column is a row of the model: a token that climbs. What a head says there "
                 "is about the token after it. Small dots: the test decided; other cells are hindsight.")  # fmt: skip
    _what_tau(held, heat)
    alt = f"Confidence of the exit heads, {len(heat.columns)} rows by {heat.n_layers} layers; {heat.words}."
    with parts.wide(len(heat.columns) > _CROWDED):
        event = parts.plot(
            fig_heat(heat, dark), "layers-heat", alt, heat_rows(heat), on_select="rerun", selection_mode="points"
        )
    if cell := rounds.click(event, "layers"):
        _look(held, *map(int, cell[:4]))
        st.rerun()
    st.caption(parts.plain(" · ".join(filter(None, (heat.words, heat.what_text, heat.note)))))
    _choose(held, heat)
    left, right = st.columns([5, 6], gap="large")
    with left:
        _cell(found.cell, dark)
    with right:
        parts.plot(fig_cell(found.cell, heat.tau, dark), "layers-cell", _cell_alt(found.cell), cell_rows(found.cell))
    _parts(held, found, heat, dark)


def _looks(steps: Sequence[ConfStep], dark: bool) -> None:
    """Drafters of their own law (an adapter, skipped sublayers) say how sure they were of every draft."""
    st.subheader("Confidence of every draft", help="drafting stops at a token whose confidence is below the bound")
    stopped = [s.shown for s in steps if s.stopped]
    alt = f"{len(steps)} drafts; stopped at {', '.join(stopped) or 'none'}."
    parts.plot(fig_steps(steps, "τ", dark), "layers-looks", alt, step_rows(steps))


def _what_tau(held: Viewer, heat: HeatMap) -> None:
    """A threshold to try on the rows that are shown; the confidence under the cursor when none is given."""
    row = st.container(horizontal=True, vertical_alignment="bottom")
    with row:
        own = st.toggle(
            "τ under the cursor", True, key="what-cursor", help="would-exits at the chosen cell's confidence"
        )
        if own:
            held.options = replace(held.options, what_tau=None)
        else:
            value = st.slider("would exit if τ were", 0.0, 1.0, heat.tau or 0.75, 0.01, key="what-tau", width=220)
            held.options = replace(held.options, what_tau=value)


def _cell_alt(cell: CellInfo | None) -> str:
    return cell.words if cell is not None else "No cell is chosen."


def _look(held: Viewer, index: int, row: int, node: int, layer: int) -> None:
    """This cell is the cursor; one of an earlier round does not leave the round."""
    here = index == held.player.cursor.index
    if here:
        held.choose(node)
    held.options = replace(held.options, layer=layer, column=None if here else (index, row))


def _choose(held: Viewer, heat: HeatMap) -> None:
    """Row and layer by name: the keyboard's way to what a click does."""
    columns = {(c.index, c.row): c for c in heat.columns}
    at = heat.columns[heat.column] if heat.column is not None else heat.columns[-1]
    rows = {place: f"{c.glyph} {c.shown}  (round {c.round}, row {c.row})" for place, c in columns.items()}
    layers = {layer: str(layer) for layer in range(1, heat.n_layers + 1)}

    def row(place: tuple[int, int]) -> None:
        _look(held, *place, columns[place].node, heat.layer)

    def layer(wanted: int) -> None:
        _look(held, at.index, at.row, at.node, wanted)

    with st.container(horizontal=True):
        rounds.choice(held, "Row", "layers-row", rows, (at.index, at.row), row, width=280)
        rounds.choice(held, "Layer", "layers-layer", layers, heat.layer, layer, width=110)


def _cell(cell: CellInfo | None, dark: bool) -> None:
    """The chosen cell in words and numbers."""
    if cell is None:
        st.caption("Choose a cell.")
        return
    parts.facts(cell.title, cell.words, cell.rows, cell.mark, dark)


def _parts(held: Viewer, found: Layers, heat: HeatMap, dark: bool) -> None:
    """The round under the cursor: who computed what, the stairs, who paid."""
    index = held.player.cursor.index
    mine = [c for c in heat.columns if c.index == index]
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("Who computed what", help="Every cell is computed once, in a call shared by as many rows as its "
                     "width. Catching up costs no call and no cell of its own.")  # fmt: skip
        alt = f"Kinds of cells of {len(mine)} rows by {heat.n_layers} layers."
        parts.plot(fig_kinds(mine, heat.n_layers, dark), "layers-kinds", alt, kind_rows(mine))
    with right:
        st.subheader("Staircase", help="layers that every row has passed, after each climb of the round")
        words = found.stairs.words if found.stairs is not None else "No climb yet."
        parts.plot(fig_stairs(found.stairs, dark), "layers-stairs", words, stair_rows(found.stairs))
        st.caption(parts.plain(words))
    _ledger(found, dark)


def _ledger(found: Layers, dark: bool) -> None:
    st.subheader("Ledger", help="A climb pays its exit layer in calls; a kept draft earns the calls of a token. "
                 "Calls are time on one sequence. Cells are arithmetic, and are never saved.")  # fmt: skip
    ledger = found.ledger
    words = ledger.words if ledger is not None else ""
    parts.plot(fig_ledger(ledger, dark), "layers-ledger", words or "Nothing is paid yet.", ledger_rows(ledger))
    if ledger is not None and ledger.missing is None:
        timing = f" {found.timing.text}." if found.timing is not None else ""
        st.caption(parts.plain(f"{ledger.words} {ledger.calls}; {ledger.cells}.{timing}"))


def _run(held: Viewer, found: Layers, dark: bool) -> None:
    """The run as a whole: what the tests ask, what other thresholds cost, the clock, the wrong exits."""
    if found.heat is None:
        st.info(parts.plain(found.missing or "No row climbed in this run."))
        return
    with st.container(horizontal=True, gap="small"):
        for metric in found.numbers:
            st.metric(metric.label, metric.text, help=metric.help, width=142, border=True)
    st.caption(parts.plain(f"{found.oracle}."))
    lists = state.once("exit-run", held, lambda: exit_run(held.player.run))
    left, right = st.columns(2, gap="large")
    with left:
        _gates(found, dark)
        _times(held, lists, dark)
    with right:
        _sweeps(found, dark)
        _wrong(held, lists)


def _gates(found: Layers, dark: bool) -> None:
    st.subheader("What a test asks", help="Annealing softens the logits of shallow layers, so that the same τ asks "
                 "for a higher raw confidence there.")  # fmt: skip
    words = found.gates.words if found.gates is not None else "No tests."
    parts.plot(fig_gates(found.gates, dark), "layers-gates", words, gate_rows(found.gates))
    st.caption(parts.plain(words))


def _sweeps(found: Layers, dark: bool) -> None:
    st.subheader("Wrong exits against layers saved", help="the recorded text, one knob moved; no model runs")
    sweeps = found.sweeps
    said = (sweeps.missing or sweeps.words) if sweeps is not None else ""
    parts.plot(fig_sweeps(sweeps, dark), "layers-sweeps", said or "Nothing to sweep.", sweep_rows(sweeps))
    lines = [f"{line.symbol}: {line.words}" for line in sweeps.lines] if sweeps is not None else []
    st.caption(parts.plain("; ".join(lines) or said or ""))


def _wrong(held: Viewer, lists: ExitRun) -> None:
    st.subheader("Wrong exits", help="a click on a line goes there")
    st.caption(parts.plain(lists.wrong_words))
    if not lists.wrong:
        return
    rows = [{"round": w.round, "after": w.after, "drafted": w.drafted, "target chose": w.chosen, "layer": w.layer,
             "sure": w.conf, "calls lost": w.cost} for w in lists.wrong]  # fmt: skip
    event: Any = st.dataframe(rows, hide_index=True, key="layers-wrong", on_select="rerun", selection_mode="single-row",
                              height=min(280, 38 + 35 * len(rows)))  # fmt: skip
    place = rounds.row(event, "layers-wrong")
    if place is not None:
        found = lists.wrong[place]
        held.seek(found.index)
        _look(held, found.index, found.row, found.node, found.layer)
        st.rerun()


def _times(held: Viewer, lists: ExitRun, dark: bool) -> None:
    st.subheader("Predicted and measured", help="round time from the measured cost of a layer by width and of a head; "
                 "verdict and commit are left out of both")  # fmt: skip
    index = held.player.cursor.index
    words = lists.times_words or "No round was predicted."
    parts.plot(fig_times(lists.times, index, dark), "layers-times", words, time_rows(lists.times))
    st.caption(parts.plain(words))


_PREFIX = "try."  # of the widgets, and so of the address
_LAYERS = "try.layers"
_OWN, _ALL = "as the run", "every layer"


def section(held: Viewer) -> None:
    """Everything about other settings, or what to do so that it can be told."""
    st.subheader("Other settings on this text", help="The text does not depend on the exit settings, so one pass over "
                 "it decides all rounds of every setting, exactly. No model runs here.")  # fmt: skip
    try:
        replay = _replay(held)
    except SpecvizError as error:
        offer(held, str(error))
        return
    guard.fragment(_replay_body)(held, replay)


def _replay(held: Viewer) -> Replay:
    """Worked out once per state of the run."""
    run = held.player.run
    return state.once("replay", held, lambda: replay_of(run), sum(len(query.exit_table) for query in run.queries))


def _replay_body(held: Viewer, replay: Replay) -> None:
    dark = state.dark()
    _begin(held, replay)
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        alpha = st.slider("α annealing", 0.0, 4.0, step=0.1, key="try.alpha", bind="query-params", width=176)
        tau = st.slider("τ threshold", 0.0, 1.01, step=0.01, key="try.tau", bind="query-params", width=176)
        d_max = st.slider("d deepest layer", 0, replay.n_layers - 1, key="try.d_max", bind="query-params", width=176)
        w_max = st.slider("w drafts a round", 0, 16, key="try.w_max", bind="query-params", width=176)
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        layers = _layers(replay)
        st.button("as the run was", key="try-reset", on_click=guard.obeyed(_reset), args=(replay,))
    setting = Setting(round(alpha, 1), tau, d_max, w_max, layers)
    _changes(replay, setting, dark)
    _maps(replay, setting, dark)
    _text(held, replay, setting, dark)


def _begin(held: Viewer, replay: Replay) -> None:
    """Sliders begin at the run's own setting; those of another run, or of another model, are forgotten."""
    if st.session_state.get("try-of") not in (None, held.name):
        _reset(replay)
    st.session_state["try-of"] = held.name
    for name in ("alpha", "tau", "d_max", "w_max"):
        st.session_state.setdefault(_PREFIX + name, getattr(replay.start, name))
    st.session_state["try.d_max"] = min(st.session_state["try.d_max"], replay.n_layers - 1)


def _reset(replay: Replay) -> None:
    for name in ("alpha", "tau", "d_max", "w_max"):
        st.session_state[_PREFIX + name] = getattr(replay.start, name)
    st.session_state[_LAYERS] = _OWN


def _layers(replay: Replay) -> tuple[int, ...]:
    """Which layers have a test: those of the run, all of them, or every second, .."""
    choices: dict[str, tuple[int, ...]] = {_OWN: replay.start.layers or replay.layers, _ALL: replay.layers}
    choices |= {f"layer {layer} alone": (layer,) for layer in replay.layers}
    wanted = st.selectbox("tested layers", list(choices), key=_LAYERS, bind="query-params", width=170,
                          help="d leaves out those above it")  # fmt: skip
    return choices[wanted or _OWN]


def _changes(replay: Replay, setting: Setting, dark: bool) -> None:
    change = exit_change(replay, setting)
    st.html(
        f'<p class="sv-said">{parts.escaped(change.words)}</p><p class="sv-dim">{parts.escaped(change.setting)}</p>'
    )
    wide = {"here": st.column_config.Column(width=110), "change": st.column_config.Column(width=170)}
    st.dataframe(change_rows(change), hide_index=True, key="try-changes", alt=change.words, column_config=wide)
    mark = {True: "✓ ", False: "⚠ ", None: ""}[change.agrees]
    st.caption(parts.plain(f"{mark}{change.check}"))
    st.markdown("**Regret** · against an oracle that stops at the first layer whose head is right")
    alt = ", ".join(f"{here} tokens {gap} layers late" for gap, _, here in change.regrets if here)
    parts.plot(fig_regret(change, dark), "try-regret", f"Regret: {alt or 'no stops'}.", regret_rows(change))


def _maps(replay: Replay, setting: Setting, dark: bool) -> None:
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
        selection = st.session_state[key].selection
        for point in selection.points:
            data = point.get("customdata")
            x, y = (data["0"], data["1"]) if isinstance(data, dict) else data
            whole = grid.x == "d_max"
            st.session_state[_PREFIX + grid.x] = int(x) if whole else float(x)
            st.session_state[_PREFIX + grid.y] = int(y) if whole else float(y)

    title = f"{grid.measure.label} by {grid.x_label} and {grid.y_label}. {grid.words}"
    parts.plot(
        fig_grid(grid, dark), key, title, grid_rows(grid), on_select=guard.obeyed(taken), selection_mode="points"
    )
    st.caption(parts.plain(grid.words))


def _text(held: Viewer, replay: Replay, setting: Setting, dark: bool) -> None:
    """The stretch of text that begins with the round under the cursor."""
    record = held.player.run.rounds[held.player.cursor.index]
    text = exit_text(replay, setting, record.q, record.start.n - 1)
    st.markdown("**The text under this setting** · from the round under the cursor on")
    parts.plot(fig_text(text, dark), "try-text", text.words, text_rows(text))
    st.caption(parts.plain(_legend(text)))


def _legend(text: ExitText) -> str:
    run = " □ where the run stopped; strokes at the foot: its rounds." if text.run is not None else ""
    return f"{text.words} Strokes at the top: where a round begins. Dotted: the first layer whose head is right.{run}"


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
