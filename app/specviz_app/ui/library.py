"""What can be looked at: the live run, the trace of the command line, bundled traces, uploads of this tab."""

from collections.abc import Mapping
from pathlib import Path

from specviz.errors import SpecvizError
from specviz.sources import Source, TraceFile
from specviz.sources.bundled import bundled_traces, trace_name
from specviz_app.server.core import LiveSource
from specviz_app.server.server import Server

LIVE = "live run"


def choices(server: Server, uploads: Mapping[str, Path]) -> dict[str, Path | None]:
    """Everything by name, in the order in which it is offered. None stands for the live run."""
    replay = server.settings.replay
    given: dict[str, Path | None] = {trace_name(replay): replay} if replay is not None else {}
    given |= {name: uploads[name] for name in reversed(list(uploads))}
    first: dict[str, Path | None] = {LIVE: None} if server.core.loaded or server.settings.live else {}
    last: dict[str, Path | None] = {} if first else {LIVE: None}
    bundle = {name: path for name, path in bundled_traces().items() if name not in given}
    return {**given, **first, **bundle, **last}


def opened(name: str, server: Server, uploads: Mapping[str, Path]) -> Source:
    """A source by its name. Raises SpecvizError for a trace that cannot be read."""
    found = choices(server, uploads)
    if name not in found:
        raise SpecvizError(f"no trace '{name}' here; choose one on the left")
    path = found[name]
    return LiveSource(server.core) if path is None else TraceFile(path)
