"""The address of the page: what stands in it, by name. Nothing else reads or writes it, but for widgets bound to it
(`bind="query-params"`), which Streamlit writes by itself.

`?src=sum-eagle3&at=r3/n18&layer=18&rounds=…`: whoever opens that address sees the same place. `at` means the same as
`specviz tui --at`; `layer` is the one under the cursor of Early exit, `token` the position in texts side by side;
`lesson` is played beside the stage.
"""

from collections.abc import Mapping

import streamlit as st

SRC, AT, LAYER, TOKEN = "src", "at", "layer", "token"


def asks(name: str) -> str | None:
    """What it says under a name; None where it does not have it."""
    value: str | None = st.query_params.get(name)
    return value


def everything() -> dict[str, list[str]]:
    """Everything that stands behind the path."""
    return {name: st.query_params.get_all(name) for name in st.query_params}


def put(wanted: Mapping[str, str | None]) -> None:
    """Write some of it where it says something else; None takes a name out, as a step of the browser's history."""
    other = {name: value for name, value in wanted.items() if asks(name) != value}
    forget(*(name for name, value in other.items() if value is None))
    if kept := {name: value for name, value in other.items() if value is not None}:
        st.query_params.update(kept)


def forget(*names: str) -> None:
    """Take names out of it."""
    for name in names:
        st.query_params.pop(name, None)
