"""A set of recordings as requests: one prompt each, with plain numbers of every finished round."""

import glob
import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from specviz.errors import TraceError
from specviz.events import Commit, Event, Header, Node, Prefill, RoundEnd, RoundStart
from specviz.trace import Trace
from specviz.trace.files import PACKED, PLAIN

# Columns of a round: deepest drafted level, drafted nodes, accepted tokens, committed tokens, nanoseconds.
REACH, DRAFTED, ACCEPTED, EMITTED, NS = range(5)


@dataclass
class Request:
    """`key`: of the prompt's ids, and which of its repetitions it is; `rounds`: [rounds, 5], see the columns."""

    key: tuple[str, int]
    name: str
    domain: str
    tokens: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    rows: list[tuple[int, int, int, int, int]] = field(default_factory=list)

    @property
    def rounds(self) -> "np.ndarray[Any, Any]":
        return np.asarray(self.rows, dtype=float).reshape(-1, 5)


@dataclass(frozen=True)
class RecordedSet:
    """`name`: as it was asked for; `settings`: of the headers, each value that occurs."""

    name: str
    files: tuple[Path, ...]
    requests: tuple[Request, ...]
    settings: dict[str, tuple[str, ...]]


def read_set(pattern: str) -> RecordedSet:
    """A trace, a folder of traces, or a glob. Raises TraceError: nothing found, or a file that is no trace."""
    files = _files(pattern)
    seen: Counter[str] = Counter()
    requests: list[Request] = []
    settings: dict[str, set[str]] = {}
    for path in files:
        with Trace(path) as trace:
            requests += _requests(trace.path.name, trace.read(), seen)
            if trace.header is not None:
                for name, value in _settings(trace.header).items():
                    settings.setdefault(name, set()).add(value)
    kept = tuple(request for request in requests if request.rows)
    if not kept:
        raise TraceError(f"{pattern} has no finished round in it: there is nothing to compare")
    return RecordedSet(pattern, tuple(files), kept, {name: tuple(sorted(each)) for name, each in settings.items()})


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


def _settings(header: Header) -> dict[str, str]:
    models = {"target": header.models.target, "draft model": header.models.draft}
    named = {name: info.name for name, info in models.items() if info is not None}
    return {"method": header.method, "verifier": header.verifier} | named | {k: str(v) for k, v in header.knobs.items()}


def _requests(file: str, events: Iterable[Event], seen: "Counter[str]") -> Sequence[Request]:
    found: dict[int, Request] = {}
    reach, n_nodes, commit = 0, 0, None
    for event in events:
        if isinstance(event, Prefill):
            key = hashlib.sha256(repr(event.prompt).encode()).hexdigest()[:16]
            found[event.q] = Request((key, seen[key]), f"{file} q{event.q}", event.domain or "")
            seen[key] += 1
        elif isinstance(event, RoundStart):
            reach, n_nodes, commit = 0, 0, None
        elif isinstance(event, Node) and event.kept and not event.filler:
            reach, n_nodes = max(reach, event.depth), n_nodes + 1
        elif isinstance(event, Commit):
            commit = event
        elif isinstance(event, RoundEnd) and event.q in found:
            request = found[event.q]
            if commit is not None:
                request.tokens += commit.tokens
                request.texts += commit.texts
            # Without nodes (level none) a draft counts as a chain.
            depth = max(reach if n_nodes else event.n_drafted, event.n_accepted)
            ns = sum(event.stage_ns.values())
            request.rows.append((depth, event.n_drafted, event.n_accepted, event.n_emitted, ns))
    return list(found.values())
