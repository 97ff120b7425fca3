"""Live: decode a prompt in the worker, with every setting it takes, and watch it on the stage."""

from collections import Counter
from typing import Any

import streamlit as st
from msgspec.structs import replace

from specviz.commands import Prompt, Start
from specviz.errors import SpecvizError
from specviz.events import MethodInfo
from specviz.names import LANES
from specviz.sources.bundled import bundled_prompts
from specviz.sources.prompts import load_prompts, parse_prompts
from specviz.sources.talking_run import proposed
from specviz_app.screens import live_models, live_talk
from specviz_app.screens.live_models import PickedModels
from specviz_app.server.core import ServedRun
from specviz_app.server.server import Server, current
from specviz_app.ui import ab, guard, knob_widgets, parts, state
from specviz_app.ui.library import LIVE
from specviz_app.ui.owner import must_own
from specviz_app.ui.pages import Page
from specviz_app.ui.tree import follow, whole_width

PACES = ("watch every round", "full speed", "held: step by hand")
_DEFAULT = "the method's own"
_SOURCES = ("the prompt below", "all bundled prompts", "a file")
_PROMPTS_MB = 4


def page() -> None:
    whole_width()
    server = current()
    core = server.core
    if not server.streams:
        st.info("Live runs need the server's own routes: start the dashboard with `specviz web`.")
        return
    with st.container(horizontal=True, vertical_alignment="bottom", key="beginning"):
        picked = live_models.boxes(server)
        method = method_box(core) if core.loaded and core.catalogue is not None else None
        if method is not None:
            st.selectbox("Pace", PACES, key="pace", bind="query-params", width=178)
        live_models.load_button(core, picked)
        live_talk.new_button(core)
    if core.loaded and core.catalogue is None:
        guard.fragment(_wait, 0.5)(core)
    if said := talks(core, picked):
        live_talk.conversation(server, picked, making(core, method))
    tell(core, picked, method)
    if core.has_core and not said:
        follow(server, core.dialogue().key)
        if method is not None:
            _start_form(server, core, method)
    if method is not None:
        _knobs(core, method, open=not said)


def tell(core: ServedRun, picked: PickedModels, method: MethodInfo | None) -> None:
    """What goes on and what stands in the way, in a line each."""
    ab.progress(core)
    if method is not None and method.missing is not None:
        st.caption(f"{method.name} cannot run here. {parts.plain(method.missing.text)}")
    live_models.tell(core, picked)
    state.tell()


def _wait(core: ServedRun) -> None:
    """Until the worker's catalogue is there, or it has gone."""
    if core.catalogue is not None or core.failed is not None:
        st.rerun()


def method_box(core: ServedRun) -> MethodInfo:
    """The methods, those that can run first; the others say what they lack when they are chosen."""
    assert core.catalogue is not None
    methods = {m.name: m for m in sorted(core.catalogue.methods, key=lambda m: m.missing is not None)}
    start = core.settings.start
    wanted = start.method if start is not None and start.method in methods else Start().method
    wanted = wanted if start is not None and wanted in methods else proposed(core.catalogue, wanted)
    names = list(methods)
    state.known("method", names)
    name = st.selectbox(
        "Method",
        names,
        names.index(wanted),
        key="method",
        bind="query-params",
        format_func=lambda name: live_talk.usable(methods[name]),
        help="  \n".join(f"{m.name}: {m.help}" for m in methods.values()),
        width=178,
    )
    method = methods[name]
    if "link-seen" not in st.session_state:
        st.session_state["link-seen"] = True
        for problem in knob_widgets.bad_link(method):
            state.note(f"{problem}; the link's value is left out")
    return method


def talks(core: ServedRun, picked: PickedModels) -> bool:
    """Whether prompts are messages: as the switch says, else as the model is."""
    if not picked.ready or core.catalogue is None:
        goes_on = core.has_core and picked.models == core.models and (bool(core.talk) or bool(core.talk.unsent))
        return picked.talks or goes_on
    linked = st.query_params.get(live_models.CHAT)  # the switch itself is placed further down
    first = _chat(core) if linked is None else linked.lower() == "true"
    return core.catalogue.chat and bool(st.session_state.get(live_models.CHAT, first))


def _chat(core: ServedRun) -> bool:
    """Whether a prompt is a message at first: as the command line says, else for every model that was named and knows
    messages. The embedded one has a template and follows no instructions: it goes on with texts."""
    start = core.settings.start
    asked = start.chat if start is not None else None
    return core.talks if asked is None else asked


