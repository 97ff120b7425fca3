"""Early exit: who climbed how far in a round and what the heads said; the run as a whole."""

from collections.abc import Sequence

import streamlit as st

from specviz.view import Frame
from specviz.view.panels.exits.build import ExitsPanel
from specviz.view.panels.exits.model import CellInfo, HeatMap, LayersModel
from specviz.view.panels.exits.parts import ExitRun, exit_run
from specviz.view.panels.lanes.build import LanesPanel
from specviz.view.panels.lanes.model import ConfStep
from specviz_app.figures import exits as of_round
from specviz_app.figures import exits_run as of_run
from specviz_app.figures import lanes as of_lanes
from specviz_app.screens import exits_replay
from specviz_app.ui import around, closed, parts, state
from specviz_app.ui.pages import Below, lacks
from specviz_app.ui.viewer import Viewer

_CROWDED = 25  # columns of the map for which a phone is too narrow
_PARTS = ("this round", "the run", "other settings")


def _body(held: Viewer, dark: bool) -> None:
    frame = held.frame
    shown = around.part(_PARTS)
    if shown == _PARTS[2]:
        exits_replay.section(held)
    elif (found := ExitsPanel.of(frame)) is not None:
        (_run if shown == _PARTS[1] else _round)(held, found, dark)
        lanes = LanesPanel.of(frame)
        if shown == _PARTS[0] and lanes is not None and _looked(frame):
            _looks(lanes.steps, dark)


def _round(held: Viewer, found: LayersModel, dark: bool) -> None:
    """The rows up to this round; the reason, where none has climbed."""
    heat = found.heat
    if heat is None:
        closed.say(found.missing or "No row climbed in this round.", ExitsPanel)
        return
    st.subheader(
        "Layers × tokens",
        help="A column is a row of the model: a token that climbs. What a head says there "
        "is about the token after it. Small dots: the test decided; other cells are hindsight.",
    )
    _what_tau(held, heat)
    alt = f"Confidence of the exit heads, {len(heat.columns)} rows by {heat.n_layers} layers; {heat.words}."
    with parts.wide(len(heat.columns) > _CROWDED):
        event = parts.plot(of_round.fig_heat(heat, dark), "layers-heat", alt, of_round.heat_rows(heat), pick=True)
    if cell := around.click(event, "layers"):
        _look(held, *map(int, cell[:4]))
        st.rerun()
    st.caption(parts.plain(" · ".join(filter(None, (heat.words, heat.what_text, heat.note)))))
    _choose(held, heat)
    left, right = st.columns([5, 6], gap="large")
    with left:
        _cell(found.cell, dark)
    with right:
        parts.plot(of_round.fig_cell(found.cell, heat.tau, dark), "layers-cell", alt, of_round.cell_rows(found.cell))
    _parts(held, found, heat, dark)


def _looks(steps: Sequence[ConfStep], dark: bool) -> None:
    """Drafters of their own law (an adapter, skipped sublayers) say how sure they were of every draft."""
    st.subheader("Confidence of every draft", help="drafting stops at a token whose confidence is below the bound")
    stopped = [s.shown for s in steps if s.stopped]
    alt = f"{len(steps)} drafts; stopped at {', '.join(stopped) or 'none'}."
    parts.plot(of_lanes.fig_steps(steps, "τ", dark), "layers-looks", alt, of_lanes.step_rows(steps))


def _what_tau(held: Viewer, heat: HeatMap) -> None:
    """A threshold to try on the rows that are shown; the confidence under the cursor when none is given."""
    row = st.container(horizontal=True, vertical_alignment="bottom")
    with row:
        own = st.toggle(
            "τ under the cursor", True, key="what-cursor", help="would-exits at the chosen cell's confidence"
        )
        if own:
            held.options = ExitsPanel.choose(held.options, what_tau=None)
        else:
            value = st.slider("would exit if τ were", 0.0, 1.0, heat.tau or 0.75, 0.01, key="what-tau", width=220)
            held.options = ExitsPanel.choose(held.options, what_tau=value)


def _look(held: Viewer, index: int, row: int, node: int, layer: int) -> None:
    """This cell is the cursor; one of an earlier round does not leave the round."""
    here = index == held.player.cursor.index
    if here:
        held.choose(node)
    held.options = ExitsPanel.choose(held.options, layer=layer, column=None if here else (index, row))


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
        around.choice(held, "Row", "layers-row", rows, (at.index, at.row), row, width=280)
        around.choice(held, "Layer", "layers-layer", layers, heat.layer, layer, width=110)


def _cell(cell: CellInfo | None, dark: bool) -> None:
    """The chosen cell in words and numbers."""
    if cell is None:
        st.caption("Choose a cell.")
        return
    parts.facts(cell.title, cell.words, cell.rows, cell.mark, dark)


