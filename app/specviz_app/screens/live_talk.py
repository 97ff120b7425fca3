"""What is said to the core on the live stage."""

from collections.abc import Callable

import streamlit as st
from msgspec.structs import replace

from specviz.commands import Start
from specviz.errors import SpecvizError
from specviz.events import MethodInfo
from specviz_app.screens.live_models import PROBLEM, PickedModels, load
from specviz_app.server.core import ServedRun
from specviz_app.ui import address
from specviz_app.ui.library import LIVE
from specviz_app.ui.owner import must_own

Making = Callable[[], tuple[Start, bool]]  # the next start without its prompt, and whether rounds wait for the eye


def begin_anew(core: ServedRun) -> None:
    """Forget what was said."""
    must_own()
    core.begin_anew()


def ask(core: ServedRun, picked: PickedModels, making: Making, message: str) -> None:
    """Send a message; the models are loaded first where they are not."""
    try:
        must_own()
        start, paced = making()
        if not picked.ready and not load(core, picked.models):
            core.talk.give_back(message)
            return
        core.ask(message, start, paced)
        st.session_state[address.SRC] = LIVE
        address.forget(address.AT)
    except SpecvizError as error:
        st.session_state[PROBLEM] = str(error)
        core.talk.give_back(message)


def start_before_loading(core: ServedRun, talks: bool) -> tuple[Start, bool]:
    """What the first text asks for while nobody knows what the models can do: what the command line says. The core
    picks another method where that one cannot run."""
    start = core.settings.start or Start()
    return replace(start, prompt="", chat=True if talks else start.chat), True


def usable(method: MethodInfo) -> str:
    """How a list shows a method."""
    return method.name if method.missing is None else f"{method.name} (not here)"
