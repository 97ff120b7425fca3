"""Live: decode a prompt in the worker and watch it; move knobs on the way; ask why of any node."""

from collections import Counter
from typing import Any

import streamlit as st

from specviz.commands import Prompt, Start
from specviz.errors import SpecvizError
from specviz.events import MethodInfo
from specviz.names import LANES
from specviz.sources.bundled import bundled_prompts
from specviz.sources.prompts import load_prompts, parse_prompts
from specviz_app.server.core import ServedRun
from specviz_app.server.server import Server, current
from specviz_app.ui import guard, parts, sidebar, state
from specviz_app.ui.library import LIVE
from specviz_app.ui.pages import Page

PACES = ("watch every round", "full speed", "held: step by hand")
_DEFAULT = "the method's own"
_SOURCES = ("the prompt below", "all bundled prompts", "a file")
_PROMPTS_MB = 4


def page() -> None:
    server = current()
    core = server.core
    if not server.streams:
        st.info("Live runs need the server's own routes: start the dashboard with `specviz web`.")
        return
    if core.failed is not None:
        _failed(core)
    if not core.loaded:
        _models(server)
        return
    parts.live_tree(server, guard.obeyed(_node_chosen))
    if core.catalogue is None:
        guard.fragment(_wait, 0.5)(core)
        return
    _start_form(server, core)
    _knobs(core)
    _why(core)


def _failed(core: ServedRun) -> None:
    kept = "The core has ended. Everything that was decoded is kept; load the models again to go on."
    st.error(kept if core.has_run and core.catalogue else "The models could not be loaded.")
    st.code(core.failed or "", language=None, wrap_lines=True)


def _models(server: Server) -> None:
    """Which pair to load; the embedded one when nothing is named."""
    settings = server.settings
    with st.form("models"):
        st.markdown("**Load a pair of models.** They run in a process of their own and stay loaded.")
        named: dict[str, Any] = {"persist_state": "session", "help": "a folder that save_pretrained wrote, or a hub id"}
        target = st.text_input("Target", settings.model("target"), key="target", placeholder="embedded", **named)
        draft = st.text_input("Draft model", settings.model("draft"), key="draft", placeholder="embedded", **named)
        if st.form_submit_button("Load the models", type="primary"):
            try:
                server.core.load((target or "").strip(), (draft or "").strip())
            except SpecvizError as error:
                st.error(parts.plain(str(error)))
                return
            st.rerun()


def _wait(core: ServedRun) -> None:
    """Until the worker's catalogue is there, or it has gone."""
    st.caption("Loading the models…")
    if core.catalogue is not None or core.failed is not None:
        st.rerun()


def _method(core: ServedRun) -> MethodInfo:
    assert core.catalogue is not None
    methods = {m.name: m for m in sorted(core.catalogue.methods, key=lambda m: m.missing is not None)}
    start = core.settings.start
    wanted = start.method if start is not None and start.method in methods else next(iter(methods))
    usual = methods.get(Start().method)
    wanted = usual.name if start is None and usual is not None and usual.missing is None else wanted
    names = list(methods)
    state.known("method", names)
    name = st.selectbox(
        "Method",
        names,
        names.index(wanted),
        key="method",
        bind="query-params",
        format_func=lambda name: name if methods[name].missing is None else f"{name} (not here)",
        help="  \n".join(f"{m.name}: {m.help}" for m in methods.values()),
        width=170,
    )
    return methods[name]


def _start_form(server: Server, core: ServedRun) -> None:
    """Prompt, method, verifier, pace, and the button."""
    start = server.settings.start
    _example()
    if "prompt" not in st.session_state:
        st.session_state["prompt"] = (start.prompt if start else "") or next(iter(bundled_prompts().values()), "")
    many = _many()
    st.text_area("Prompt", key="prompt", height=110, on_change="ignore", disabled=bool(many))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        method = _method(core)
        if "link-seen" not in st.session_state:
            st.session_state["link-seen"] = True
            for problem in sidebar.bad_link(method):
                state.note(f"{problem}; the link's value is left out")
        verifiers = [_DEFAULT, *method.verifiers]
        st.selectbox("Verifier", verifiers, key=f"{method.name}.verifier", bind="query-params", width=190)
        st.selectbox("Pace", PACES, key="pace", bind="query-params", width=190)
        st.selectbox(
            "Lanes",
            LANES,
            key="lanes",
            bind="query-params",
            width=130,
            help="where drafting runs beside the target's pass, for methods that draft ahead; the text is the "
            "same on all, auto measures which is fastest",
        )
        if core.catalogue is not None and core.catalogue.chat:
            st.toggle(
                "Chat template",
                _chat(core),
                key="chat",
                bind="query-params",
                help="hand the prompt over as a user's message, in the form that the target was trained on; "
                "without it the model goes on with the prompt's own text",
            )
        st.button("Start", type="primary", on_click=guard.obeyed(_start), args=(core, method, many), key="start")
        if core.has_run:
            st.page_link(
                _explorer(),
                label="Open in the round explorer",
                icon=":material/account_tree:",
                query_params={state.SRC: LIVE},
            )
    if method.missing is not None:
        st.caption(f"{method.name} cannot run here. {parts.plain(method.missing.text)}")
    if problem := st.session_state.pop("start_problem", None):
        st.error(parts.plain(problem))
    state.tell()
    st.session_state["live_method"] = method


def _chat(core: ServedRun) -> bool:
    """Whether a prompt is a message at first: as the command line says, else for every model that was named and knows
    messages. The embedded one has a template and follows no instructions: it goes on with texts."""
    start = core.settings.start
    asked = start.chat if start is not None else None
    return bool(core.target) if asked is None else asked


