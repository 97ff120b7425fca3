"""`fold(events) -> Run`: the whole stream as rounds. A live run is the same fold over a stream that still grows.

`Run.apply` takes one event in constant time and never raises for an odd order: an unfinished round stays open, an
aborted one is replaced when its number comes again, a record of a kind that nobody here knows is kept
with its round. The `Run` grows in place and belongs to one thread; what is handed to a painter is a `Frame`, which
cannot change.

Whoever wants rounds and no history (metrics, timing, checks) folds with `Run(whole=False)` or asks `finished(events)`.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from specviz.events import (
    VERSION,
    WIRE_RECORDS,
    Adapt,
    Calibration,
    Closing,
    Commit,
    End,
    Event,
    ExitTable,
    FindingRecord,
    Header,
    Knob,
    Node,
    Note,
    Pieces,
    Prefill,
    Reported,
    RoundEnd,
    RoundStart,
    State,
    Warn,
)
from specviz.events.base import handlers
from specviz.runlog.paintable import paintable
from specviz.runlog.rounds import Rounds
from specviz.runlog.run import Mark, Query, RoundRecord, TextToken
from specviz.text import LONGEST, quoted, running, shown
from specviz.traits import MethodTraits, VerifierTraits

_UNNAMED = "?"  # a token without a known id: its id is below 0
_WARNINGS = 500
_PENDING = 32  # rounds that are held where nothing is kept: a token drafted ahead is judged before so many have passed
_QUERIES = 2  # and queries: what was learnt from one comes at its end
_WIRE_ONLY = set(WIRE_RECORDS)
_MARKS: dict[str, Mark] = {"accepted": "accepted", "branch": "accepted", "recovered": "recovered", "bonus": "bonus"}


class Run:
    """A run as far as it is known. Read its attributes; change it only by `apply`.

    `whole=False`: only the newest rounds and queries are held, and no text strip, whatever the length of the run.
    """

    def __init__(self, whole: bool = True, rounds: Rounds | None = None) -> None:
        self.header: Header | None = None
        self.calibration: Calibration | None = None  # what forwards cost on this machine
        self.end: End | None = None
        self.state: State | None = None  # the worker's last status line
        self.queries: list[Query] = []
        self.rounds = rounds if rounds is not None else Rounds() if whole else Rounds(_PENDING, whole=False)
        self.learnt: list[Adapt] = []  # in order
        self.n_learnt = 0
        self.changes: list[Knob] = []  # every acknowledged knob change, in order
        self.warnings: list[Warn] = []  # the newest; all of them stand beside their rounds
        self.n_warnings = 0
        self.notes: list[Note] = []
        self.findings: list[FindingRecord] = []
        self.reported: list[Reported] = []  # what an engine counted itself, in order
        self.words: dict[int, tuple[str, str | None]] = {}  # token id -> its text and bytes, as first seen
        self.version = 0  # grows with every event
        self._serial = 0  # of the last record made
        self._knobs: dict[str, Any] = {}
        self._due: list[Knob] = []  # acknowledged, their round has not begun

    def apply(self, event: Event) -> None:
        self.version += 1
        handler = _HANDLERS.get(type(event))
        if handler:
            handler(self, event)
        elif type(event) not in _WIRE_ONLY:
            self._take(event)

    def extend(self, events: Iterable[Event]) -> "Run":
        """Take many; returns itself."""
        for event in events:
            self.apply(event)
        return self

    @property
    def knobs(self) -> dict[str, Any]:
        """Knob values in force now, sampling included."""
        return self._knobs

    @property
    def _v(self) -> tuple[int, int]:
        return self.header.v if self.header else VERSION

    @property
    def level(self) -> str:
        return self.header.level if self.header else "none"

    @property
    def backward(self) -> bool:
        """Whether the rule tests drafts from their end."""
        return self.rule.backward

    @property
    def method_traits(self) -> MethodTraits:
        """What kind of method runs; the plainest kind before the header has said."""
        return self.header.method_traits if self.header is not None else MethodTraits()

    @property
    def rule(self) -> VerifierTraits:
        """What kind of verifier decides."""
        return self.header.verifier_traits if self.header is not None else VerifierTraits()

    @property
    def mixed(self) -> bool:
        """Whether a knob that moves the text's law changed within the run."""
        return any(change.changes_text for change in self.changes)

    def find(self, q: int, r: int) -> int | None:
        """Index of round r of query q."""
        for query in self.queries:
            if query.number == q:
                return self._find(query, r)
        return None

    def _find(self, query: Query, r: int) -> int | None:
        """Rounds are numbered one after another; where a trace has a hole they are looked through."""
        places = range(max(query.first, self.rounds.n_gone), query.first + query.n_rounds)
        likely = query.first + r - 1
        if likely in places and self.rounds.place(likely)[1] == r:
            return likely
        return next((index for index in places if self.rounds.place(index)[1] == r), None)

    def word(self, token: int) -> str:
        """A token's escaped text, or `#1234` when the trace never spelled it."""
        known = self.words.get(token)
        return shown(*known) if known else f"#{token}" if token >= 0 else _UNNAMED

    def name(self, token: int) -> str:
        """A token as sentences name it."""
        known = self.words.get(token)
        return quoted(*known) if known else f"#{token}" if token >= 0 else _UNNAMED

    @property
    def tells_tokens(self) -> bool:
        """Whether anything is known of tokens; a profile tells when things ran, and no more."""
        return self.header is None or self.header.tells_tokens

    def missing(self, record: RoundRecord) -> str | None:
        """Why the draft of a round cannot be shown; None when it can, or when there was none."""
        if self.header is not None and self.header.outside is not None and not self.tells_tokens:
            return f"{self.header.outside.engine}'s profile tells when things ran, and no tokens"
        if record.nodes or (record.end is not None and not record.end.n_drafted):
            return None
        if self.header is not None and self.header.imported:
            return f"{self.header.imported} records counts only: there is no tree to show"
        if self.header is not None and self.header.outside is not None:
            return f"{self.header.outside.engine} did not say which tokens were drafted in this round"
        if self.level == "none":
            return "recorded with --level none: counts and text only, no tree"
        return None

    # What each record does ------------------------------------------------------------------------------------------

    def _header(self, event: Header) -> None:
        self.header = paintable(event)
        self._knobs = {**event.knobs, **event.sampling}

    def _calibration(self, event: Calibration) -> None:
        self.calibration = event

    def _prefill(self, event: Prefill) -> None:
        query = self._begin(event.q, event)
        if event.text and self.rounds.whole:
            query.tokens.append(_prompt(event))

    def _begin(self, number: int, prefill: Prefill | None) -> Query:
        query = Query(number, prefill, len(self.rounds), self.rounds, self._v, self.backward)
        self.queries.append(query)
        if not self.rounds.whole:
            del self.queries[:-_QUERIES]
        return query

    def old_query(self, number: int, first: int, n_rounds: int, n_nodes: int) -> Query:
        """A query whose rounds are there from the beginning, out of memory."""
        query = Query(number, None, first, self.rounds, self._v, self.backward)
        query.n_rounds, query.n_nodes = n_rounds, n_nodes
        self.queries.append(query)
        return query

    def in_force(self, knobs: dict[str, Any]) -> None:
        """Knob values at the end of rounds that are there from the beginning."""
        self._knobs = knobs

    def _query(self, number: int) -> Query:
        known = self.queries and self.queries[-1].number == number
        return self.queries[-1] if known else self._begin(number, None)

    def _round_start(self, event: RoundStart) -> None:
        query, last = self._query(event.q), self.rounds.last
        if query.n_rounds and last is not None and last.r == event.r and not last.complete:
            self._forget(query, last)
        self._apply_due(event)
        self._serial += 1
        record = RoundRecord(
            len(self.rounds), event, query, len(query.tokens), self._knobs, self._serial, query.n_nodes
        )
        for change in self.changes:
            if (change.q, change.applied_r) == (event.q, event.r):
                record.take(change)
        query.n_rounds += 1
        self.rounds.append(record)

    def _take(self, event: Event) -> None:
        """Add an event to the unfinished round."""
        last = self.rounds.last
        if last is not None:
            last.take(event)

    def _pieces(self, event: Pieces) -> None:
        for token, text, raw in event.pieces:
            self.words.setdefault(token, (text, raw))
        self._take(event)

    def _forget(self, query: Query, aborted: RoundRecord) -> None:
        """Drop the aborted round whose number comes again, with whatever it had put on the strip."""
        self.rounds.pop()
        query.n_rounds -= 1
        query.n_nodes = aborted.born
        del query.tokens[aborted.n_before :]

    def _apply_due(self, start: RoundStart) -> None:
        now = [c for c in self._due if (c.q, c.applied_r) <= (start.q, start.r)]
        if now:
            self._due = [c for c in self._due if c not in now]
            self._knobs = {**self._knobs, **{c.name: c.new for c in now}}

    def _node(self, event: Node) -> None:
        self.words.setdefault(event.token, (event.text, event.bytes))
        query = self._query(event.q)
        query.nodes.near[event.node] = event
        query.n_nodes = max(query.n_nodes, event.node + 1)
        if (record := self.rounds.last) is not None:
            record.take(event)

    def _closing(self, event: Closing) -> None:
        if event.token is not None and event.text:
            self.words.setdefault(event.token, (event.text, None))
        self._take(event)

    def _commit(self, event: Commit) -> None:
        record = self.rounds.last
        if record is None:
            return
        record.take(event)
        for token, text in zip(event.tokens, event.texts, strict=False):
            if text:
                self.words.setdefault(token, (text, None))
        if self.rounds.whole:
            record.query.tokens.extend(self._strip_tokens(record, event))

    def _strip_tokens(self, record: RoundRecord, commit: Commit) -> Iterable[TextToken]:
        first = commit.n - len(commit.tokens)
        path = kept_path(record)
        for k, (token, text, kind) in enumerate(zip(commit.tokens, commit.texts, commit.kinds, strict=False)):
            mark = _MARKS.get(kind, "accepted")
            mark = record.closing_mark or mark if mark == "bonus" else mark
            own, raw = self.words.get(token, (text, None))
            yield TextToken(
                shown=shown(own, raw),
                running=running(text, most=LONGEST),
                token=token,
                mark=mark,
                round=record.r,
                pos=first + k,
                node=path[k] if k < len(path) and mark == "accepted" else None,
                breaks=k == 0,
            )

    def _knob(self, event: Knob) -> None:
        self.changes.append(event)
        last = self.rounds.last
        if last is not None and (last.q, last.r) >= (event.q, event.applied_r):  # acknowledged after that began
            self._knobs = {**self._knobs, event.name: event.new}
            index = self.find(event.q, event.applied_r)
            self.rounds.set_knobs(last.index if index is None else index, self._knobs)
            if index is not None:
                record = self.rounds[index]
                record.take(event)
                self.rounds.keep(record)
            return
        self._due.append(event)

    def _warn(self, event: Warn) -> None:
        self.warnings.append(event)
        self.n_warnings += 1
        if len(self.warnings) > 2 * _WARNINGS:
            del self.warnings[:-_WARNINGS]
        last = self.rounds.last
        if last is not None and event.r == last.r:
            last.take(event)

    def _note(self, event: Note) -> None:
        self.notes.append(event)
        index = self.find(event.q, event.at.r)
        if index is not None:
            record = self.rounds[index]
            record.take(event)
            self.rounds.keep(record)

    def _finding(self, event: FindingRecord) -> None:
        self.findings.append(event)

    def _reported(self, event: Reported) -> None:
        self.reported.append(event)

    def _adapt(self, event: Adapt) -> None:
        """It comes when its query is over."""
        self.n_learnt += 1
        self.learnt.append(event)
        if not self.rounds.whole:
            del self.learnt[:-_QUERIES]
        for query in reversed(self.queries):
            if query.number == event.q:
                query.adapt = event
                return

    def _exit_table(self, event: ExitTable) -> None:
        """It comes at the end of a run, for any of its queries."""
        for query in reversed(self.queries):
            if query.number == event.q:
                query.exit_table.append(event)
                return

    def _end(self, event: End) -> None:
        self.end = event

    def _state(self, event: State) -> None:
        self.state = event