def _parts(held: Viewer, found: LayersModel, heat: HeatMap, dark: bool) -> None:
    """The round under the cursor: who computed what, the stairs, who paid."""
    index = held.player.cursor.index
    mine = [c for c in heat.columns if c.index == index]
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader(
            "Who computed what",
            help="Every cell is computed once, in a call shared by as many rows as its "
            "width. Catching up costs no call and no cell of its own.",
        )
        alt = f"Kinds of cells of {len(mine)} rows by {heat.n_layers} layers."
        parts.plot(of_round.fig_kinds(mine, heat.n_layers, dark), "layers-kinds", alt, of_round.kind_rows(mine))
    with right:
        st.subheader("Staircase", help="layers that every row has passed, after each climb of the round")
        words = found.stairs.words if found.stairs is not None else "No climb yet."
        parts.plot(of_round.fig_stairs(found.stairs, dark), "layers-stairs", words, of_round.stair_rows(found.stairs))
        parts.say(words)
    _ledger(found, dark)


def _ledger(found: LayersModel, dark: bool) -> None:
    st.subheader(
        "Ledger",
        help="A climb pays its exit layer in calls; a kept draft earns the calls of a token. "
        "Calls are time on one sequence. Cells are arithmetic, and are never saved.",
    )
    ledger = found.ledger
    words = ledger.words if ledger is not None else ""
    parts.plot(
        of_round.fig_ledger(ledger, dark),
        "layers-ledger",
        words or "Nothing is paid yet.",
        of_round.ledger_rows(ledger),
    )
    if ledger is not None and ledger.missing is None:
        timing = f" {found.timing.text}." if found.timing is not None else ""
        parts.say(f"{ledger.words} {ledger.calls}; {ledger.cells}.{timing}")


def _run(held: Viewer, found: LayersModel, dark: bool) -> None:
    """The run as a whole: what the tests ask, what other thresholds cost, the clock, the wrong exits."""
    if found.heat is None:
        closed.say(found.missing or "No row climbed in this run.", ExitsPanel)
        return
    parts.metrics(((metric.label, metric.text, metric.help) for metric in found.numbers), "exits")
    parts.say(f"{found.oracle}.")
    lists = state.once("exit-run", held, lambda: exit_run(held.player.run))
    left, right = st.columns(2, gap="large")
    with left:
        _gates(found, dark)
        _times(held, lists, dark)
    with right:
        _sweeps(found, dark)
        _wrong(held, lists)


def _gates(found: LayersModel, dark: bool) -> None:
    st.subheader(
        "What a test asks",
        help="Annealing softens the logits of shallow layers, so that the same τ asks "
        "for a higher raw confidence there.",
    )
    words = found.gates.words if found.gates is not None else "No tests."
    parts.plot(of_run.fig_gates(found.gates, dark), "layers-gates", words, of_run.gate_rows(found.gates))
    parts.say(words)


def _sweeps(found: LayersModel, dark: bool) -> None:
    st.subheader("Wrong exits against layers saved", help="the recorded text, one knob moved; no model runs")
    sweeps = found.sweeps
    said = (sweeps.missing or sweeps.words) if sweeps is not None else ""
    parts.plot(of_run.fig_sweeps(sweeps, dark), "layers-sweeps", said or "Nothing to sweep.", of_run.sweep_rows(sweeps))
    lines = [f"{line.symbol}: {line.words}" for line in sweeps.lines] if sweeps is not None else []
    parts.say("; ".join(lines) or said or "")


def _wrong(held: Viewer, lists: ExitRun) -> None:
    st.subheader("Wrong exits", help="a click on a line goes there")
    parts.say(lists.wrong_words)
    if not lists.wrong:
        return
    rows = [
        {
            "round": w.round,
            "after": w.after,
            "drafted": w.drafted,
            "target chose": w.chosen,
            "layer": w.layer,
            "sure": w.conf,
            "calls lost": w.cost,
        }
        for w in lists.wrong
    ]
    place = around.lines(rows, "layers-wrong", 280)
    if place is not None:
        found = lists.wrong[place]
        held.seek(found.index)
        _look(held, found.index, found.row, found.node, found.layer)
        st.rerun()


def _times(held: Viewer, lists: ExitRun, dark: bool) -> None:
    st.subheader(
        "Predicted and measured",
        help="round time from the measured cost of a layer by width and of a head; "
        "verdict and commit are left out of both",
    )
    index = held.player.cursor.index
    words = lists.times_words or "No round was predicted."
    parts.plot(of_run.fig_times(lists.times, index, dark), "layers-times", words, of_run.time_rows(lists.times))
    parts.say(words)


def _looked(frame: Frame) -> bool:
    """Whether layers of the target drafted without a climb, and said how sure they were; others say it on Lanes."""
    lanes = LanesPanel.of(frame)
    looked = lanes is not None and any(step.bound is not None for step in lanes.steps)
    return looked and ExitsPanel.id not in frame.unfit


def _lacks(frame: Frame) -> str:
    return "" if _looked(frame) else lacks(ExitsPanel)(frame)


PANELS = (Below("early-exit", "Early exit", 50, _body, ("exits", "lanes"), _lacks, ExitsPanel),)