def making(core: ServedRun, method: MethodInfo | None) -> live_talk.Making:
    """The start that the widgets ask for, when it is asked for."""
    return live_talk.start_before_loading if method is None else lambda: _asked(core, method)


def _start_form(server: Server, core: ServedRun, method: MethodInfo) -> None:
    """The prompt and the button, for texts that are gone on with."""
    start = server.settings.start
    _example()
    if "prompt" not in st.session_state:
        st.session_state["prompt"] = (start.prompt if start else "") or next(iter(bundled_prompts().values()), "")
    many = _many()
    st.text_area("Prompt", key="prompt", height=110, on_change="ignore", disabled=bool(many))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.button("Start", type="primary", on_click=guard.obeyed(_start), args=(core, method, many), key="start")
        if core.has_run:
            st.page_link(
                st.session_state["pages"]["rounds"],
                label="Open in the round explorer",
                icon=":material/account_tree:",
                query_params={state.SRC: LIVE},
            )


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
    try:
        must_own()
        if not prompt and not many:
            raise SpecvizError("The prompt is empty; decoding needs at least one token to start from.")
        start, paced = _asked(core, method)
        core.start(replace(start, prompt="" if many else prompt, stream=many), paced=paced)
        held[state.SRC] = LIVE
        st.query_params.pop(state.AT, None)
    except SpecvizError as error:
        held[live_models.PROBLEM] = str(error)


def _asked(core: ServedRun, method: MethodInfo) -> tuple[Start, bool]:
    """A start as the widgets have it, without a prompt, and whether rounds wait for the eye. Raises KnobError."""
    held = st.session_state
    verifier = held.get(f"{method.name}.verifier", _DEFAULT)
    pace = held.get("pace", PACES[0])
    switch = core.catalogue is not None and core.catalogue.chat  # without a template, what --chat asks is refused
    asked = core.settings.start.chat if core.settings.start is not None else None
    start = Start(
        method=method.name,
        verifier=None if verifier == _DEFAULT else verifier,
        knobs=_given(method),
        chat=bool(held.get(live_models.CHAT)) if switch else asked,
        paused=pace == PACES[2],
        lanes=held.get("lanes") or LANES[0],
    )
    return start, pace == PACES[0]


def _given(method: MethodInfo) -> dict[str, Any]:
    """The knobs that are set to something else than the method's default."""
    plain = {spec.name: spec.default for spec in method.knobs}
    return {name: value for name, value in knob_widgets.chosen(method).items() if value != plain[name]}


def _knobs(core: ServedRun, method: MethodInfo, open: bool) -> None:
    """Every knob of the method, and the button that asks a running run for those that were moved."""
    start = core.settings.start
    given = start.knobs if start is not None and start.method == method.name else {}
    running, asked = core.asked()
    if running == method.name:
        knob_widgets.follow(method, asked)
    with st.expander(f"Knobs of {method.name}", expanded=open):
        _settings(core, method)
        knob_widgets.knob_widgets(method, given)
        st.button(
            "Apply at the next round",
            key="apply",
            on_click=guard.obeyed(_apply),
            args=(core, method),
            help="sends what differs from what is in force; the picture says since when",
        )
        if said := st.session_state.pop("apply_said", None):
            parts.say(said)


def _settings(core: ServedRun, method: MethodInfo) -> None:
    """Rule, lanes, and whether a prompt is a message."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        verifiers = [_DEFAULT, *method.verifiers]
        st.selectbox("Verifier", verifiers, key=f"{method.name}.verifier", bind="query-params", width=190)
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
                key=live_models.CHAT,
                bind="query-params",
                help="hand the prompt over as a user's message, in the form that the target was trained on; "
                "without it the model goes on with the prompt's own text",
            )


def _apply(core: ServedRun, method: MethodInfo) -> None:
    try:
        must_own()
        running, asked = core.asked()
        if not core.running:
            st.session_state["apply_said"] = "No run is going on: the knobs are taken at the next start."
            return
        if running != method.name:
            st.session_state["apply_said"] = f"The running method is {running}; its knobs are those of that method."
            return
        moved = knob_widgets.differing(method, asked)
        core.set_knobs(moved)
        st.session_state["apply_said"] = f"Requested: {', '.join(moved)}." if moved else "Nothing was moved."
    except SpecvizError as error:
        st.session_state["apply_said"] = str(error)


PAGE = Page("live", "Live", "play_circle", 10, "decode a prompt and watch it happen", page)
