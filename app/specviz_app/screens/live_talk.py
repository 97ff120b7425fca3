"""On the page Live: the stage that follows the core, and a conversation with it: earlier turns stand above."""

from collections.abc import Callable
from html import escape
from textwrap import shorten

import streamlit as st

from specviz.commands import Start
from specviz.errors import SpecvizError
from specviz.events import MethodInfo
from specviz.sources.chat_examples import CHAT_EXAMPLES
from specviz.sources.conversation import Spoken
from specviz.text import running
from specviz_app.screens.live_models import PROBLEM, PickedModels, load
from specviz_app.server.core import ServedRun
from specviz_app.server.server import Server
from specviz_app.ui import guard, parts, state
from specviz_app.ui.library import LIVE
from specviz_app.ui.owner import must_own
from specviz_app.ui.tree import follow

MESSAGE = "message"  # in the session's state: what is typed
_FACES = {"user": ":material/person:", "assistant": ":material/account_tree:"}
Making = Callable[[], tuple[Start, bool]]  # the next start without its prompt, and whether rounds wait for the eye


def conversation(server: Server, picked: PickedModels, making: Making) -> None:
    """What was said, the answer in hand, and the box for the next message."""
    core = server.core
    dialogue = core.dialogue()
    _unsent(core)
    with st.container(key="said"):
        for turn in dialogue.above:
            _turn(core, turn)
    if dialogue.shown or core.running:
        follow(server, dialogue.key)
    if dialogue.below:
        _turn(core, Spoken("user", dialogue.below))
    if not (dialogue.above or dialogue.below):
        _greeting(core, picked, making)
    name = picked.target.label
    st.chat_input(
        f"Message to {name}" if picked.able else f"{name} is not here",
        key=MESSAGE,
        on_submit=guard.obeyed(_sent),
        args=(core, picked, making),
        disabled=not picked.able,
    )


def new_button(core: ServedRun) -> None:
    """In the row that is open, where something was said."""
    dialogue = core.dialogue()
    if dialogue.above or dialogue.below:
        st.button(
            "New conversation",
            icon=":material/add_comment:",
            key="new",
            on_click=guard.obeyed(begin_anew),
            args=(core,),
        )


def begin_anew(core: ServedRun) -> None:
    """Forget what was said."""
    must_own()
    core.begin_anew()


def _greeting(core: ServedRun, picked: PickedModels, making: Making) -> None:
    """What this is, and something to begin with."""
    parts.lead(
        f"Ask {picked.target.label} something and watch how its answer comes about.",
        "A quick drafter guesses the next tokens; the model tests them all in one pass and keeps those that it "
        "would have written itself.",
    )
    parts.legend(state.dark())
    with st.container(gap="small", key="examples"):
        for name, message in CHAT_EXAMPLES.items():
            st.button(
                f"**{name}**  {parts.plain(shorten(message, 88, placeholder='…'))}",
                key=f"example-{name}",
                on_click=guard.obeyed(ask),
                args=(core, picked, making, message),
                help=parts.plain(message),
                disabled=not picked.able,
                width="stretch",
            )


def _turn(core: ServedRun, turn: Spoken) -> None:
    """A message or an answer, as text alone; of an answer the way to its rounds."""
    with st.chat_message(turn.role, avatar=_FACES[turn.role]):
        lines = "\n".join(escape(running(line)) for line in turn.text.split("\n"))
        st.html(f'<div class="sv-turn">{lines}</div>')
        if turn.role == "assistant":
            _below(core, turn)


def _below(core: ServedRun, turn: Spoken) -> None:
    name = core.name_of(turn.run)
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        parts.dim(" · ".join(filter(None, (turn.who, "stopped" if turn.stopped else ""))))
        if name is not None:
            st.button(
                f"{name}: look at its rounds",
                key=f"rounds-{turn.run}",
                icon=":material/account_tree:",
                type="tertiary",
                on_click=guard.obeyed(state.look_back),
                args=(name,),
            )


def _unsent(core: ServedRun) -> None:
    """A message that came to nothing goes back into the box, with the reason."""
    message, why = core.take_unsent()
    if message:
        st.session_state[MESSAGE] = message
        if core.failed is None:
            st.session_state[PROBLEM] = f"Not answered: {why}."


def _sent(core: ServedRun, picked: PickedModels, making: Making) -> None:
    ask(core, picked, making, str(st.session_state.get(MESSAGE) or ""))


def ask(core: ServedRun, picked: PickedModels, making: Making, message: str) -> None:
    """Send a message; the models are loaded first where they are not."""
    try:
        must_own()
        start, paced = making()
        if not picked.ready and not load(core, picked.models):
            core.talk.give_back(message)
            return
        core.ask(message, start, paced)
        st.session_state[state.SRC] = LIVE
        st.query_params.pop(state.AT, None)
    except SpecvizError as error:
        st.session_state[PROBLEM] = str(error)
        if message.strip():
            st.session_state[MESSAGE] = message


def start_before_loading() -> tuple[Start, bool]:
    """What the first message asks for while nobody knows what the models can do: the core picks what runs."""
    return Start(chat=True), True


def usable(method: MethodInfo) -> str:
    """How a list shows a method."""
    return method.name if method.missing is None else f"{method.name} (not here)"
