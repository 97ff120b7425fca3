"""`Probe`: turns rounds into events. One call per round; without a probe nothing is recorded and nothing is copied.

The level decides what is computed and copied at all: `none` counts and tokens, `summary` the tree and its verdicts,
`full` also top-k, entropies and ranks. Its own time is measured and written (`probe_ns`), never hidden in a stage.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from specviz.commands import Prompt
from specviz.engine.decode.round import RoundResult
from specviz.engine.decode.session import Session
from specviz.engine.decode.text_output import Texts
from specviz.engine.model.compiled.rows import row_kernel
from specviz.engine.record.draft_rows import DraftRows, draft_rows
from specviz.engine.record.verify_records import VerifyRecorder, chain_records
from specviz.events import (
    Closing,
    Commit,
    Event,
    Knob,
    Level,
    Node,
    Pieces,
    Prefill,
    RoundEnd,
    RoundStart,
    Span,
    Verify,
    Warn,
    six,
)
from specviz.events.round import WalkEnd
from specviz.trace.private import named

Emit = Callable[[Event], None]
_LANES: dict[str, Literal["target", "draft"]] = {"target": "target", "draft": "draft", "meanwhile": "draft"}


class Probe:
    """Writes the events of one query after another to `emit`, numbered by the recorder's side of the pipe."""

    def __init__(self, emit: Emit, texts: Texts, level: Level, topk: int = 8) -> None:
        self.emit_line, self.texts, self.level, self.topk = emit, texts, level, topk
        self.prompt = Prompt(text="")  # of the current query
        self.query = 0
        self.count = 0
        self.plain_ns = 0  # of a pass of plain decoding before the round that comes; written with it
        self.spelled: set[int] = set()
        self.kernel = row_kernel() if level != "none" else None

    def emit(self, event: Event, r: int) -> None:
        """Number, stamp and send one event; with names for paths, for it may be stored or shown anywhere."""
        self._emit_all([named(event)], r, time.perf_counter_ns())

    def _emit_all(self, events: Sequence[Event], r: int, t: int) -> None:
        """Events that name no path, all at one time: between those of a round nothing is timed."""
        count, query, emit = self.count, self.query, self.emit_line
        for event in events:
            event.i, event.t, event.q, event.r = count, t, query, r
            count = self.count = count + 1
            emit(event)

    def prefilled(self, session: Session, dur_ns: int) -> None:
        self.query = session.query
        prompt = list(session.prompt)
        self.emit(
            Prefill(
                prompt=prompt,
                text=self.prompt.text,
                n_prompt=len(prompt),
                seed=session.seed,
                dur_ns=dur_ns,
                domain=self.prompt.domain or None,
                drafter_version=session.drafter.version if session.drafter else 0,
            ),
            0,
        )

    def knob(self, event: Knob) -> None:
        """A knob took effect."""
        self.emit(event, event.applied_r)

    def aborted(self, begun: RoundResult, why: str) -> None:
        """A round that did not finish; its number is used again."""
        self.emit(Warn(code="aborted_round", message=f"round {begun.number} was aborted: {why}"), begun.number)

    def round(self, done: RoundResult) -> None:
        """All events of a finished round."""
        began = time.perf_counter_ns()
        start, events = _start(done), list[Event]()
        if self.level != "none":
            events += self._tree(done)
            events += _spans(done)
        events += map(named, done.facts)
        events.append(_commit(done))
        end = _end(done)
        events.append(end)
        now = time.perf_counter_ns()
        end.probe_ns = done.observe_ns + now - began
        end.plain_ns, self.plain_ns = self.plain_ns, 0
        self._emit_all([start], done.number, done.started_ns)
        self._emit_all(events, done.number, now)

    def _tree(self, done: RoundResult) -> "list[Event]":
        """Nodes, verdicts and closing, behind the spelling of the tokens they name for the first time."""
        assert done.outcome is not None
        drafted = draft_rows(done, self.topk if self.level == "full" else 0, self.kernel)
        drawn, verdicts = done.outcome.closing, VerifyRecorder(done, self.level, self.topk, drafted, self.kernel)
        closing = verdicts.closing(None if drawn is None else self.texts.piece(drawn)[0])
        events: list[Event] = [*self._nodes(done, drafted), *verdicts.records()]
        if self.level == "full":
            events += chain_records(done)
        events.append(closing)
        if self.level == "full" and (pieces := self._spelling(events)) is not None:
            events.insert(0, pieces)
        if closing.fallback:
            message = "the residual had no mass (rounding); the plain target row was used"
            events.append(Warn(code="residual_fallback", message=message))
        return events

    def _spelling(self, events: Sequence[Event]) -> Pieces | None:
        new = [token for token in dict.fromkeys(_named(events)) if token not in self.spelled]
        if not new:
            return None
        self.spelled.update(new)
        return Pieces(pieces=[(token, *self.texts.piece(token)) for token in new])

    def _nodes(self, done: RoundResult, drafted: DraftRows) -> Iterator[Node]:
        tops, thought = drafted.tops, drafted.confidences
        fed = set(done.draft.ids[: done.draft.n_fed])
        for node in done.draft.nodes:
            text, raw_bytes = self.texts.piece(node.token)
            # Siblings share their row: the first of them carries it.
            top, entropy = tops.pop(id(node.raw), (None, None))
            yield Node(
                node=node.id,
                parent=node.parent,
                depth=node.depth,
                pos=done.n - 1 + node.depth,
                token=node.token,
                text=text,
                bytes=raw_bytes,
                logq=None if node.logq is None else six(node.logq),
                log_conf=thought.get(node.id),
                mode=node.mode,
                cand=node.cand,
                branch=node.branch,
                fed=node.id in fed,
                kept=node.kept,
                src=node.src,
                top=top,
                entropy_q=entropy,
            )


