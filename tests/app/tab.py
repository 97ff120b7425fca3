"""`Tab`: Streamlit's `AppTest` with the memory of a browser.

`AppTest` tells the script the label that the *script* would give the chosen option now. A browser tells the label that
it was last shown, also when the options have other labels by then; it goes on telling which point of a plot was
clicked; and a person who clicks twice sends the second click from the page as it was before the first one's answer.
Faults of that kind are seen only so.
"""

import json
import random
from collections.abc import Iterable
from typing import Any

from streamlit.proto.WidgetStates_pb2 import WidgetState, WidgetStates
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import ButtonGroup, Selectbox, Widget, get_widget_state
from streamlit.util import calc_hash

from app.onstage import told

_MOST_POINTS = 400  # of a plot's spec that are looked through for one to click


class Tab:
    """A tab with the application in it. `steps` is what was done, for the message of a test that fails."""

    def __init__(self, app: AppTest) -> None:
        self.app = app
        self.steps: list[str] = []
        self.faults: list[str] = []  # filled by whoever listens
        self._kept: dict[str, WidgetState] = {}
        self._hear()

    # What a person does ----------------------------------------------------------------------------------------------

    def open(self, path: str) -> None:
        """Another page, by the navigation."""
        self.steps.append(f"open {path}")
        self.app._page_hash = calc_hash(path)
        runs = self.app.selectbox(key="src").id  # the widgets of the page that is left are forgotten, these stay
        self._kept = {name: state for name, state in self._kept.items() if name == runs}
        self._send(self._states())

    def below(self, panel: str) -> None:
        """The tab of a panel below the stage; "" closes the one that is open."""
        self.tell("panel", {"id": panel})

    def go(self, place: str) -> None:
        """The picture comes to rest there."""
        self.tell("place", {"place": place})

    def tell(self, name: str, value: object, times: int = 1) -> None:
        """What the stage tells; more than once: before the first answer comes."""
        self.steps.append(f"{name}: {value}" + (f" x{times}" if times > 1 else ""))
        states = self._states()
        states.widgets.append(told(self.app, name, value))
        self._send(states, times)

    def look_at(self, source: str) -> None:
        """Another recording."""
        self.choose(self.box("src"), source)

    def press(self, key: str, times: int = 1) -> None:
        """A button; more than once: before the first answer comes."""
        self.steps.append(f"press {key}" + (f" x{times}" if times > 1 else ""))
        states = self._states()
        states.widgets.append(WidgetState(id=self.app.button(key=key).id, trigger_value=True))
        self._send(states, times)

    def choose(self, box: Selectbox[Any] | ButtonGroup[Any], label: str) -> None:
        """An option by its label."""
        self.steps.append(f"choose {box.key}: {label}")
        self._kept[box.id] = _labelled(box, label)
        self._send(self._states())

    def move(self, widget: Any, value: Any) -> None:
        """A slider, a number, a switch."""
        self.steps.append(f"move {widget.key}: {value}")
        widget.set_value(value)
        self._send(self._states())

    def point(self, element: Any, selection: dict[str, Any]) -> None:
        """A click into a plot or a table; it stays chosen there."""
        proto = element.proto
        self.steps.append(f"click in {proto.id.rsplit('-', 1)[-1]}: {str(selection)[:80]}")
        self._kept[proto.id] = WidgetState(id=proto.id, string_value=json.dumps({"selection": selection}))
        self._send(self._states())

    # What is there ---------------------------------------------------------------------------------------------------

    def box(self, key: str) -> Selectbox[Any]:
        """The list of that key, or whose key begins so."""
        boxes = [box for box in self.app.selectbox if box.key and (box.key == key or box.key.startswith(f"{key}@"))]
        assert len(boxes) == 1, f"{len(boxes)} lists {key!r}"
        return boxes[0]

    @property
    def clickable(self) -> list[Any]:
        """Plots and tables that answer to clicks."""
        return [
            e
            for kind in ("plotly_chart", "arrow_data_frame", "data_frame")
            for e in self.app.get(kind)
            if getattr(e.proto, "id", "") and getattr(e.proto, "selection_mode", ())
        ]

    # What the browser does -------------------------------------------------------------------------------------------

    def _states(self) -> WidgetStates:
        states = WidgetStates()
        for node in self.app._tree:
            if not isinstance(node, Widget) or node.proto.id in self._kept:
                continue
            if (state := get_widget_state(node)) is not None:
                states.widgets.append(state)
        states.widgets.extend(self._kept.values())
        return states

    def _send(self, states: WidgetStates, times: int = 1) -> None:
        for _ in range(times):
            self.app._run(states)
        self._hear()

    def _hear(self) -> None:
        """Remember the labels that were shown; forget what is no longer on the page."""
        here = {node.proto.id for node in self.app._tree if hasattr(node, "proto") and hasattr(node.proto, "id")}
        self._kept = {name: state for name, state in self._kept.items() if name in here}
        for box in (*self.app.selectbox, *self.app.get("button_group")):
            proto = box.proto
            if proto.set_value:
                self._kept[box.id] = _labelled(box, *_told(proto))
            elif box.id not in self._kept:
                self._kept[box.id] = _labelled(box, *_default(box))


def _told(proto: Any) -> Iterable[str]:
    if hasattr(proto, "raw_values"):
        return list(proto.raw_values)
    return [proto.raw_value] if proto.HasField("raw_value") else []


def _default(box: Any) -> Iterable[str]:
    if isinstance(box, ButtonGroup):
        return [box.options[k] for k in box.proto.default]
    return [box.options[box.proto.default]] if box.options and box.proto.HasField("default") else []


def _labelled(box: Any, *labels: str) -> WidgetState:
    if isinstance(box, ButtonGroup):
        state = WidgetState(id=box.id)
        state.string_array_value.data[:] = labels
        return state
    return WidgetState(id=box.id, string_value=labels[0]) if labels else WidgetState(id=box.id)


def a_point(element: Any, chance: random.Random) -> dict[str, Any] | None:
    """A selection somewhere in a plot or table; None where nothing can be chosen."""
    if hasattr(element.proto, "spec"):
        traces = json.loads(element.proto.spec)["data"]
        points = [p for trace in traces for p in _points(trace)]
        return {"points": [chance.choice(points)], "point_indices": [0], "box": [], "lasso": []} if points else None
    rows = len(element.value)
    return {"rows": [chance.randrange(rows)], "columns": [], "cells": []} if rows else None


def _points(trace: dict[str, Any]) -> list[dict[str, Any]]:
    data, xs = trace.get("customdata"), trace.get("x")
    points = []
    for k in range(min(_MOST_POINTS, len(data) if isinstance(data, list) else len(xs) if isinstance(xs, list) else 0)):
        point: dict[str, Any] = {"point_index": k}
        if isinstance(data, list):
            point["customdata"] = data[k]
        if isinstance(xs, list) and k < len(xs):
            point["x"] = xs[k]
        points.append(point)
    return points
