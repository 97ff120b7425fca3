"""The stage in an `AppTest`, where no browser paints it: what it was handed, and what it tells when somebody acts."""

import json
from typing import TYPE_CHECKING, Any

from streamlit.proto.WidgetStates_pb2 import WidgetState

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest


def handed(at: "AppTest") -> dict[str, Any]:
    """What the page gave the first stage that it shows."""
    data: dict[str, Any] = json.loads(at.get("bidi_component")[0].proto.json)
    return data


def tell(at: "AppTest", name: str, value: object) -> None:
    """As `setTriggerValue(name, value)` of the painter: a place, a panel, what is said."""
    states = at._tree.get_widget_states()
    states.widgets.append(told(at, name, value))
    at._run(states)


def told(at: "AppTest", name: str, value: object) -> WidgetState:
    """The same as the browser sends it."""
    base = at.get("bidi_component")[0].proto.id
    events = json.dumps([{"event": name, "value": {"value": value}}])
    return WidgetState(id=f"$$STREAMLIT_INTERNAL_KEY_{base}__events", json_trigger_value=events)


def go(at: "AppTest", place: str) -> None:
    """The picture came to rest there."""
    tell(at, "place", {"place": place})
