"""Knobs as widgets, made from the catalogue's specs: for the next start, and for a run that goes on.

A slider or number only remembers what it was set to (no script run); one button sends everything that differs from what
is in force. The core's answer, with the round it took effect in, is shown by the live component.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from specviz.events import MethodInfo
from specviz.knobs import KnobSpec
from specviz.view.knobbar import absent_knobs

_MOST_STEPS = 200  # a range of whole numbers up to here is a slider


def key(method: str, spec: KnobSpec) -> str:
    """The widget's key, which is its name in the address: ranges differ between methods."""
    return f"{method}.{spec.name}"


def knob_widgets(method: MethodInfo, start: Mapping[str, Any]) -> None:
    """A control for every knob; one without an effect here, or that other methods are known by, is off and says why."""
    now = {spec.name: st.session_state.get(key(method.name, spec), start.get(spec.name, spec.default))
           for spec in method.knobs}  # fmt: skip
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
        "label": f"{spec.symbol} {spec.name}".strip(), "key": name, "bind": "query-params",
        "disabled": idle is not None,
        "help": f"{spec.help} ({spec.range}); {when}.{mark}" + (f" **{idle}**" if idle else ""),
    }  # fmt: skip
    if spec.kind == "choice":
        st.selectbox(options=list(spec.choices), index=spec.choices.index(value), width=150, **shared)
    elif spec.kind == "bool":
        st.toggle(value=bool(value), **shared)
    elif spec.kind == "texts":
        st.text_input(value="\n".join(value), width=150, on_change="ignore", **shared)
    elif spec.lo is not None and spec.hi is not None and (spec.kind == "float" or spec.hi - spec.lo <= _MOST_STEPS):
        kind = int if spec.kind == "int" else float
        step = 1 if kind is int else 0.01
        st.slider(min_value=kind(spec.lo), max_value=kind(spec.hi), value=kind(value), step=step, width=190,
                  on_change="ignore", **shared)  # fmt: skip
    else:
        _number(spec, value, shared)


def _number(spec: KnobSpec, value: Any, shared: dict[str, Any]) -> None:
    kind = int if spec.kind == "int" else float
    lo, hi = (None if edge is None else kind(edge) for edge in (spec.lo, spec.hi))
    step = 1 if kind is int else 0.05
    st.number_input(min_value=lo, max_value=hi, value=kind(value), step=step, width=150, on_change="ignore", **shared)


def chosen(method: MethodInfo, only: Sequence[str] = ("R", "Q", "X")) -> dict[str, Any]:
    """What the widgets say, checked here as well as in the browser. Raises KnobError."""
    values = {}
    for spec in method.knobs:
        raw = st.session_state.get(key(method.name, spec))
        if raw is None or spec.applies not in only:
            continue
        values[spec.name] = spec.check([raw] if spec.kind == "texts" and raw else [] if spec.kind == "texts" else raw)
    return values


def differing(method: MethodInfo, in_force: Mapping[str, Any]) -> dict[str, Any]:
    """The knobs a running run would have to be asked for. Raises KnobError."""
    return {name: value for name, value in chosen(method, ("R",)).items() if in_force.get(name) != value}
