"""A set of recordings as requests: one prompt each, with what was written and the sums of its rounds."""

import glob
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from specviz.errors import TraceError
from specviz.events import Calibration, Event, Header, Prefill
from specviz.metrics import Tally
from specviz.metrics.sets import by_query
from specviz.runlog.fold import finished
from specviz.runlog.run import RoundRecord
from specviz.trace import Trace
from specviz.trace.files import PACKED, PLAIN
from specviz.view.compare.settings import set_to


@dataclass
class Request:
    """A query with its finished rounds. `written`: ids and texts of its tokens, as far as they are on record."""

    name: str
    header: Header | None
    prefill: Prefill | None
    written: list[tuple[int, str]]
    tally: Tally

    @property
    def domain(self) -> str:
        """What kind of prompt it is; empty where nobody said."""
        return (self.prefill and self.prefill.domain) or ""


@dataclass(frozen=True)
class RecordedSet:
    """`name`: as it was asked for; `settings`: what its runs were set to, each value that occurs."""

    name: str
    files: tuple[Path, ...]
    requests: tuple[Request, ...]
    settings: dict[str, tuple[str, ...]]


def read_set(pattern: str) -> RecordedSet:
    """A trace, a folder of traces, or a glob. Raises TraceError: nothing found, or a file that is no trace."""
    files = _files(pattern)
    requests: list[Request] = []
    settings: dict[str, set[str]] = {}
    for path in files:
        with Trace(path) as trace:
            found = _requests(trace)
        requests += found
        for name, value in set_to(trace.header, found[0].prefill if found else None).items():
            settings.setdefault(name, set()).add(value)
    if not requests:
        raise TraceError(f"{pattern} has no finished round in it: there is nothing to compare")
    return RecordedSet(
        pattern, tuple(files), tuple(requests), {name: tuple(sorted(each)) for name, each in settings.items()}
    )


def _files(pattern: str) -> list[Path]:
    path = Path(pattern)
    if path.is_dir():
        found = sorted(each for each in path.iterdir() if each.name.endswith((PLAIN, PACKED)))
        if not found:
            raise TraceError(f"{pattern} is a folder without a trace (they end in {PLAIN} or {PACKED})")
        return found
    if glob.has_magic(pattern) and not path.exists():
        found = [Path(each) for each in sorted(glob.glob(pattern, recursive=True))]
        if not found:
            raise TraceError(f"no file fits '{pattern}'; put a pattern in quotes and look at its folder")
        return found
    return [path]


def _requests(trace: Trace) -> list[Request]:
    written: dict[int, list[tuple[int, str]]] = {}
    prefills: dict[int, Prefill | None] = {}

    costs: list[Calibration] = []

    def events() -> Iterator[Event]:
        for event in trace.read():
            if isinstance(event, Calibration):
                costs.append(event)
            yield event

    def seen() -> Iterator[RoundRecord]:
        for record in finished(events()):
            prefills.setdefault(record.q, record.query.prefill)
            text = written.setdefault(record.q, [])
            if record.commit is not None:
                text += zip(record.commit.tokens, record.commit.texts, strict=True)
            yield record

    found = by_query(seen(), trace.header)
    for tally in found.values():
        tally.modelled.calibration = costs[-1] if costs else None
    return [
        Request(f"{trace.path.name} q{q}", trace.header, prefills[q], written[q], tally) for q, tally in found.items()
    ]
