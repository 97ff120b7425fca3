"""A recording as a `Run` that reads its rounds from the file when somebody asks for them, by its index.

`write_index(trace)` reads a recording once and writes its index; `indexed(trace)` gives the run of an indexed one. Such
a run equals the fold of all events, with only 128 bytes of every round in memory.
"""

from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from specviz.errors import TraceError
from specviz.events import (
    NAMES,
    Adapt,
    Event,
    ExitTable,
    FindingRecord,
    Header,
    Knob,
    Note,
    Reported,
    RoundStart,
    Warn,
    decode,
    encode,
)
from specviz.runlog.fold import BESIDE, Run, in_round
from specviz.runlog.rounds import Rounds, StoredRounds
from specviz.runlog.run import Query
from specviz.runlog.spool import Place
from specviz.trace.index import (
    FORMAT,
    PIECE,
    CopiedLines,
    Head,
    IndexFile,
    NewIndex,
    QueryOffset,
    Stamp,
    index_path,
    opened,
)
from specviz.trace.reader import Trace

Told = Callable[[int], None]  # bytes of plain text that were read so far
_TELL = 8 << 20  # bytes between two words on how far it has come
Kind = TypeVar("Kind", bound=Event)


class Counting(NamedTuple):
    """Somebody who counts over all rounds: told of the run before its first record, and asked at its end for what is
    to be kept in the index."""

    begin: Callable[[Run], None] = lambda run: None
    result: Callable[[Run], bytes] = lambda run: b""


def writer() -> str:
    """What an index depends on beside the trace: the version, and the kinds of records that are known."""
    try:
        own = version("specviz-llm")
    except PackageNotFoundError:  # run from its sources
        own = "?"
    return f"{own} {' '.join(sorted(NAMES))}"


NOTHING_COUNTED = Counting()


class RoundsOf:
    """Reads rounds from the file of a trace. `beside`: records that stand beside rounds, by index, as their lines.
    `lines`: of a zipped trace."""

    def __init__(self, trace: Trace, beside: dict[int, list[bytes]], lines: CopiedLines | None = None) -> None:
        self.trace, self._beside, self._lines = trace, beside, lines

    def __call__(self, index: int, place: Place) -> tuple[RoundStart, list[Event]]:
        """The records of the stretch that are the round's own, and those beside it. Raises TraceError when the file is
        no longer the one that was indexed."""
        events = self._stretch(place)
        start = next(events, None)
        if not isinstance(start, RoundStart):
            raise TraceError(f"{self.trace.path} has changed since it was opened; open it again")
        beside = [event for line in self._beside.get(index, ()) if (event := decode(line)) is not None]
        return start, [*(event for event in events if in_round(event, start.r)), *beside]

    def exits(self, number: int, places: list[Place]) -> list[ExitTable]:
        """The exit table of a query."""
        events = (event for place in places for event in self._stretch(place))
        return [event for event in events if isinstance(event, ExitTable) and event.q == number]

    def _stretch(self, place: Place) -> Iterator[Event]:
        """From the index, where it has the lines; from the trace where they turn out to be damaged."""
        if self._lines is not None:
            with suppress(OSError):
                return self.trace.records(self._lines.stretch(*place))
        return self.trace.stretch(*place)


class _Places:
    """Where the rounds of a run stand, told record by record."""

    def __init__(self) -> None:
        self.rounds: list[Place] = []
        self.exits: dict[int, list[Place]] = {}  # by the number of a query

    def take(self, event: Event, run: Run, start: int, stop: int) -> None:
        """A record that the run has taken, and the bytes it stands in."""
        n = len(run.rounds)
        if isinstance(event, RoundStart):
            del self.rounds[n - 1 :]  # of one that was aborted and comes again
            self.rounds.append((start, stop - start))
        elif isinstance(event, ExitTable):
            stretches = self.exits.setdefault(event.q, [])
            if stretches and sum(stretches[-1]) == start:
                stretches[-1] = (stretches[-1][0], stop - stretches[-1][0])
            else:
                stretches.append((start, stop - start))
        elif n and in_round(event, event.r):  # `r` of a warning is looked at when it is read
            first = self.rounds[n - 1][0]
            self.rounds[n - 1] = (first, stop - first)


def write_index(
    path: Path, into: Path, counting: Counting = NOTHING_COUNTED, report_bytes: Told = lambda n_bytes: None
) -> None:
    """Read a whole recording and write its index. Raises TraceError for a damaged trace, OSError where nothing can be
    written."""
    stamp = Stamp.of(path)
    new = NewIndex(into)
    copy = _Copy(new.file)
    try:
        with Trace(path, unzipped=copy.take) as trace, Trace(path) as again:
            places = _Places()
            reader = RoundsOf(again, {})
            rounds = Rounds(reader=lambda index, _place: reader(index, places.rounds[index]), spool=new.file)
            run = Run(rounds=rounds)
            counting.begin(run)
            for event, start, stop in _placed(trace, report_bytes):
                run.apply(event)
                places.take(event, run, start, stop)
            lines = copy.places() if trace.packed else []
            if Stamp.of(path) != stamp:
                raise TraceError(f"{path} is still being written")
            assert trace.header is not None
            counted = counting.result(run)
            new.keep(_head(run, trace, places, stamp, new.file, counted, lines))
    finally:
        new.close()


