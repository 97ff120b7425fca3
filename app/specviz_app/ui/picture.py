"""The stage as a component of a page, and what it tells the page.

It tells one thing at a time: what is told next waits until the page is made with the one before (`heard`). A browser
sends the address along as it has it, and two messages in a row would come with that of before the first.
"""

from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from specviz.view.stage import page as painted
from specviz_app.ui import guard

_HEARD = "heard"  # in the session's state, behind the key of a picture: the number of what it told last

_component = st.components.v2.component(
    "specviz_stage",
    html='<div class="mount"></div>',
    css=painted.style("live", "below", "room", "lesson"),
    js=painted.painter(*painted.LIVE, "component"),
)


def stage(data: Mapping[str, Any], key: str, on: Mapping[str, Callable[[Any], object]]) -> None:
    """Mount the stage, which fetches its run by what `data` says. `on`: what is done with what the picture tells.

    `place`: somebody stayed at one; `panel`: one was opened or closed; of a live run `say`, `anew` and `look`, about
    the conversation, `core`: what the page around offers has changed, and `ab`; of a recording `here`, `welcomed` and
    `lesson`; `mode` and `led`: about looking together.
    """
    run = data["run"]

    def told(name: str, work: Callable[[Any], object]) -> Callable[[], None]:
        def take() -> None:
            message = message_of(key, name)
            if message is None:
                return
            st.session_state[f"{key}-{_HEARD}"] = message.get("told", 0)
            value = message["value"]
            if isinstance(value, dict) and message.get("run", run) != run:
                value = value | {"place": None}  # of another run, which was shown until just now
            work(value)

        return guard.obeyed(take)

    callbacks: dict[str, Any] = {f"on_{name}_change": told(name, work) for name, work in on.items()}
    _component(key=key, data={**data, "heard": st.session_state.get(f"{key}-{_HEARD}", 0)}, **callbacks)


def message_of(key: str, name: str) -> dict[str, Any] | None:
    """What the picture under that key tells; None also where the page that it stood on was left meanwhile: a message
    may come behind the click that leads away."""
    message: dict[str, Any] | None = st.session_state[key].get(name) if key in st.session_state else None
    return message