# Records between the beginning of a round and the next that are no part of it, and those that stand beside a round
# wherever they were written.
_OF_NO_ROUND = (Header, Calibration, Prefill, RoundStart, Adapt, ExitTable, End, State, FindingRecord, Reported)
BESIDE = (Knob, Note)


def in_round(event: Event, r: int) -> bool:
    """Whether a record that follows the beginning of round r is a part of it: the rule of `Run.apply`."""
    if isinstance(event, Warn):
        return event.r == r
    return not isinstance(event, (*_OF_NO_ROUND, *BESIDE)) and type(event) not in _WIRE_ONLY


def fold(events: Iterable[Event]) -> Run:
    """The run of a finished or growing stream."""
    return Run().extend(events)


def finished(events: Iterable[Event]) -> Iterator[RoundRecord]:
    """The rounds of a stream, each as it comes to its end; none is kept here for long."""
    run, last = Run(whole=False), None
    for event in events:
        run.apply(event)
        record = run.rounds.last
        if isinstance(event, RoundEnd) and record is not None and record.complete and record is not last:
            last = record
            yield record


def kept_path(record: RoundRecord) -> list[int]:
    """Ids of the drafted nodes that became text, root to leaf, as far as the verdicts tell."""
    kept = [v.node for v in record.verdicts.values() if v.status == "accepted"]
    depth = {i: record.query.nodes[i].pos for i in kept if i in record.query.nodes}
    return sorted(depth, key=lambda i: depth[i])


def _prompt(event: Prefill) -> TextToken:
    return TextToken(
        shown=shown(event.text, most=None),
        running=running(event.text),
        token=-1,
        mark="prompt",
        round=0,
        pos=0,
        ids=tuple(event.prompt),
    )


_HANDLERS = handlers(Run)  # all other events belong to the current round
