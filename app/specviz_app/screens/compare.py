"""Compare: two to six runs as one picture, their texts one below the other, and in numbers.

As a page of recordings; and below the stage, where the run on the stage is the first, and one cursor goes through both.
"""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any

import msgspec
import streamlit as st

from specviz.errors import SpecvizError
from specviz.runlog.fold import Run
from specviz.view.compare import (
    MOST,
    WINDOW,
    LaneToken,
    RunLane,
    SideBySide,
    comparison,
    score,
    wrote,
)
from specviz.view.frame.frame import Cursor, Feed, Options
from specviz.view.play.build import FrameBuilder
from specviz.view.words.palette import CLOSING, word
from specviz_app.figures import compare as draw
from specviz_app.server.server import Server, current
from specviz_app.ui import ab, address, blocks, guard, parts, state
from specviz_app.ui.library import LIVE, choices, opened
from specviz_app.ui.pages import Page, PanelBelow
from specviz_app.ui.viewer import Viewer

RUNS, BESIDE, PROMPT = ab.RUNS, "with", "shared-prompt"
_KEY, _HELD, _DONE = "compare-score", "compare-held", "compare-done"
_BELOW, _WENT = "compare-below", "compare-went"  # below the stage: the picture; where somebody went in it
_PICK = f"Choose two to {MOST} runs. Those of one prompt are laid side by side by position."


def _file(name: str) -> str:
    return (resources.files("specviz_assets") / "compare" / name).read_text(encoding="utf-8")


_component = st.components.v2.component(
    "specviz_compare", html='<div class="mount"></div>', css=_file("compare.css"), js=_file("compare.js")
)


def page() -> None:
    server = current()
    ab.forget()
    names = [name for name in choices(server, state.uploads()) if name != LIVE]
    chosen = _chosen(server, names)
    if not 2 <= len(chosen) <= MOST:
        st.info(_PICK)
        return
    try:
        builders = _builders(server, chosen)
        runs = [(name, builders[name].run) for name in chosen]
        comparison_model = _found(runs)
    except SpecvizError as error:
        st.error(parts.plain(str(error)))
        return
    text = comparison_model.text
    at = _position(text.n_positions, text.n_same if text.parted else 0) if text.n_positions else 0
    _text(comparison_model, builders, chosen, at, _KEY, _moved)
    _numbers(comparison_model, state.dark())


def _chosen(server: Server, names: Sequence[str]) -> list[str]:
    """The runs of the address; before anybody chose, the one looked at and the next that goes by the same word."""
    first = state.source_name(server) if state.source_name(server) in names else next(iter(names), None)
    usual = [name for name in (first, _kin(first, names)) if name]
    return _asked("Runs to compare, the first is the baseline", RUNS, names, usual, MOST)


def _asked(label: str, key: str, names: Sequence[str], usual: list[str], most: int) -> list[str]:
    """What is chosen of these names; `usual`: before anybody chose."""
    state.known(key, names)
    if key not in st.session_state and address.asks(key) is None:
        st.session_state[key] = usual
    elif key in st.session_state:
        st.session_state[key] = [name for name in st.session_state[key] if name in names]
    chosen: list[str] = st.multiselect(label, names, key=key, max_selections=most, bind="query-params")
    return chosen


def _kin(name: str | None, names: Sequence[str]) -> str | None:
    """The next run that goes by the same word, which may have had the same prompt."""
    alike = (other for other in names if name and other != name and other.split("-")[0] == name.split("-")[0])
    return next(alike, None)


def _builders(server: Server, chosen: Sequence[str]) -> Mapping[str, FrameBuilder]:
    """The chosen runs, each read once. Raises SpecvizError for a trace that cannot be read."""
    held: dict[str, FrameBuilder] = st.session_state.setdefault(_HELD, {})
    for name in [name for name in held if name not in chosen]:
        del held[name]
    for name in chosen:
        if name not in held:
            builder = FrameBuilder(Run())  # first: it counts every round while that is in memory
            source = opened(name, server, state.uploads())
            try:
                while events := source.poll():
                    builder.run.extend(events)
            finally:
                source.close()
            held[name] = builder
    return held


