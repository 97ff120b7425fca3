"""The lower half of page Early exit: other settings on the recorded text, recomputed while a slider moves."""

import streamlit as st

from specviz.cost.exit_replay import Setting
from specviz.errors import SpecvizError
from specviz.view.panels.exits.grid import MEASURES, ExitGrid, Replay, exit_grid, replay_of
from specviz.view.panels.exits.what_if import ExitText, exit_change, exit_text
from specviz_app.figures.exit_grid import (
    change_rows,
    fig_grid,
    fig_regret,
    fig_text,
    grid_rows,
    regret_rows,
    text_rows,
)
from specviz_app.screens import sweeping
from specviz_app.ui import guard, parts, state
from specviz_app.ui.viewer import Viewer

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
        sweeping.offer(held, str(error))
        return
    guard.fragment(_body)(held, replay)


def _replay(held: Viewer) -> Replay:
    """Worked out once per state of the run."""
    run = held.player.run
    return state.once("replay", held, lambda: replay_of(run), sum(len(query.exit_table) for query in run.queries))


def _body(held: Viewer, replay: Replay) -> None:
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