def _start(done: RoundResult) -> RoundStart:
    return RoundStart(
        n=done.n,
        root=done.root,
        knob_version=done.knob_version,
        n_pending=len(done.draft.pending),
        carry=carried(done),
        kv=done.kv_before,
    )


def _spans(done: RoundResult) -> Iterator[Span]:
    told_lanes = {fact.lane for fact in done.facts if isinstance(fact, Span)}  # a drafter that records its own forwards
    for name, t0, took in done.clock.spans:
        lane = _LANES.get(name)
        if lane and took and lane not in told_lanes:
            clock: Literal["host", "device"] = "device" if name in done.clock.by_device else "host"
            yield Span(lane=lane, name=name, t0=t0, dur_ns=took, clock=clock)


def _commit(done: RoundResult) -> Commit:
    return Commit(
        tokens=list(done.tokens), texts=list(done.texts), kinds=list(done.kinds), n=done.n_after, finish=done.finish
    )


def _end(done: RoundResult) -> RoundEnd:
    """All but what recording took."""
    assert done.outcome is not None
    stages = dict(done.clock.ns)
    stages["other"] = stages.get("other", 0) + max(0, done.ended_ns - done.started_ns - sum(stages.values()))
    return RoundEnd(
        n_drafted=done.draft.n_drafted,
        n_tested=done.outcome.n_tested,
        n_accepted=done.n_accepted,
        n_emitted=len(done.tokens),
        n_draft_calls=done.n_draft_calls,
        n_syncs=done.n_syncs,
        stage_ns=stages,
        probe_ns=0,
        draft_end=done.draft.draft_end,
        walk_end=walk_end(done),
        cut=done.cut,
        kv=done.kv_after,
    )


def _named(events: Sequence[Event]) -> Iterator[int]:
    """Tokens that records name by id only."""
    for event in events:
        top = event.row if isinstance(event, Closing) else event.top if isinstance(event, Node | Verify) else None
        if top:
            yield from (entry[0] for entry in top)


MOST = 1e9  # a carried ratio without bound; JSON has no infinity


def carried(done: RoundResult) -> float | None:
    """Log of the joint ratio that the round before handed on."""
    return None if done.carry is None else MOST if done.carry.log_ratio == math.inf else six(done.carry.log_ratio)


def walk_end(done: RoundResult) -> WalkEnd:
    """Why verification stopped, as the event contract spells it."""
    assert done.outcome is not None
    if done.finish:
        return "length" if done.finish == "context" else done.finish
    ends: dict[str | None, WalkEnd] = {"recovered": "rejected", "bonus": "leaf", None: "open"}
    return ends[done.outcome.kind]
