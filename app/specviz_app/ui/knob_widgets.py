"""Knobs as widgets, made from the catalogue's specs: for the next start, and for a run that goes on.

A slider or number only remembers what it was set to (no script run). What somebody asked for is in force, everything
else is the default, whatever a method made of it (`auto` is 7, 8 in one run): the widgets of every tab follow that, and
one button sends what differs. The core's answer, with the round it took effect in, is shown by the live component.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from specviz.errors import KnobError
from specviz.events import MethodInfo
from specviz.knobs import KnobSpec
from specviz.view.frame.knob_bar import absent_knobs, slides, step_of
from specviz_app.ui import address


def key(method: str, spec: KnobSpec) -> str:
    """The widget's key, which is its name in the address: ranges differ between methods."""
    return f"{method}.{spec.name}"


def follow(method: MethodInfo, asked: Mapping[str, Any]) -> None:
    """Before the widgets are placed: set those whose knob was asked for anew, here or in another tab.

    What the address says is left, at first: whoever opens a link wants what is in it.
    """
    seen: dict[str, Any] = st.session_state.setdefault("knobs-in-force", {})
    for spec in method.knobs:
        name, now = key(method.name, spec), asked.get(spec.name, spec.default)
        first = name not in seen
        if (first and address.asks(name) is None and spec.name in asked) or (not first and seen[name] != now):
            st.session_state[name] = _as_widget(spec, now)
        seen[name] = now


def _as_widget(spec: KnobSpec, value: Any) -> Any:
    if spec.kind == "texts":
        return "\n".join(value)
    return {"int": int, "float": float, "bool": bool}.get(spec.kind, str)(value)


def bad_link(method: MethodInfo) -> list[str]:
    """What the address asks of this method's knobs and cannot have: Streamlit drops it without a word."""
    problems = []
    for spec in method.knobs:
        raw = address.asks(key(method.name, spec))
        try:
            if raw is not None and spec.kind != "texts":
                spec.check(raw)
        except KnobError as error:
            problems.append(str(error))
    return problems


def _now(method: MethodInfo, spec: KnobSpec, start: Mapping[str, Any]) -> Any:
    """What the widget will show: a widget that was not placed yet has its value in the address."""
    name = key(method.name, spec)
    return st.session_state.get(name, address.asks(name) or start.get(spec.name, spec.default))


def knob_widgets(method: MethodInfo, start: Mapping[str, Any]) -> None:
    """A control for every knob; one without an effect here, or that other methods are known by, is off and says why."""
    now = {spec.name: _now(method, spec, start) for spec in method.knobs}
    with st.container(horizontal=True, gap="small"):
        for spec in method.knobs:
            _widget(method.name, spec, start.get(spec.name, spec.default), _idle(spec, now))
        for symbol, why in absent_knobs(method.name, method.knobs):
            st.slider(symbol, 0.0, 1.0, 0.0, disabled=True, help=why, width=120, key=f"absent.{method.name}.{symbol}")


def _idle(spec: KnobSpec, now: Mapping[str, Any]) -> str | None:
    for other, wanted in spec.needs.items():
        if other in now and str(now[other]) not in wanted:
            return f"no effect with {other} {now[other]}: needs {other} {' or '.join(wanted)}"
    return None


def _widget(method: str, spec: KnobSpec, value: Any, idle: str | None) -> None:
    name = key(method, spec)
    when = {"R": "takes effect at the next round", "Q": "for the next prompt", "X": "for the next run"}[spec.applies]
    mark = {"K": "", "T": " Changes the text.", "L": " Lossy: the law of the text is no longer the target's."}[
        spec.text
    ]
    shared: dict[str, Any] = {
        "label": f"{spec.symbol} {spec.name}".strip(),
        "key": name,
        "bind": "query-params",
        "disabled": idle is not None,
        "help": f"{spec.help} ({spec.range}); {when}.{mark}" + (f" **{idle}**" if idle else ""),
    }
    if spec.kind == "choice":
        st.selectbox(options=list(spec.choices), index=spec.choices.index(value), width=150, **shared)
    elif spec.kind == "bool":
        st.toggle(value=bool(value), **shared)
    elif spec.kind == "texts":
        st.text_input(value="\n".join(value), width=150, on_change="ignore", **shared)
    elif spec.lo is not None and spec.hi is not None and slides(spec):
        kind = int if spec.kind == "int" else float
        step = kind(step_of(spec))
        st.slider(
            min_value=kind(spec.lo),
            max_value=kind(spec.hi),
            value=kind(value),
            step=step,
            width=190,
            on_change="ignore",
            **shared,
        )
    else:
        _number(spec, value, shared)


def _number(spec: KnobSpec, value: Any, shared: dict[str, Any]) -> None:
    kind = int if spec.kind == "int" else float
    lo, hi = (None if edge is None else kind(edge) for edge in (spec.lo, spec.hi))
    step = kind(step_of(spec))
    st.number_input(
        min_value=lo,
        max_value=hi,
        value=kind(value),
        step=step,
        width=150,
        on_change="ignore",
        format="%d" if kind is int else "%.6g",
        **shared,
    )


def chosen(method: MethodInfo, only: Sequence[str] = ("R", "Q", "X")) -> dict[str, Any]:
    """What the widgets say, checked here as well as in the browser. Raises KnobError."""
    values = {}
    for spec in method.knobs:
        raw = st.session_state.get(key(method.name, spec))
        if raw is None or spec.applies not in only:
            continue
        values[spec.name] = spec.check([raw] if spec.kind == "texts" and raw else [] if spec.kind == "texts" else raw)
    return values


def differing(method: MethodInfo, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The knobs a running run would have to be asked for: those that were touched. Raises KnobError."""
    plain = {spec.name: spec.default for spec in method.knobs}
    return {name: value for name, value in chosen(method, ("R",)).items() if asked.get(name, plain[name]) != value}
