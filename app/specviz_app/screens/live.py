"""The drawer of the live stage: models, method, pace, every setting of the next run, and many prompts in a row."""

from collections import Counter
from typing import Any

import streamlit as st
from msgspec.structs import replace

from specviz.commands import Prompt, Start
from specviz.errors import SpecvizError
from specviz.events import MethodInfo
from specviz.names import LANES
from specviz.sources.prompts import load_prompts, parse_prompts
from specviz.sources.talking_run import proposed
from specviz_app.screens import live_models, live_talk
from specviz_app.screens.live_models import PickedModels
from specviz_app.server.core import ServedRun
from specviz_app.server.server import Server
from specviz_app.ui import ab, address, guard, knob_widgets, parts, state
from specviz_app.ui.library import LIVE
from specviz_app.ui.owner import must_own

PACES = ("watch every round", "full speed", "held: step by hand")
_DEFAULT = "the method's own"
_SOURCES = ("all bundled prompts", "a file")
_PROMPTS_MB = 4


def drawer(core: ServedRun, server: Server) -> tuple[PickedModels, MethodInfo | None]:
    """The models and the method that are chosen; None until a core is there that says which methods it has."""
    with st.popover("Model and settings", icon=":material/tune:", help="models, method, knobs of the next run"):
        with st.container(horizontal=True, vertical_alignment="bottom"):
            picked = live_models.boxes(server)
            method = method_box(core) if core.loaded and core.catalogue is not None else None
            if method is not None:
                st.selectbox("Pace", PACES, key="pace", bind="query-params", width=178)
        if method is not None:
            _settings(core, method)
            _many(core, method)
            _knobs(core, method)
    return picked, method


def tell(core: ServedRun, picked: PickedModels, method: MethodInfo | None) -> None:
    """What goes on and what stands in the way, in a line each."""
    ab.progress(core)
    if method is not None and method.missing is not None:
        st.caption(f"{method.name} cannot run here. {parts.plain(method.missing.text)}")
    live_models.tell(core, picked)
    state.tell()


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
    linked = address.asks(live_models.CHAT)  # the switch itself is placed further down
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
    return (lambda: live_talk.start_before_loading(core, True)) if method is None else lambda: _asked(core, method)


def _many(core: ServedRun, method: MethodInfo) -> None:
    """The prompts of a stream, and the button that decodes them. What is wrong with a file is said."""
    with st.expander("Many prompts, one after another", key="many", on_change="rerun"):
        source = st.selectbox(
            "Decode",
            _SOURCES,
            key="stream",
            width=240,
            help="one drafter for all, which learns on the way if its method can (knob adapt)",
        )
        upload = st.file_uploader(
            "A file of prompts",
            type=["jsonl"],
            key="stream-file",
            max_upload_size=_PROMPTS_MB,
            disabled=source != _SOURCES[1],
            help="one JSON object a line: prompt, and domain if you like",
        )
        try:
            prompts = load_prompts(None) if source == _SOURCES[0] else None
            if source == _SOURCES[1] and upload is not None:
                prompts = parse_prompts(upload.getvalue(), upload.name, upload.name.removesuffix(".jsonl"))
        except SpecvizError as error:
            st.error(parts.plain(str(error)))
            return
        if prompts is None:
            return
        kinds = ", ".join(f"{n} {kind}" for kind, n in Counter(prompts.domains).items())
        parts.say(f"{len(prompts.texts)} prompts: {kinds}.")
        stream = list(prompts.stream)
        st.button(
            "Decode them", type="primary", on_click=guard.obeyed(_start), args=(core, method, stream), key="start"
        )


def _start(core: ServedRun, method: MethodInfo, stream: list[Prompt]) -> None:
    """Hand all prompts of a stream over, with every knob as it is set."""
    try:
        must_own()
        start, paced = _asked(core, method)
        core.start(replace(start, stream=stream), paced=paced)
        st.session_state[address.SRC] = LIVE
        address.forget(address.AT)
    except SpecvizError as error:
        st.session_state[live_models.PROBLEM] = str(error)


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


def _knobs(core: ServedRun, method: MethodInfo) -> None:
    """Every knob of the method, and the button that asks a running run for those that were moved."""
    start = core.settings.start
    start_values = start.knobs if start is not None and start.method == method.name else {}
    running, asked = core.asked()
    if running == method.name:
        knob_widgets.follow(method, asked)
    with st.expander(f"Knobs of {method.name}"):
        knob_widgets.knob_widgets(method, start_values)
        st.button(
            "Apply at the next round",
            key="apply",
            on_click=guard.obeyed(_apply),
            args=(core, method),
            help="sends what differs from what is in force; the picture says since when",
        )
        if apply_answer := st.session_state.pop("apply_said", None):
            parts.say(apply_answer)


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
