"""Lessons beside the stage: `?lesson=3`, with `&teach=1` for who shows it to others.

The address names the lesson; the run that is looked at is the one that the lesson is over.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import streamlit as st

from specviz.errors import SpecvizError
from specviz.sources.lessons import bundled_lessons, lesson_id, lesson_minutes, lesson_script, next_lesson
from specviz.trace.bundled import all_bundled
from specviz.view.clinic import case_names
from specviz_app.server.server import Server
from specviz_app.ui import address, guard, state
from specviz_app.ui.below import LARGE
from specviz_app.ui.library import choices

LESSON, TEACH, CLINIC = "lesson", "teach", "clinic"
LIST = "lessons"  # in the session's state: what was chosen of the list
_FIRST = "1"
_LED = "lesson-led"  # in the session's state: the lesson whose run was chosen last


def lead(server: Server) -> None:
    """Before the run is chosen: that of the lesson which the address names, once; who chooses another run leaves it."""
    named = _named()
    trace = bundled_lessons()[named].trace if named is not None else ""
    if not led_to(server, _LED, named, trace, lambda: all_bundled()[trace]):
        leave()


def led_to(server: Server, key: str, named: str | None, run: str, file: Callable[[], Path]) -> bool:
    """Choose the run of what the address names, once; False where another run was chosen since.

    `key`: in the session's state, what was named last; `file`: where the run lies that is not in the list.
    """
    if named is None:
        st.session_state.pop(key, None)
    elif st.session_state.get(key) != named:
        st.session_state[key] = named
        if run not in choices(server, state.uploads()):
            state.uploads()[run] = file()
        state.open_next(run)
        address.forget(address.AT)
    elif st.session_state.get(address.SRC) not in (None, run):
        return False
    return True


def _named() -> str | None:
    """The lesson that the address asks for, by its id; one that is not there is noted."""
    wanted = address.asks(LESSON)
    if wanted is None:
        return None
    try:
        return lesson_id(wanted)
    except SpecvizError as error:
        state.note(str(error))
        leave()
        return None


def leave() -> None:
    """No lesson any more."""
    address.forget(LESSON, TEACH)
    st.session_state.pop(_LED, None)


def data(name: str) -> dict[str, Any] | None:
    """What the picture needs of the lesson; None where none is asked for. `name`: the run that is looked at."""
    named = _named()
    if named is None or bundled_lessons()[named].trace != name:
        return None
    following = next_lesson(named)
    return {
        "script": msgspec.to_builtins(lesson_script(named), str_keys=True),
        "teach": address.asks(TEACH) == "1",
        "next": following or CLINIC,
        "title": bundled_lessons()[following].title if following else _listed(CLINIC),
    }


def offer() -> dict[str, str]:
    """The door on the first screen."""
    n = len(bundled_lessons())
    about = ", ".join(lesson.title.rstrip("?").lower() for lesson in bundled_lessons().values())
    return {"lesson": _FIRST, "text": f"{n} lessons, {lesson_minutes()} each", "help": about}


def button() -> None:
    """The list of lessons, and the door to the clinic, in the bar at the top."""
    st.menu_button(
        "Lessons",
        [*bundled_lessons(), CLINIC],
        format_func=_listed,
        icon=":material/school:",
        help=f"Guided lessons beside the picture; {len(case_names())} cases of a clinic",
        key=LIST,
        on_click=guard.obeyed(_chosen),
    )


def _listed(name: str) -> str:
    if name == CLINIC:
        return "Clinic · what ails this run?"
    return f"{bundled_lessons()[name].number} · {bundled_lessons()[name].title}"


def _chosen() -> None:
    go(st.session_state[LIST])


def go(wanted: object) -> None:
    """To another lesson, by its number or name, or to the clinic; "" is none."""
    if not isinstance(wanted, str) or not wanted:
        leave()
        return
    if wanted == CLINIC:
        leave()
        address.put({CLINIC: _FIRST})
        return
    try:
        address.put({LESSON: str(bundled_lessons()[lesson_id(wanted)].number), CLINIC: None, LARGE: None})
    except SpecvizError as error:
        state.note(str(error))
