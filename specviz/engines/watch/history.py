"""What was watched, as a trace: a header and one `counted` record for every look."""

import time
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec.structs import replace

from specviz import events as ev
from specviz.errors import TraceError
from specviz.events import Counted
from specviz.trace import Recorder, Trace


def begin_history(path: Path | str, first: Counted) -> Recorder:
    """A recorder with its header and that first look in it. Raises TraceError for a name that is something else's."""
    recorder = Recorder(path)
    recorder.write(_header(first))
    recorder.write(first)
    return recorder


def write_history(path: Path | str, looks: Sequence[Counted]) -> Path:
    """Looks, at least one, as a finished history; the file's path. Raises TraceError."""
    recorder = begin_history(path, replace(looks[0]))
    for look in looks[1:]:
        recorder.write(replace(look))  # it numbers what it writes
    recorder.close("done")
    return recorder.path


def packed_history(looks: Sequence[Counted]) -> bytes:
    """Looks, at least one, as the file that a history ends as."""
    with TemporaryDirectory() as folder:
        return write_history(Path(folder) / "history", looks).read_bytes()


def read_history(path: Path | str) -> list[Counted]:
    """Every look, in order. Raises TraceError for a trace that is no history of counters."""
    with Trace(path) as trace:
        looks = [event for event in trace.read() if isinstance(event, Counted)]
        if not looks:
            raise TraceError(
                f"{trace.path} holds no counters of a server; specviz tui and specviz stats read traces of runs"
            )
        return looks


def is_history(path: Path | str) -> bool:
    """Whether a file is a history of counters, told by its first records; what cannot be read is none."""
    try:
        with Trace(path) as trace:
            return any(isinstance(event, Counted) for event in islice(trace.read(), 2))
    except (TraceError, OSError):
        return False


def _header(first: Counted) -> ev.Header:
    return ev.Header(
        schema=ev.SCHEMA,
        v=ev.VERSION,
        run=uuid.uuid4().hex[:12],
        wall=datetime.fromtimestamp(first.wall, UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        t=time.monotonic_ns(),
        method="counters",
        drafter="unknown",
        verifier="unknown",
        lanes="serial",
        lossless=False,  # what decides there is not told
        keeps_tokens=False,
        models=ev.Models(target=ev.ModelInfo(name=first.models[0]) if first.models else None),
        knobs={},
        knob_specs=[],
        sampling={},
        level="none",
        imported=first.engine,
    )
