"""What can be looked at: the live run, the trace of the command line, bundled traces, uploads of this tab.

Files from a browser are limited in size and checked record by record before anything of them is shown.
"""

import shutil
import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from specviz.engines.texts.door import import_bytes
from specviz.errors import SpecvizError, TraceError
from specviz.sources import Source, TraceFile
from specviz.sources.bundled import bundled_traces, trace_name
from specviz.sources.scratch import scratch
from specviz.trace import Trace
from specviz.trace.files import PLAIN
from specviz_app.server.core import INFLATED_MB, UPLOAD_MB, LiveSource
from specviz_app.server.past import PastSource
from specviz_app.server.server import Server

LIVE = "live run"
AT_A_TIME = 20_000  # records of a file that a page reads before it shows them


def choices(server: Server, uploads: Mapping[str, Path]) -> dict[str, Path | None]:
    """Everything by name, in the order in which it is offered. None stands for the live run and those before it."""
    replay = server.settings.replay
    sources: dict[str, Path | None] = {trace_name(replay): replay} if replay is not None else {}
    sources |= {name: uploads[name] for name in reversed(list(uploads))}
    first: dict[str, Path | None] = {LIVE: None} if server.core.loaded or server.settings.live else {}
    last: dict[str, Path | None] = {} if first else {LIVE: None}
    bundle = {name: path for name, path in bundled_traces().items() if name not in sources}
    past: dict[str, Path | None] = {name: None for name in reversed(list(server.core.past)) if name not in sources}
    return {**sources, **first, **past, **bundle, **last}


def opened(name: str, server: Server, uploads: Mapping[str, Path]) -> Source:
    """A source by its name. Raises SpecvizError for a trace that cannot be read."""
    offered = choices(server, uploads)
    if name not in offered:
        raise SpecvizError(f"no trace '{name}' here; choose one at the top")
    path = offered[name]
    if path is not None:
        return TraceFile(path, at_a_time=AT_A_TIME)
    return LiveSource(server.core) if name == LIVE else PastSource(server.core.events_of(name))


@dataclass(frozen=True, slots=True)
class Brought:
    """Traces that came of a file or a text, by their names. `words`: what was read there, a line each."""

    traces: dict[str, Path]
    words: tuple[str, ...] = ()


def bring(name: str, data: bytes, folder: Path | None = None) -> Brought:
    """Take what somebody has: a trace as it is, anything else through the door of `specviz import`. Raises SpecvizError
    with the reason, by its own name."""
    if name.removesuffix(".gz").endswith(PLAIN) or data[:2] == _GZIP or data.startswith(b'{"ev":'):
        path = accept(name, data, folder)
        return Brought({name: path})
    safe = Path(name.replace("\\", "/")).name or "pasted"
    _check_size(safe, data)
    place = Path(tempfile.mkdtemp(dir=folder or scratch()))
    try:
        imported = import_bytes(safe, data, place)
    except SpecvizError:
        shutil.rmtree(place)
        raise
    words = [line for trace in imported for line in (f"{safe}: {trace.words}", *trace.warnings)]
    return Brought({trace_name(trace.path): trace.path for trace in imported}, tuple(words))


_CHUNK = 1 << 20
_GZIP = b"\x1f\x8b"


def accept(name: str, data: bytes, folder: Path | None = None) -> Path:
    """Keep an uploaded trace in a temporary folder. Raises TraceError with the line and the reason, by its own name."""
    safe = Path(name.replace("\\", "/")).name or "upload"
    _check_size(safe, data)
    place = Path(tempfile.mkdtemp(dir=folder or scratch())) / safe
    place.write_bytes(data)
    try:
        with Trace(place, check=True) as trace:
            for _ in trace.read():
                pass  # it is checked on the way, and not kept
    except TraceError as error:
        place.unlink()
        place.parent.rmdir()
        raise TraceError(str(error).replace(str(place), safe)) from None
    return place


def _check_size(name: str, data: bytes) -> None:
    if len(data) > UPLOAD_MB << 20:
        raise TraceError(
            f"{name} has {len(data) >> 20} MB, uploads may have {UPLOAD_MB}; open it with 'specviz web --replay FILE'"
        )
    if data[:2] == _GZIP and _unpacks_beyond(data, INFLATED_MB << 20):
        raise TraceError(
            f"{name} unpacks to more than {INFLATED_MB} MB; open it with 'specviz web --replay FILE' if you trust it"
        )


def _unpacks_beyond(data: bytes, limit: int) -> bool:
    """Whether a zipped file holds more than `limit` bytes; it is unpacked a piece at a time and thrown away."""
    engine, total = zlib.decompressobj(wbits=31), 0
    while data and not engine.eof:
        try:
            total += len(engine.decompress(data, _CHUNK))
        except zlib.error:
            return False  # the reader says what is wrong with it
        if total > limit:
            return True
        data = engine.unconsumed_tail
    return False
