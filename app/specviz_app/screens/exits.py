"""Early exit: who climbed how far in a round and what the heads said; the run as a whole."""

from dataclasses import replace
from functools import partial

import streamlit as st

from specviz.view import Frame
from specviz.view.blocks import Destination, Plot, Words
from specviz.view.panels.exits.build import ExitsPanel
from specviz.view.panels.exits.model import CellInfo, HeatMap, LayersModel
from specviz.view.panels.exits.parts import run_blocks
from specviz.view.panels.lanes.build import LanesPanel
from specviz.view.words.labels import LAYERS_PASSED
from specviz_app.figures import exits as of_round
from specviz_app.figures.blocks import table_rows
from specviz_app.screens import exits_replay
from specviz_app.ui import around, blocks, closed, parts, state
from specviz_app.ui.pages import PanelBelow, lacks
from specviz_app.ui.viewer import Viewer

_CROWDED = 25  # columns of the map for which a phone is too narrow
_PARTS = ("this round", "the run", "other settings")


def _body(viewer: Viewer, dark: bool) -> None:
    frame = viewer.frame
    shown = around.part(_PARTS)
    if shown == _PARTS[2]:
        exits_replay.section(viewer)
    elif (model := ExitsPanel.of(frame)) is not None:
        (_run if shown == _PARTS[1] else _round)(viewer, model, dark)
        lanes = LanesPanel.of(frame)
        if shown == _PARTS[0] and lanes is not None and _looked(frame):
            blocks.show(lanes.steps, dark)


def _round(viewer: Viewer, model: LayersModel, dark: bool) -> None:
    """The rows up to this round; the reason, where none has climbed."""
    heat = model.heat
    if heat is None:
        closed.say(model.missing or "No row climbed in this round.", ExitsPanel)
        return
    st.subheader(
        "Layers × tokens",
        help="A column is a row of the model: a token that climbs. What a head says there "
        "is about the token after it. Small dots: the test decided; other cells are hindsight.",
    )
    _what_tau(viewer, heat)
    alt = f"Confidence of the exit heads, {len(heat.columns)} rows by {heat.n_layers} layers; {heat.words}."
    with parts.wide(len(heat.columns) > _CROWDED):
        event = parts.plot(of_round.fig_heat(heat, dark), "layers-heat", alt, of_round.heat_rows(heat), pick=True)
    if cell := around.click(event, "layers"):
        _look(viewer, *map(int, cell[:4]))
        st.rerun()
    st.caption(parts.plain(" · ".join(filter(None, (heat.words, heat.what_text, heat.note)))))
    _choose(viewer, heat)
    left, right = st.columns([5, 6], gap="large")
    with left:
        _cell(model.cell, dark)
    with right:
        blocks.show(() if model.cell is None else (model.cell.heads, Words(model.cell.heads.words)), dark)
    _parts(viewer, model, heat, dark)


def _what_tau(viewer: Viewer, heat: HeatMap) -> None:
    """A threshold to try on the rows that are shown; the confidence under the cursor when none is given."""
    row = st.container(horizontal=True, vertical_alignment="bottom")
    with row:
        own = st.toggle(
            "τ under the cursor", True, key="what-cursor", help="would-exits at the chosen cell's confidence"
        )
        if own:
            viewer.options = ExitsPanel.choose(viewer.options, what_tau=None)
        else:
            value = st.slider("would exit if τ were", 0.0, 1.0, heat.what_tau or 0.75, 0.01, key="what-tau", width=220)
            viewer.options = ExitsPanel.choose(viewer.options, what_tau=value)


def _look(viewer: Viewer, index: int, row: int, node: int, layer: int) -> None:
    """This cell is the cursor; one of an earlier round does not leave the round."""
    here = index == viewer.player.cursor.index
    if here:
        viewer.choose(node)
    viewer.options = ExitsPanel.choose(viewer.options, layer=layer, column=None if here else (index, row))


def _choose(viewer: Viewer, heat: HeatMap) -> None:
    """Row and layer by name: the keyboard's way to what a click does."""
    columns = {(c.index, c.row): c for c in heat.columns}
    at = heat.columns[heat.column] if heat.column is not None else heat.columns[-1]
    rows = {place: f"{c.glyph} {c.shown}  (round {c.round}, row {c.row})" for place, c in columns.items()}
    layers = {layer: str(layer) for layer in range(1, heat.n_layers + 1)}

    def row(place: tuple[int, int]) -> None:
        _look(viewer, *place, columns[place].node, heat.layer)

    def layer(wanted: int) -> None:
        _look(viewer, at.index, at.row, at.node, wanted)

    with st.container(horizontal=True):
        around.choice(viewer, "Row", "layers-row", rows, (at.index, at.row), row, width=280)
        around.choice(viewer, "Layer", "layers-layer", layers, heat.layer, layer, width=110)


def _cell(cell: CellInfo | None, dark: bool) -> None:
    """The chosen cell in words and numbers."""
    if cell is None:
        st.caption("Choose a cell.")
        return
    parts.facts(cell.title, cell.words, cell.facts.rows, cell.mark, dark)


def _parts(viewer: Viewer, model: LayersModel, heat: HeatMap, dark: bool) -> None:
    """The round under the cursor: who computed what, the stairs, who paid."""
    index = viewer.player.cursor.index
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
        st.subheader(LAYERS_PASSED, help="layers that every row has passed, after each climb of the round")
        stairs = model.stairs
        words = stairs.words if stairs is not None else "No climb yet."
        rows = table_rows(stairs.table) if stairs is not None else None
        parts.plot(of_round.fig_stairs(stairs, dark), "layers-stairs", words, rows)
        parts.say(words)
    if model.ledger is not None:
        timing = [Words(f"{model.timing}.")] if model.timing else []
        blocks.show((model.ledger, Words(model.ledger.words), *timing), dark)


def _run(viewer: Viewer, model: LayersModel, dark: bool) -> None:
    """The run as a whole: what the tests ask, what other thresholds cost, the clock, the wrong exits."""
    if model.heat is None:
        closed.say(model.missing or "No row climbed in this run.", ExitsPanel)
        return
    index = viewer.player.cursor.index
    times, clock, stops, wrong = state.once("exit-run", viewer, lambda: run_blocks(viewer.player.run))
    here = next((k for k, place in enumerate(times.places) if place is not None and place.index == index), None)
    gate_blocks = [block for block in (model.numbers, Words(f"{model.oracle}."), model.gates) if block is not None]
    blocks.show(
        (*gate_blocks, *model.sweeps, Words(model.swept), replace(times, cursor=here), clock, stops, wrong),
        dark,
        go=partial(_go, viewer),
    )


def _go(viewer: Viewer, place: Destination) -> None:
    """To a row that stopped wrongly, or to a round."""
    viewer.seek(place.index)
    viewer.choose(place.node)
    viewer.options = ExitsPanel.choose(viewer.options, layer=None, column=None)
    st.rerun()


def _looked(frame: Frame) -> bool:
    """Whether layers of the target drafted without a climb, and said how sure they were; others say it on Lanes."""
    lanes = LanesPanel.of(frame)
    bounded = lanes is not None and any(isinstance(part, Plot) and len(part.curves) > 1 for part in lanes.steps)
    return bounded and ExitsPanel.id not in frame.unfit


def _lacks(frame: Frame) -> str:
    return "" if _looked(frame) else lacks(ExitsPanel)(frame)


PANELS = (PanelBelow("early-exit", "Early exit", 50, _body, ("exits", "lanes"), _lacks, ExitsPanel),)
