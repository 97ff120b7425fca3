"""A case of the clinic below the stage: `?clinic=3`. What somebody posted, evidence on demand, an answer and its marks.

The picture plays the run that is in question; panels and findings, which would name the fault, are closed meanwhile.
"""

from dataclasses import dataclass

import streamlit as st

from specviz.check.findings import FAULTS
from specviz.errors import SpecvizError
from specviz.view.clinic import HEALTHY, PlayedCase, case_folder, case_run, read_case
from specviz_app.server.server import Server
from specviz_app.ui import address, blocks, guard, parts, state
from specviz_app.ui.below import LARGE
from specviz_app.ui.lessons import CLINIC, led_to

_LED, _PLAYED = "clinic-led", "clinic-case"  # in the session's state
TAB = (CLINIC, "Clinic", "")  # the only one below the picture then
_NOTHING = "nothing: the run is healthy"


@dataclass
class _OpenCase:
    """`answer`: the fault and the place of the next step that were named."""

    case: PlayedCase
    answer: tuple[int, int] | None = None


def lead(server: Server) -> None:
    """Before the run is chosen: that of the case which the address names, once; who chooses another run leaves it."""
    number = _named()
    named = None if number is None else str(number)
    if named is not None and st.session_state.get(_LED) != named:
        address.put({LARGE: "1"})  # what is asked is seen at once, above it as much of the run as fits
    if not led_to(server, _LED, named, f"clinic-{named}", lambda: case_run(case_folder(number or 1))):
        address.forget(CLINIC)


def _named() -> int | None:
    """The case that the address asks for; one that is not there is noted."""
    wanted = address.asks(CLINIC)
    if wanted is None:
        return None
    try:
        number = int(wanted) if wanted.isascii() and wanted.isdigit() else 0
        case_folder(number)
    except SpecvizError as error:
        state.note(str(error))
        address.forget(CLINIC)
        return None
    return number


def played(name: str) -> _OpenCase | None:
    """The case that is played over the run of that name; None where none is."""
    number = _named()
    if number is None or name != f"clinic-{number}":
        return None
    known: _OpenCase | None = st.session_state.get(_PLAYED)
    if known is None or known.case.number != number:
        known = st.session_state[_PLAYED] = _OpenCase(read_case(number))
    return known


def show(open_case: _OpenCase, dark: bool) -> None:
    """Symptom, evidence, and what is asked."""
    case = open_case.case
    parts.lead(case.lead, case.how)
    evidence, asked = st.columns((3, 2), gap="large")
    with evidence:
        for exhibit in case.exhibits:
            if exhibit.key in case.opened or open_case.answer is not None:
                with st.expander(parts.plain(exhibit.title), expanded=exhibit.key in case.opened):
                    blocks.show(exhibit.blocks, dark)
            else:
                _button(f"Open: {exhibit.title}", f"exhibit-{exhibit.key}", case.open, exhibit.key)
    with asked:
        _ask(open_case)


def _button(label: str, key: str, work: object, *args: object) -> None:
    assert callable(work)
    st.button(parts.plain(label), key=key, width="stretch", on_click=guard.obeyed(work), args=args)


def _ask(open_case: _OpenCase) -> None:
    case, done = open_case.case, open_case.answer is not None
    names = {HEALTHY: _NOTHING, **{fault: f"{fault}: {name}" for fault, name in enumerate(FAULTS, 1)}}
    fault = st.selectbox(
        "Which fault is it?",
        list(names),
        index=None,
        format_func=lambda fault: names[fault],
        key=f"clinic-fault-{case.number}",
        disabled=done,
    )
    step = st.radio(
        "And the next step?",
        range(len(case.steps)),
        index=None,
        format_func=lambda place: parts.plain(case.steps[place]),
        key=f"clinic-step-{case.number}",
        disabled=done,
    )
    if open_case.answer is not None:
        marks = case.marks(*open_case.answer)
        (st.success if marks.fault and marks.step else st.warning)(parts.plain(marks.words))
        parts.lead(f"It was {case.answer}.", f"Next step: {case.steps[case.right_step]}")
        if case.following is not None:
            _button("The next case", "clinic-next", address.put, {CLINIC: str(case.following)})
    elif fault is not None and step is not None:
        _button("Answer", "clinic-answer", _answered, open_case, fault, step)


def _answered(open_case: _OpenCase, fault: int, step: int) -> None:
    open_case.answer = fault, step
