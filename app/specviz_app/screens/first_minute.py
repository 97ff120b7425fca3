"""The first minute on the stage: what the picture shows, in four steps, and the same prompt decoded on this machine."""

import time
from typing import Any

import streamlit as st
from msgspec.structs import replace

from specviz.commands import Start
from specviz.errors import SpecvizError
from specviz.events import Header
from specviz.runlog.fold import Run
from specviz.sources.chat_examples import CHAT_EXAMPLES
from specviz.sources.talking_run import proposed
from specviz.view.words.palette import Phase
from specviz_app.screens import live_models
from specviz_app.server.core import ServedRun, lacking
from specviz_app.server.server import ONLY_OWNER, Server
from specviz_app.ui import address, guard, parts, state
from specviz_app.ui.library import LIVE, choices
from specviz_app.ui.owner import must_own, owns

_PUT_BY = "welcome-put-by"  # in the session's state, and nowhere else
_LOADS = "loads-for-a-run"  # the same: models are loaded for a run that is shown as soon as it begins
_LOOK_S = 0.5
# `part` of the picture that a step is about; `phase`: at which it is come to at the latest; one with a `key` goes on
# when that is pressed.
STEPS: tuple[dict[str, str | int], ...] = (
    {
        "part": ".canvas",
        "title": "This is the draft.",
        "words": "A quick drafter guesses the next tokens: a box is a guess, its bar q how sure the drafter was.",
    },
    {
        "part": ".phases",
        "key": "ArrowRight",
        "phase": int(Phase.VERIFY),
        "title": "Press → to see the target judge it.",
        "words": "One pass of the model sets its p beside every q. Where u falls into the blue band, it is kept.",
    },
    {
        "part": ".why",
        "key": "}",
        "phase": int(Phase.COMMIT),
        "title": "Press } to see one rejected.",
        "words": "On the right stands why, and what would have kept it. Click any box or word to ask.",
    },
    {
        "part": ".knobs",
        "title": "Now drag γ.",
        "words": "What would have been kept, decided at once. Run it here decodes the prompt on this machine, with "
        "knobs that move as it goes.",
    },
)


def welcome(server: Server, name: str) -> list[dict[str, str | int]]:
    """The steps, where somebody came without asking for anything, and has not put them away."""
    came = server.settings.replay is None and not server.settings.live
    first = name == next(iter(choices(server, {})))
    return list(STEPS) if came and first and not st.session_state.get(_PUT_BY) else []


def put_by() -> None:
    """The steps do not come back while this tab is open."""
    st.session_state[_PUT_BY] = True


def offer(server: Server, run: Run) -> dict[str, Any]:
    """The button that decodes the same prompt here; off, with the line that mends it, where nothing can be decoded."""
    problem = lacking(server.settings) if owns(server) else ONLY_OWNER
    core = server.core
    own = live_models.recorded_target(run.header)
    target = live_models.proposed_target(own, prompt_of(run)[1])
    name = "the model that is loaded" if core.loaded else target.label
    first = "" if core.loaded else "; loading takes up to a minute, and is done once"
    if own is not None and not (core.loaded or own.able):
        first += f". {own.problem}: {own.command}"
    help_ = f"decode the same prompt on this machine, with {name}{first}"
    text = "Run it here" if core.loaded else f"Load {name}, run it here"
    return {"able": problem is None, "text": text, "help": help_ if problem is None else str(problem)}


def prompt_of(run: Run) -> tuple[str, bool]:
    """What was asked, and whether that was a message: an example of ours, around which a template's rows are left out,
    or what was asked of a model that is made for messages."""
    prefill = run.queries[0].prefill if run.queries else None
    text = prefill.text if prefill is not None else ""
    message = next((message for message in CHAT_EXAMPLES.values() if message in text), None)
    own = live_models.recorded_target(run.header)
    return (text, own is not None and own.chat) if message is None else (message, True)


def run_here(server: Server, run: Run) -> None:
    """Go on live from the prompt of a recording, as it was decoded; the models are loaded first where none are."""
    must_own()
    core = server.core
    text, chat = prompt_of(run)
    put_by()
    try:
        if not text or run.header is None:
            raise SpecvizError("this recording does not hold its prompt: write one below the text of the live run")
        loaded = core.loaded
        if not loaded:
            target = live_models.proposed_target(live_models.recorded_target(run.header), chat)
            core.load(target.name, live_models.proposed_draft(target, run.header))
        _ask(core, _like(run.header, chat), text)
        if not loaded:
            st.session_state[_LOADS] = True
            return
        st.session_state[address.SRC] = LIVE
        address.forget(address.AT)
    except SpecvizError as error:
        st.session_state[live_models.PROBLEM] = str(error)


def loading(server: Server) -> None:
    """While models are loaded for a run, the recording plays on below a line that says how far they are."""
    if st.session_state.get(_LOADS):
        guard.fragment(_wait, _LOOK_S)(server)


def _wait(server: Server) -> None:
    if words := server.core.awaited:
        seconds = time.monotonic() - server.core.waits_since
        st.info(parts.plain(f"{words} · {seconds:.0f} s. This recording plays meanwhile."))
        return
    del st.session_state[_LOADS]
    state.open_next(LIVE)
    address.forget(address.AT)
    st.rerun()


def _ask(core: ServedRun, like: Start, text: str) -> None:
    """As a message where the model takes such; a text that is gone on with is one for the embedded pair."""
    if core.catalogue is not None and (able := proposed(core.catalogue, like.method)) != like.method:
        like = Start(method=able, chat=like.chat)
    core.begin_anew()
    if core.catalogue is None or (core.talks and like.chat is None):
        core.ask(text, like, paced=True)
    else:
        core.start(replace(like, prompt=text), paced=True)


def _like(header: Header, chat: bool) -> Start:
    """The recording's method with the knobs that were not left as they are. Files it was given are not named."""
    values = {**header.knobs, **header.sampling}
    knobs = {
        spec.name: values[spec.name]
        for spec in header.knob_specs
        if spec.kind != "texts" and values.get(spec.name, spec.default) != spec.default
    }
    return Start(method=header.method, knobs=knobs, chat=None if chat else False)
