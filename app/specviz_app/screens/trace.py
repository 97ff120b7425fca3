"""Trace: the records themselves, their schema, and the file."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
import streamlit as st

from specviz.errors import SpecvizError
from specviz.events import NAMES, WIRE_RECORDS, Event, encode
from specviz.sources.base import TraceFile
from specviz.trace import read_events
from specviz_app.server.server import Server, current
from specviz_app.ui import parts, state
from specviz_app.ui.pages import Below, Page
from specviz_app.ui.viewer import Viewer

KIND, ROUND = "ev", "r"
_ALL = "all records"
_LONG = 400  # characters of a record in the table


def page() -> None:
    try:
        _body(state.viewer(current()), state.dark())
    except SpecvizError as error:
        st.error(parts.plain(str(error)))


def _body(held: Viewer, dark: bool) -> None:
    events = _events(held, current())
    if not events:
        st.info(PAGE.nothing)
        return
    parts.run_header(held.frame.run, len(held.player.run.rounds))
    records, schema, about = st.tabs(["Records", "Schema", "About"], key="trace-tabs", on_change="rerun")
    with records:
        if records.open:
            _records(held, events)
    with schema:
        if schema.open:
            _schema()
    with about:
        if about.open:
            _about(held)


def _events(held: Viewer, server: Server) -> list[Event]:
    if not isinstance(held.source, TraceFile):
        return server.core.since(-1, 0)[1]
    path = held.source.trace.path
    return state.once("records", held, lambda: read_events(path))


def _records(held: Viewer, events: Sequence[Event]) -> None:
    """A row for every record; rows are fetched as they are scrolled to."""
    kinds = [_ALL, *dict.fromkeys(_tag(e) for e in events)]
    last = max(e.r for e in events)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        kind = st.selectbox("Record", kinds, key=KIND, bind="query-params", width=190)
        number = st.number_input("Round, 0 for all", 0, last, 0, key=ROUND, bind="query-params", width=190)
        st.download_button(
            "Download the trace",
            data=lambda: _file(held, events),
            file_name=f"{_file_name(held)}.sv.jsonl",
            mime="application/x-ndjson",
            on_click="ignore",
        )
    rows = [e for e in events if (kind == _ALL or _tag(e) == kind) and (not number or e.r == number)]
    st.caption(f"{len(rows):,} of {len(events):,} records")
    st.dataframe(_table(rows), hide_index=True, lazy=True, key="records-table", alt=f"{len(rows)} records of the trace")


def _table(events: Sequence[Event]) -> pa.Table:
    return pa.Table.from_pylist([_row(event) for event in events])


def _row(event: Event) -> dict[str, Any]:
    text = encode(event).decode("utf-8", "replace")
    return {
        "i": event.i,
        "record": _tag(event),
        "query": event.q,
        "round": event.r,
        "t ns": event.t,
        "line": text if len(text) <= _LONG else text[:_LONG] + "…",
    }


def _tag(event: Event) -> str:
    return str(event.__struct_config__.tag)


def _file(held: Viewer, events: Sequence[Event]) -> bytes:
    """The file as it is on disk; what has come so far of a live run."""
    if isinstance(held.source, TraceFile) and held.source.trace.path.suffix != ".gz":
        return bytes(held.source.trace.path.read_bytes())
    return b"".join(encode(event) + b"\n" for event in events)


def _file_name(held: Viewer) -> str:
    header = held.player.run.header
    return header.run if header is not None else "run"


def _schema() -> None:
    names = [name for name, kind in sorted(NAMES.items()) if kind not in WIRE_RECORDS]
    name = st.selectbox("Record", names, key="schema", bind="query-params", width=190)
    st.caption((NAMES[name].__doc__ or "").partition("\n")[0])
    st.json(msgspec.json.schema(NAMES[name]))


def _about(held: Viewer) -> None:
    header = held.player.run.header
    if header is None:
        return
    plain = msgspec.to_builtins(header)
    end = held.player.run.end
    st.json(
        {
            name: plain[name]
            for name in (
                "run",
                "wall",
                "schema",
                "v",
                "method",
                "verifier",
                "level",
                "models",
                "knobs",
                "sampling",
                "env",
            )
        },
        expanded=2,
    )
    if end is not None:
        st.json(msgspec.to_builtins(end))


PAGE = Page(
    "trace",
    "Trace",
    "list_alt",
    80,
    "the records, their schema, the file",
    page,
    nothing="No records yet. Choose a run on the left, or start one on the page Live.",
    below=(Below("trace", "Trace", _body),),
)
