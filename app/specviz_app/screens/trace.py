"""Trace: the records themselves, their schema, and the file."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import streamlit as st

from specviz.events import NAMES, WIRE_RECORDS, Event, encode
from specviz.sources.base import TraceFile
from specviz.trace.line_index import LineIndex, line_of
from specviz_app.server.server import Server, current
from specviz_app.ui.pages import PanelBelow
from specviz_app.ui.viewer import Viewer

KIND, ROUND, FROM = "ev", "r", "from"
_INDEX = "line-index"  # of the file, in the session's state
MOST_ROWS = 5000  # of the table at a time
_ALL = "all records"
_LONG = 400  # characters of a record in the table


def _tag(event: Event) -> str:
    return str(event.__struct_config__.tag)


class KeptRecords:
    """Records of a live run, as a file's are read."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = events
        self.kinds = list(dict.fromkeys(_tag(event) for event in events))
        self.last_round = max((event.r for event in events), default=0)

    def __len__(self) -> int:
        return len(self._events)

    def matching(self, kind: str | None = None, round: int = 0) -> Sequence[int]:
        pairs = enumerate(self._events)
        return [n for n, e in pairs if (kind is None or _tag(e) == kind) and (not round or e.r == round)]

    def read(self, numbers: Sequence[int]) -> Iterator[bytes]:
        return (encode(self._events[n]) for n in numbers)


Records = LineIndex | KeptRecords


def _body(viewer: Viewer, dark: bool) -> None:
    all_records = _records_of(viewer, current())
    if not len(all_records):
        st.info("No records yet.")
        return
    records, schema, about = st.tabs(["Records", "Schema", "About"], key="trace-tabs", on_change="rerun")
    with records:
        if records.open:
            _records(viewer, all_records)
    with schema:
        if schema.open:
            _schema()
    with about:
        if about.open:
            _about(viewer)


def _records_of(viewer: Viewer, server: Server) -> Records:
    if not isinstance(viewer.source, TraceFile):
        return KeptRecords(server.core.since(-1, 0)[1])
    path = viewer.source.trace.path
    now = (str(path), path.stat().st_size, path.stat().st_mtime_ns)
    known: tuple[object, LineIndex] | None = st.session_state.get(_INDEX)
    if known is None or known[0] != now:
        known = (now, LineIndex(path))
        st.session_state[_INDEX] = known
    return known[1]


def _records(viewer: Viewer, records: Records) -> None:
    """A row for every record; of many a part at a time."""
    kinds = [_ALL, *records.kinds]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        kind = st.selectbox("Record", kinds, key=KIND, bind="query-params", width=190)
        number = st.number_input(
            "Round, 0 for all", 0, records.last_round, 0, key=ROUND, bind="query-params", width=190
        )
        wanted = records.matching(None if kind == _ALL else kind, number)
        first = _first(len(wanted))
        st.download_button(
            "Download the trace",
            data=lambda: b"\n".join([*records.read(range(len(records))), b""]),
            file_name=f"{_file_name(viewer)}.sv.jsonl",
            mime="application/x-ndjson",
            on_click="ignore",
        )
    shown = wanted[first : first + MOST_ROWS]
    part = f", here {first + 1:,} to {first + len(shown):,}" if len(shown) < len(wanted) else ""
    st.caption(f"{len(wanted):,} of {len(records):,} records{part}")
    table = pa.Table.from_pylist([_row(line) for line in records.read(shown)])
    st.dataframe(table, hide_index=True, lazy=True, key="records-table", alt=f"{len(shown)} records of the trace")


def _first(n: int) -> int:
    """Where the part that is shown begins; asked for where there are more than a table has."""
    if n <= MOST_ROWS:
        return 0
    first = st.number_input(
        "From the n-th",
        1,
        n,
        1,
        step=MOST_ROWS,
        key=FROM,
        bind="query-params",
        width=190,
        help=f"{MOST_ROWS:,} at a time",
    )
    return int(first) - 1


def _row(line: bytes) -> dict[str, Any]:
    about, text = line_of(line), line.decode("utf-8", "replace")
    return {
        "i": about.i,
        "record": about.ev,
        "query": about.q,
        "round": about.r,
        "t ns": about.t,
        "line": text if len(text) <= _LONG else text[:_LONG] + "…",
    }


def _file_name(viewer: Viewer) -> str:
    header = viewer.player.run.header
    return header.run if header is not None else "run"


def _schema() -> None:
    names = [name for name, kind in sorted(NAMES.items()) if kind not in WIRE_RECORDS]
    name = st.selectbox("Record", names, key="schema", bind="query-params", width=190)
    st.caption((NAMES[name].__doc__ or "").partition("\n")[0])
    st.json(msgspec.json.schema(NAMES[name]))


def _about(viewer: Viewer) -> None:
    header = viewer.player.run.header
    if header is None:
        return
    plain = msgspec.to_builtins(header)
    end = viewer.player.run.end
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


PANELS = (PanelBelow("trace", "Trace", 80, _body),)