def _explorer() -> Any:
    return st.session_state["pages"]["rounds"]


def _example() -> None:
    def taken() -> None:
        name = st.session_state.get("example")
        if name in bundled_prompts():
            st.session_state["prompt"] = bundled_prompts()[name]

    names = list(bundled_prompts())
    if names:
        st.selectbox(
            "Example", names, index=None, key="example", placeholder="a bundled prompt", on_change=guard.obeyed(taken)
        )


def _many() -> list[Prompt]:
    """The prompts of a stream; none for the one prompt of the form. What is wrong with a file is said."""
    with st.expander("Many prompts, one after another", key="many", on_change="rerun"):
        source = st.selectbox(
            "Decode",
            _SOURCES,
            key="stream",
            width=240,
            help="one drafter for all, which learns on the way if its method can (knob adapt)",
        )
        given = st.file_uploader(
            "A file of prompts",
            type=["jsonl"],
            key="stream-file",
            max_upload_size=_PROMPTS_MB,
            disabled=source != _SOURCES[2],
            help="one JSON object a line: prompt, and domain if you like",
        )
        try:
            found = load_prompts(None) if source == _SOURCES[1] else None
            if source == _SOURCES[2] and given is not None:
                found = parse_prompts(given.getvalue(), given.name, given.name.removesuffix(".jsonl"))
        except SpecvizError as error:
            st.error(parts.plain(str(error)))
            return []
        if found is None:
            return []
        kinds = ", ".join(f"{n} {kind}" for kind, n in Counter(found.domains).items())
        parts.say(f"{len(found.texts)} prompts: {kinds}.")
    return list(found.stream)


def _start(core: ServedRun, method: MethodInfo, many: list[Prompt]) -> None:
    """Hand the prompt over, or all of a stream, with every knob as it is set."""
    held = st.session_state
    prompt = held.get("prompt") or ""
    verifier = held.get(f"{method.name}.verifier", _DEFAULT)
    pace = held.get("pace", PACES[0])
    switch = core.catalogue is not None and core.catalogue.chat  # without a template, what --chat asks is refused
    asked = core.settings.start.chat if core.settings.start is not None else None
    chat = bool(held.get("chat")) if switch else asked
    try:
        if not prompt and not many:
            raise SpecvizError("The prompt is empty; decoding needs at least one token to start from.")
        start = Start(
            prompt="" if many else prompt,
            stream=many,
            method=method.name,
            verifier=None if verifier == _DEFAULT else verifier,
            knobs=_given(method),
            chat=chat,
            paused=pace == PACES[2],
            lanes=held.get("lanes") or LANES[0],
        )
        core.start(start, paced=pace == PACES[0])
        held[state.SRC] = LIVE
    except SpecvizError as error:
        held["start_problem"] = str(error)


def _given(method: MethodInfo) -> dict[str, Any]:
    """The knobs that are set to something else than the method's default."""
    plain = {spec.name: spec.default for spec in method.knobs}
    return {name: value for name, value in sidebar.chosen(method).items() if value != plain[name]}


def _knobs(core: ServedRun) -> None:
    """Every knob of the method, and the button that asks a running run for those that were moved."""
    method: MethodInfo = st.session_state["live_method"]
    start = core.settings.start
    given = start.knobs if start is not None and start.method == method.name else {}
    running, asked = core.asked()
    if running == method.name:
        sidebar.follow(method, asked)
    with st.expander("Knobs", expanded=True):
        sidebar.knob_widgets(method, given)
        st.button(
            "Apply at the next round",
            key="apply",
            on_click=guard.obeyed(_apply),
            args=(core, method),
            help="sends what differs from what is in force; the table above says since when",
        )
        if said := st.session_state.pop("apply_said", None):
            parts.say(said)


def _apply(core: ServedRun, method: MethodInfo) -> None:
    try:
        running, asked = core.asked()
        if not core.running:
            st.session_state["apply_said"] = "No run is going on: the knobs are taken at the next start."
            return
        if running != method.name:
            st.session_state["apply_said"] = f"The running method is {running}; its knobs are those of that method."
            return
        moved = sidebar.differing(method, asked)
        core.set_knobs(moved)
        st.session_state["apply_said"] = f"Requested: {', '.join(moved)}." if moved else "Nothing was moved."
    except SpecvizError as error:
        st.session_state["apply_said"] = str(error)


def _node_chosen() -> None:
    """A click in the tree: this tab looks at that node from now on."""
    st.session_state["live_node"] = parts.chosen_node()


def _why(core: ServedRun) -> None:
    """The node that was clicked, explained in full."""
    wanted = st.session_state.get("live_node")
    if not wanted:
        st.caption("Click a node of the tree, or press Enter on it, to ask why.")
        return
    try:
        found = core.look_at(int(wanted["q"]), int(wanted["r"]), int(wanted["node"]))
    except SpecvizError as error:
        parts.say(str(error))
        return
    if found is None:
        st.caption("That round belongs to a run that is gone.")
        return
    frame, place = found
    st.subheader(f"Round {frame.round}")
    parts.why_panel(frame.why, state.dark(), "live")
    st.page_link(
        _explorer(),
        label="See it in the round explorer",
        icon=":material/account_tree:",
        query_params={state.SRC: LIVE, state.AT: place},
    )


PAGE = Page("live", "Live", "play_circle", 10, "decode a prompt and watch it happen", page)