def _found(runs: Sequence[tuple[str, Run]]) -> SideBySide:
    """The comparison, for the prompt that is chosen where the runs share several."""
    side_by_side = _once(runs, 0)
    if side_by_side.n_prompts < 2:
        return side_by_side
    chosen = st.number_input(
        "Prompt, of those that all were given", 1, side_by_side.n_prompts, 1, key=PROMPT, bind="query-params"
    )
    return _once(runs, int(chosen or 1) - 1)


def _once(runs: Sequence[tuple[str, Run]], prompt: int) -> SideBySide:
    """Worked out once: a click on a token changes nothing of it."""
    key = (prompt, *((name, id(run), run.version) for name, run in runs))
    known: dict[Any, SideBySide] = st.session_state.setdefault(_DONE, {})
    if key not in known:
        kept = {known_key: compared for known_key, compared in known.items() if known_key[1:] == key[1:]}
        st.session_state[_DONE] = known = {**kept, key: comparison(runs, prompt)}
    return known[key]


# The picture ---------------------------------------------------------------------------------------------------------


def _text(
    side_by_side: SideBySide,
    builders: Mapping[str, FrameBuilder],
    chosen: Sequence[str],
    at: int,
    key: str,
    moved: Callable[[], None],
) -> None:
    """The texts, with the cursor at a position; `moved` is called when it went to another."""
    text = side_by_side.text
    parts.lead(text.words)
    legend = "".join(
        f"<div><b>{lane.letter}</b> {escape(lane.name)} <span class='sv-dim'>{escape(lane.title)} · "
        f"{escape(lane.badge)}</span></div>"
        for lane in text.lanes
    )
    st.html(legend)
    if not text.known or not text.same_prompt or not text.n_positions:
        return
    first = 0 if text.n_positions <= WINDOW else max(0, min(at - WINDOW // 2, text.n_positions - WINDOW))
    if text.n_positions > WINDOW:
        parts.say(
            f"Tokens {first + 1} to {first + WINDOW} of {text.n_positions}; a click near an end moves the window."
        )
    score_data: Any = msgspec.to_builtins(score(text, first))
    _component(key=key, data={"score": score_data, "at": at}, on_place_change=guard.obeyed(moved))
    _here(text.lanes, at, builders, chosen)


def _position(n: int, usual: int) -> int:
    """The cursor, from 0; it stands in the address counted from 1."""
    asked = address.asks(address.TOKEN) or ""
    if asked.isdecimal() and asked.isascii() and len(asked) < 9 and 1 <= int(asked) <= n:
        return int(asked) - 1
    return min(usual, n - 1)


def _moved() -> None:
    position = st.session_state[_KEY].get("place")
    if isinstance(position, int | float):
        address.put({address.TOKEN: str(int(position) + 1)})


def _here(lanes: Sequence[RunLane], at: int, builders: Mapping[str, FrameBuilder], chosen: Sequence[str]) -> None:
    """What each run wrote at the cursor, and why."""
    st.subheader(f"Token {at + 1}")
    for column, lane, name in zip(st.columns(len(lanes), gap="medium"), lanes, chosen, strict=True):
        with column:
            if at >= len(lane.tokens):
                parts.dim(f"{lane.letter}: the run had ended")
                continue
            token = lane.tokens[at]
            block = next(block for block in lane.rounds if block.first <= at < block.stop)
            st.html(
                f"<b>{lane.letter} · <code>{escape(token.shown)}</code></b> {escape(word(token.mark))}"
                f"<p class='sv-dim'>{escape(wrote(block))}</p><p>{escape(_why(builders[name], token))}</p>"
            )
            if pages := st.session_state.get("pages"):
                place = token.place if token.node is None else f"{token.place}/n{token.node}"
                st.page_link(
                    pages["stage"],
                    label=f"{lane.letter} {token.place} on the stage",
                    icon=":material/theater_comedy:",
                    query_params={address.SRC: name, address.AT: place},
                )


def _why(builder: FrameBuilder, token: LaneToken) -> str:
    """The reason of the token, as the inspector tells it."""
    steps = builder.steps(token.index)
    node = CLOSING if token.node is None or token.node < 0 else token.node
    last: Cursor = steps.cursor(token.index, len(steps.moments) - 1)
    frame = builder.frame(last, Options(selected=node), Feed("open"))
    return frame.why.words if frame.why is not None else ""


# In numbers ----------------------------------------------------------------------------------------------------------


def _numbers(side_by_side: SideBySide, dark: bool) -> None:
    lanes, numbers = side_by_side.text.lanes, side_by_side.numbers
    st.subheader("Whole runs", help=f"{_HOW} 95 % over {numbers.over}.")
    rows = []
    for row in numbers.rows:
        cells: dict[str, str] = {"": row.label, "A": row.values[0].text}
        for lane, value, difference in zip(lanes[1:], row.values[1:], row.differences[1:], strict=True):
            cells |= {lane.letter: value.text, f"{lane.letter} − A": difference}
        rows.append(cells)
    st.dataframe(rows, hide_index=True, key="compare-metrics")
    left, right = st.columns(2, gap="large")
    parted = side_by_side.text.n_same if side_by_side.text.parted and side_by_side.text.same_prompt else None
    with left:
        _calls(side_by_side, parted, dark)
    with right:
        _saved(side_by_side, parted, dark)
    blocks.show(numbers.plots([f"{lane.letter} {lane.name}" for lane in lanes]), dark)
    _settings(side_by_side)


_HOW = (
    "± is half of a 95 % interval; a difference whose interval holds 0 tells nothing yet. Where all runs have two "
    "prompts or more in common these alone are compared, in pairs."
)


def _calls(side_by_side: SideBySide, parted: int | None, dark: bool) -> None:
    st.subheader("Target passes for the text", help="how many passes of the target it took until so many tokens stood")
    pairs = zip(side_by_side.text.lanes, side_by_side.steps, strict=True)
    ends = [
        (lane.letter, lane_steps.positions[-1], lane_steps.calls[-1]) for lane, lane_steps in pairs if lane_steps.calls
    ]
    alt = "; ".join(f"{letter}: {calls} passes for {tokens} tokens" for letter, tokens, calls in ends) + "."
    rows = [{"run": letter, "tokens": tokens, "target passes": calls} for letter, tokens, calls in ends]
    parts.plot(draw.fig_calls(side_by_side.text.lanes, side_by_side.steps, parted, dark), "compare-calls", alt, rows)


def _saved(side_by_side: SideBySide, parted: int | None, dark: bool) -> None:
    st.subheader("Passes beside those of A", help="below 0: fewer passes than A needed for as many tokens")
    alt = "Difference in target passes to A, by tokens written."
    parts.plot(draw.fig_saved(side_by_side.text.lanes, side_by_side.steps, parted, dark), "compare-saved", alt)


def _settings(side_by_side: SideBySide) -> None:
    st.subheader("Other settings")
    letters = [lane.letter for lane in side_by_side.text.lanes]
    rows = [{"": s.name, **dict(zip(letters, s.values, strict=True))} for s in side_by_side.differing]
    if rows:
        st.dataframe(rows, hide_index=True, key="compare-settings")
    some = f"; only some runs have {', '.join(s.name for s in side_by_side.partly)}" if side_by_side.partly else ""
    parts.say(f"{side_by_side.n_alike} settings are alike{some}")


# Below the stage -----------------------------------------------------------------------------------------------------


def _below(viewer: Viewer, dark: bool) -> None:
    """The run on the stage beside others; the cursor of both is one."""
    server = current()
    names = [name for name in choices(server, state.uploads()) if name not in (LIVE, viewer.name)]
    usual = [name for name in (_kin(viewer.name, names),) if name]
    chosen = _asked("Runs beside this one", BESIDE, names, usual, MOST - 1)
    state.tell()
    if not chosen:
        st.info(f"Choose one to {MOST - 1} runs to lay beside this one. Those of one prompt are aligned by position.")
        return
    builders = {viewer.name: viewer.player.builder, **_builders(server, chosen)}
    runs = [(name, builders[name].run) for name in (viewer.name, *chosen)]
    side_by_side = _once(runs, _prompt_here(viewer, _once(runs, 0)))
    lane = side_by_side.text.lanes[0]
    at = _beside(viewer, lane, side_by_side.text.n_positions)
    _text(side_by_side, builders, [name for name, _ in runs], at, _BELOW, lambda: _went(viewer, lane))
    if address.asks(address.TOKEN) not in (None, str(at + 1)):
        address.put({address.TOKEN: None})  # the stage has gone elsewhere
    _numbers(side_by_side, dark)


def _prompt_here(viewer: Viewer, side_by_side: SideBySide) -> int:
    """Of the prompts that all were given the one that the stage is at; the first, where it is at another."""
    index = viewer.player.cursor.index
    here = next(
        (n for n, q in enumerate(viewer.player.builder.run.queries) if q.first <= index < q.first + q.n_rounds), 0
    )
    return next((k for k, places in enumerate(side_by_side.shared) if places[0] == here), 0)


def _beside(viewer: Viewer, lane: RunLane, n: int) -> int:
    """The position that the cursor is at: where somebody went, until the stage is moved; else what the stage shows."""
    here, went = (viewer.name, viewer.place), st.session_state.get(_WENT)
    if went is None and address.asks(address.TOKEN) is not None:  # a link
        at = _position(n, 0)
        went = (here, at) if _leads_here(viewer, lane, at) else None
    st.session_state[_WENT] = went = went or (("", ""), 0)
    return int(went[1]) if went[0] == here and went[1] < n else _shown(viewer, lane, n)


def _shown(viewer: Viewer, lane: RunLane, n: int) -> int:
    """The position that the stage shows: its node where that was committed, else where its round begins."""
    index, node = viewer.player.cursor.index, viewer.options.selected
    mine = [k for k, token in enumerate(lane.tokens) if token.index == index]
    exact = next((k for k in mine if _node(lane.tokens[k]) == node), None)
    ahead = next((k for k, token in enumerate(lane.tokens) if token.index >= index), max(0, n - 1))
    return exact if exact is not None else mine[0] if mine else ahead


def _leads_here(viewer: Viewer, lane: RunLane, at: int) -> bool:
    """Whether a position lies in the round on the stage, or behind the end of its text."""
    return at >= len(lane.tokens) or lane.tokens[at].index == viewer.player.cursor.index


def _node(token: LaneToken) -> int:
    """The node that a token came from; the closing one has none of its own."""
    return CLOSING if token.node is None or token.node < 0 else token.node


def _went(viewer: Viewer, lane: RunLane) -> None:
    """A position was chosen: the stage goes to the token that its run wrote there.

    The address has the position as well where the stage's place alone would lead to another.
    """
    position = st.session_state[_BELOW].get("place")
    if not isinstance(position, int | float) or not lane.tokens:
        return
    token = lane.tokens[min(int(position), len(lane.tokens) - 1)]
    viewer.go(token.place)
    try:
        viewer.choose(_node(token))
    except SpecvizError:
        viewer.choose(None)  # nodes are not on record: its round is
    st.session_state[_WENT] = ((viewer.name, viewer.place), int(position))
    apart = int(position) != _shown(viewer, lane, int(position) + 1)
    state.put_place(viewer, {address.TOKEN: str(int(position) + 1) if apart else None})


PAGE = Page(
    "compare",
    "Compare",
    "compare_arrows",
    65,
    "several recorded runs side by side",
    page,
)
PANELS = (PanelBelow("compare", "Compare", 65, _below),)
