"""On the stage: the newest run of the core, what is said to it, and with which models and method."""

from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st
from msgspec.structs import replace

from specviz.commands import Start
from specviz.errors import SpecvizError
from specviz.events import MethodInfo
from specviz.sources.bundled import bundled_prompts
from specviz.sources.chat_examples import CHAT_EXAMPLES
from specviz_app.screens import live, live_models, live_talk
from specviz_app.screens.live_models import PickedModels
from specviz_app.server.core import ServedRun
from specviz_app.server.server import Server
from specviz_app.ui import ab, address, below, picture, state, together
from specviz_app.ui.library import LIVE
from specviz_app.ui.owner import must_own, owns
from specviz_app.ui.pages import all_below
from specviz_app.ui.tree import followed
from specviz_app.ui.viewer import Viewer


def show(server: Server, key: str, viewer: Viewer | None, moved: Mapping[str, Callable[[Any], object]]) -> None:
    """The drawer, and the picture, which follows the core by itself.

    `viewer`: this tab's view of the run, where a panel shows it; `moved`: what is due when somebody stayed at a place,
    or opened a panel.
    """
    core = server.core
    with st.container(horizontal=True, vertical_alignment="center", key="beginning"):
        picked, method = live.drawer(core, server)
        live_models.load_button(core, picked)
    live.tell(core, picked, method)
    talks = live.talks(core, picked)
    making = live.making(core, method)
    data = followed(server)
    if viewer is not None:
        data["at"] = "" if viewer.follows else viewer.place
    data |= {
        "method": method.name if method is not None else "",
        "manner": _manner(picked, method, talks, owns(server)),
        "panels": _panels(core, viewer),
        "panel": below.opened(),
        "large": below.large(),
        **together.data(server, LIVE),
    }
    talk = {
        "say": lambda text: _said(text, core, picked, making, talks),
        "look": state.look_back,
        "anew": lambda _: live_talk.begin_anew(core),
        "core": lambda _: None,  # the script runs
        "ab": lambda _: ab.begin(core),
    }
    picture.stage(data, key, {**moved, **talk})


def _panels(core: ServedRun, viewer: Viewer | None) -> list[tuple[str, str, str]]:
    """The row of panels; before one is opened, by what the method has."""
    if viewer is not None:
        return below.row(viewer)
    return [(panel.id, panel.title, "" if core.has_core else "no run yet") for panel in all_below()]


def _manner(picked: PickedModels, method: MethodInfo | None, talks: bool, owns: bool) -> dict[str, Any]:
    """What can be said here, and what stands in the way."""
    name = picked.target.label
    missing = method.missing if method is not None else None
    why = "" if missing is None else f"{method.name if method else ''} cannot run here: {missing.why}"
    return {
        "talks": talks,
        "able": picked.able and missing is None and owns,
        "placeholder": f"Message to {name}" if talks else f"A text that {name} goes on with",
        "why": why if owns else "You are watching: who started the server steers and writes.",
        "command": "" if missing is None else missing.command or "",
        "examples": CHAT_EXAMPLES if talks else bundled_prompts(),
    }


def _as_shown(core: ServedRun, making: live_talk.Making) -> tuple[Start, bool]:
    """What is asked for, with the knobs as they stand below the picture."""
    start, paced = making()
    return (core.with_knobs(start) if core.catalogue is not None else start), paced


def _said(text: str, core: ServedRun, picked: PickedModels, making: live_talk.Making, talks: bool) -> None:
    """A message, or a text that is gone on with."""
    if not text.strip():
        return
    address.forget(address.AT)
    if talks:
        live_talk.ask(core, picked, lambda: _as_shown(core, making), text)
        return
    if core.catalogue is None or not picked.ready:  # it waits for the models
        live_talk.ask(core, picked, lambda: live_talk.start_before_loading(core, False), text)
        return
    try:
        must_own()
        start, paced = _as_shown(core, making)
        core.start(replace(start, prompt=text), paced)
        st.session_state[address.SRC] = LIVE
    except SpecvizError as error:
        st.session_state[live_models.PROBLEM] = str(error)
