"""Evidence out of whatever somebody has: recordings, folders of models, logs, pastes, addresses, a serving command."""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from specviz.check.serve import ServeCommand, parse_serve
from specviz.errors import SpecvizError, TraceError
from specviz.events import Event, RoundStart
from specviz.judge.evidence import Evidence, PairChecked, RoundsCounted
from specviz.text import running
from specviz.trace.files import is_recording, resolve

if TYPE_CHECKING:
    from specviz.engines.texts.lines import TextKind

_TRACES = (".sv.jsonl", ".sv.jsonl.gz")
_MODEL_FILES = ("config.json", "*.safetensors", "*.gguf")


@dataclass(slots=True)
class ReadThings:
    """`seen`: what was read of each thing, in a line; `warnings`: what a reader must know. Escaped."""

    evidence: Evidence = field(default_factory=Evidence)
    seen: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def read_things(things: Sequence[str], more: "Sequence[TextKind]" = ()) -> ReadThings:
    """Traces, histories, logs, pastes (`-`), addresses, folders or names of models (target, then draft), and a serving
    command as one text; any mix. `more`: kinds of lines of the user's own, of which alone logs are read then. Raises
    SpecvizError for what is none of these."""
    out, models = ReadThings(), []
    command: ServeCommand | None = None
    for thing in things:
        if _is_model(thing):
            models.append(thing)
        elif " " in thing.strip() and not Path(thing).exists():
            command = parse_serve(thing)
            out.seen.append(f"a serving command of {command.engine}")
        else:
            _take(out, thing, more)
    if models:
        _take_pair(out, models, command)
    elif command is not None and not out.seen[1:]:
        raise SpecvizError("a serving command alone says nothing: name the folders of target and draft beside it")
    return out


def evidence_of_trace(path: Path | str) -> Evidence:
    """Of a recording's rounds, or a history of counts. Raises TraceError."""
    from specviz.engines.watch.history import is_history, read_history
    from specviz.metrics import Tally
    from specviz.trace import Trace

    if is_history(path):
        return Evidence.of_looks(read_history(path))
    with Trace(path) as trace:
        places = RoundPlaces()
        tally = Tally().add_all(places.passing(trace.read()))
        if tally.run is None:
            raise TraceError(f"{trace.path} has nothing in it yet")
        metrics = tally.summary()
        return Evidence(rounds=(RoundsCounted(tally.run, tally, metrics, places.find),))


def _is_model(thing: str) -> bool:
    """Whether it is a model's folder or file, or a name of one."""
    from specviz.local_models.named import path_of

    path = Path(thing)
    if path.is_dir():
        return any(True for pattern in _MODEL_FILES for _ in path.glob(pattern))
    return path.suffix == ".gguf" or (not path.exists() and "://" not in thing and path_of(thing) is not None)


def _take_pair(out: ReadThings, models: list[str], command: ServeCommand | None) -> None:
    from specviz.check import check_pair, read_side
    from specviz.mtp_layers import own_mtp_layers

    if len(models) > 2:
        raise SpecvizError(f"{len(models)} models: name one target and one draft, in this order")
    target, draft = read_side(models[0]), read_side(models[-1])
    if len(models) == 1 and not own_mtp_layers(target.config, target.tensors):
        raise SpecvizError(f"{running(models[0])} has no MTP layers of its own: name its draft behind it")
    out.evidence += Evidence(pairs=(PairChecked(check_pair(target, draft, command)),))
    out.seen.append(f"the files of {running(' and '.join(models))}")


def _take(out: ReadThings, thing: str, more: "Sequence[TextKind]") -> None:
    """A recording, a folder of them, a server, or anything that `specviz import` reads."""
    path = Path(thing)
    if path.is_dir():
        traces = sorted(file for file in path.iterdir() if file.name.endswith(_TRACES))
        if not traces:
            raise SpecvizError(f"{running(thing)} holds neither a model nor recordings")
        for trace in traces:
            _take_trace(out, trace, trace.name)
    elif thing.endswith(_TRACES) or is_recording(path):
        _take_trace(out, path, thing)
    elif not _take_server(out, thing):
        if thing == "-" or "://" in thing or path.exists():
            _take_text(out, thing, more)
        else:  # the name of one that comes along, else the nearest name is told
            _take_trace(out, resolve(path), thing)


def _take_trace(out: ReadThings, path: Path, name: str) -> None:
    evidence = evidence_of_trace(path)
    out.evidence += evidence
    rounds = sum(counted.metrics.n_rounds for counted in evidence.rounds)
    windows = sum(len(counted.picture.points) for counted in evidence.counts)
    what = f"{rounds:,} rounds" if evidence.rounds else f"{windows:,} windows of counts" if windows > 1 else "totals"
    out.seen.append(f"{running(name)}: {what}")


def _take_server(out: ReadThings, thing: str) -> bool:
    """Whether it is the address of a server that counts, or may be one: `host:8000`."""
    from specviz.engines.texts.door import is_address
    from specviz.engines.watch import ServerWatcher

    if Path(thing).exists() or thing == "-":
        return False
    host, _, port = thing.rpartition(":")
    if not is_address(thing) and not (host and port.isdigit()):
        return False
    watcher = ServerWatcher(thing)
    try:
        look = watcher.look()
    except SpecvizError as refused:
        if is_address(thing):  # a page with a log or a table on it
            return False
        try:  # counters of another kind, which are read once
            _take_text(out, watcher.address, ())
        except SpecvizError:
            raise refused from None
        return True
    finally:
        watcher.close()
    out.evidence += Evidence.of_looks([look])
    out.seen.append(f"{running(watcher.address)}: its counters since it began")
    return True


def _take_text(out: ReadThings, thing: str, more: "Sequence[TextKind]") -> None:
    from specviz.engines.texts.door import import_source, shown_source

    with tempfile.TemporaryDirectory(prefix="specviz-") as folder:
        for imported in import_source(thing, Path(folder) / "read.sv.jsonl", None, more):
            out.evidence += evidence_of_trace(imported.path)
            out.seen.append(f"{running(shown_source(thing))}: {running(imported.words)}")
            out.warnings += [running(message) for message in imported.warnings]


class RoundPlaces:
    """Which round of a run a round of a query is, of a stream whose rounds are not kept."""

    def __init__(self) -> None:
        self._first: dict[int, tuple[int, int]] = {}  # by query: index and number of its first round
        self._last: dict[int, int] = {}  # and the number of its last one
        self._n = 0

    def passing(self, events: Iterable[Event]) -> Iterator[Event]:
        """The same events."""
        for event in events:
            if isinstance(event, RoundStart):
                self._note(event.q, event.r)
            yield event

    def _note(self, q: int, r: int) -> None:
        self._first.setdefault(q, (self._n, r))
        if r > self._last.get(q, 0):  # one that was aborted comes again
            self._last[q] = r
            self._n += 1

    def find(self, q: int, r: int) -> int | None:
        """Its index; None for one that is not there. Rounds are numbered one after another."""
        if q not in self._first:
            return None
        index, first = self._first[q]
        return index + r - first if first <= r <= self._last[q] else None