class _Copy:
    """The plain text of a trace, put into its index while it is read; `places`: where its pieces stand."""

    def __init__(self, file: IndexFile) -> None:
        self._file, self._rest = file, b""
        self._places: list[Place] = []

    def take(self, piece: bytes) -> None:
        """The next bytes. Raises OSError where nothing can be written."""
        rest = self._rest + piece
        whole = len(rest) - len(rest) % PIECE
        self._places += [self._file.put(rest[k : k + PIECE]) for k in range(0, whole, PIECE)]
        self._rest = rest[whole:]

    def places(self) -> list[Place]:
        """Of all, once everything was taken."""
        return [*self._places, self._file.put(self._rest)]


def _placed(trace: Trace, report_bytes: Told) -> Iterator[tuple[Event, int, int]]:
    """Records, and the bytes of plain text from the end of the one before to their own."""
    start, next_told = 0, _TELL
    for event in trace.read():
        yield event, start, trace.offset
        start = trace.offset
        if start >= next_told:
            report_bytes(start)
            next_told = start + _TELL


def _head(
    run: Run, trace: Trace, places: _Places, stamp: Stamp, file: IndexFile, counted: bytes, copied: list[Place]
) -> Head:
    assert trace.header is not None
    away, lines = run.rounds.summary(places.rounds), _lines
    return Head(
        format=FORMAT,
        stamp=stamp,
        writer=writer(),
        rows=away.rows.tobytes(),
        settings=away.settings,
        queries=[_query(query, places, file) for query in run.queries],
        header=encode(trace.header),
        calibration=encode(run.calibration) if run.calibration is not None else None,
        end=encode(run.end) if run.end is not None else None,
        changes=lines(run.changes),
        warnings=lines(run.warnings),
        notes=lines(run.notes),
        findings=lines(run.findings),
        reported=lines(run.reported),
        learnt=lines(run.learnt),
        n_warnings=run.n_warnings,
        knobs=run.knobs,
        beside={record.index: _beside(record.by_kind) for record in run.rounds.marked_rounds()},
        words=[(token, *known) for token, known in run.words.items()],
        counted=counted,
        n_bytes=trace.offset,
        lines=copied,
    )


def _lines(events: list[Any]) -> list[bytes]:
    return [encode(event) for event in events]


def _beside(by_kind: dict[type[Event], list[Any]]) -> list[bytes]:
    return [encode(event) for kind in BESIDE for event in by_kind.get(kind, ())]


def _query(query: Query, places: _Places, file: IndexFile) -> QueryOffset:
    adapt = encode(query.adapt) if query.adapt is not None else None
    text = query.put_away(file)
    return QueryOffset(
        query.number, query.first, query.n_rounds, query.n_nodes, text, adapt, places.exits.get(query.number, [])
    )


class IndexedTrace:
    """A recording with its index: its `run`, and the metrics `counted` while indexing. Close it after use."""

    def __init__(self, trace: Trace, file: IndexFile, head: Head) -> None:
        self.counted, self.n_bytes = head.counted, head.n_bytes
        self.trace, self._file = trace, file
        lines = CopiedLines(file, head.lines) if head.lines else None
        self.run = _run(RoundsOf(trace, head.beside, lines), file, head)

    def close(self) -> None:
        self.trace.close()
        self._file.close()


def indexed(path: Path, into: Path | None = None) -> IndexedTrace | None:
    """A recording by its index; None where there is none, or a stale one. Raises TraceError for a file that is no
    trace. `into`: the file of the index, where it is not the usual one."""
    index = opened(into or index_path(path), path, writer())
    if index is None:
        return None
    file, head = index
    try:
        return IndexedTrace(Trace(path), file, head)
    except (TraceError, msgspec.MsgspecError, ValueError, LookupError):
        file.close()  # not written by this program: treated as missing
        return None


def _run(reader: RoundsOf, file: IndexFile, head: Head) -> Run:
    rows = array("q")
    rows.frombytes(head.rows)
    queries: list[Query] = []
    rounds = Rounds(reader=reader, spool=file, away=StoredRounds(rows, head.settings, queries))
    run = Run(rounds=rounds)
    run.apply(_one(head.header, Header))
    for place in head.queries:
        query = run.old_query(place.number, place.first, place.n_rounds, place.n_nodes)
        query.lies(file, place.text, partial(reader.exits, place.number, place.exits))
        query.adapt = None if place.adapt is None else _one(place.adapt, Adapt)
        if place.n_rounds:
            queries.append(query)
    for line in (head.calibration, head.end):
        if line is not None and (event := decode(line)) is not None:
            run.apply(event)
    run.changes = [_one(line, Knob) for line in head.changes]
    run.warnings = [_one(line, Warn) for line in head.warnings]
    run.notes = [_one(line, Note) for line in head.notes]
    run.findings = [_one(line, FindingRecord) for line in head.findings]
    run.reported = [_one(line, Reported) for line in head.reported]
    run.learnt = [_one(line, Adapt) for line in head.learnt]
    run.n_warnings, run.n_learnt = head.n_warnings, len(run.learnt)
    run.words = {token: (text, raw) for token, text, raw in head.words}
    run.in_force(head.knobs)
    return run


def _one(line: bytes, kind: type[Kind]) -> Kind:
    event = decode(line)
    if not isinstance(event, kind):
        raise ValueError(line[:80])
    return event
