"""`Probe`: turns rounds into events. One call per round; without a probe nothing is recorded and nothing is copied.

The level decides what is computed and copied at all: `none` counts and tokens, `summary` the tree and its verdicts,
`full` also top-k, entropies and ranks. Its own time is measured and written (`probe_ns`), never hidden in a stage.
"""

import math
import time
from collections.abc import Callable, Iterator
from typing import Literal

import torch

from specviz.commands import Prompt
from specviz.engine.decode.round import RoundResult
from specviz.engine.decode.session import Session
from specviz.engine.decode.text_output import Texts
from specviz.engine.record.device_stats import entropies, log_shares, top_lists
from specviz.engine.record.verify_records import VerifyRecorder, chain_records
from specviz.events import (
    Chain,
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
    Top,
    Verify,
    Warn,
    six,
)
from specviz.events.round import WalkEnd
from specviz.probability.draft import NodeFacts as Born
from specviz.trace.private import named

Emit = Callable[[Event], None]
_LANES: dict[str, Literal["target", "draft"]] = {"target": "target", "draft": "draft", "meanwhile": "draft"}


class Probe:
    """Writes the events of one query after another to `emit`, numbered by the recorder's side of the pipe."""

    def __init__(self, emit: Emit, texts: Texts, level: Level, topk: int = 8, prompt: Prompt | None = None) -> None:
        self.emit_line, self.texts, self.level, self.topk = emit, texts, level, topk
        self.prompt = prompt or Prompt(text="")  # of the query in hand
        self.query = 0
        self.count = 0
        self.spelled: set[int] = set()

    def emit(self, event: Event, r: int, t: int | None = None) -> None:
        """Number, stamp and send one event; with names for paths, for it may be stored or shown anywhere."""
        event = named(event)
        event.i, event.t = self.count, time.perf_counter_ns() if t is None else t
        event.q, event.r = self.query, r
        self.count += 1
        self.emit_line(event)

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
        self._start(done)
        if self.level != "none":
            self._tree(done)
            self._spans(done)
        for fact in done.facts:
            self.emit(fact, done.number)
        self._end(done, began)

    def _start(self, done: RoundResult) -> None:
        event = RoundStart(
            n=done.n,
            root=done.root,
            knob_version=done.knob_version,
            n_pending=len(done.draft.pending),
            carry=carried(done),
            kv=done.kv_before,
        )
        self.emit(event, done.number, done.started_ns)

    def _tree(self, done: RoundResult) -> None:
        """Nodes, verdicts and closing, behind the spelling of the tokens they name for the first time."""
        assert done.outcome is not None
        drawn, verdicts = done.outcome.closing, VerifyRecorder(done, self.level, self.topk)
        closing = verdicts.closing(None if drawn is None else self.texts.piece(drawn)[0])
        chains = chain_records(done) if self.level == "full" else ()
        records: list[Node | Verify | Chain | Closing] = [
            *self._nodes(done),
            *verdicts.records(),
            *chains,
            closing,
        ]
        if self.level == "full":
            self._spell(records, done.number)
        for record in records:
            self.emit(record, done.number)
        if closing.fallback:
            message = "the residual had no mass (rounding); the plain target row was used"
            self.emit(Warn(code="residual_fallback", message=message), done.number)

    def _spell(self, records: "list[Node | Verify | Chain | Closing]", r: int) -> None:
        new = [token for token in dict.fromkeys(_named(records)) if token not in self.spelled]
        if new:
            self.spelled.update(new)
            self.emit(Pieces(pieces=[(token, *self.texts.piece(token)) for token in new]), r)

    def _nodes(self, done: RoundResult) -> Iterator[Node]:
        tops = self._draft_tops(done) if self.level == "full" else {}
        thought = confidences(done)
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

    def _draft_tops(self, done: RoundResult) -> dict[int, tuple[Top, float]]:
        """Top-k and entropy of every draft row that nodes came from, in one go."""
        raws = {id(node.raw): node.raw for node in done.draft.nodes if node.raw is not None}
        if not raws:
            return {}
        probs = torch.stack(list(raws.values())).softmax(-1)
        entropy = [six(e) for e in entropies(probs)]
        return dict(zip(raws, zip(top_lists(probs, self.topk), entropy, strict=True), strict=True))

    def _spans(self, done: RoundResult) -> None:
        told = {fact.lane for fact in done.facts if isinstance(fact, Span)}  # a drafter that tells its own forwards
        for name, t0, took in done.clock.spans:
            lane = _LANES.get(name)
            if lane and took and lane not in told:
                clock: Literal["host", "device"] = "device" if name in done.clock.by_device else "host"
                self.emit(Span(lane=lane, name=name, t0=t0, dur_ns=took, clock=clock), done.number)

    def _end(self, done: RoundResult, began: int) -> None:
        assert done.outcome is not None
        self.emit(
            Commit(
                tokens=list(done.tokens),
                texts=list(done.texts),
                kinds=list(done.kinds),
                n=done.n_after,
                finish=done.finish,
            ),
            done.number,
        )
        stages = dict(done.clock.ns)
        stages["other"] = stages.get("other", 0) + max(0, done.ended_ns - done.started_ns - sum(stages.values()))
        self.emit(
            RoundEnd(
                n_drafted=done.draft.n_drafted,
                n_tested=done.outcome.n_tested,
                n_accepted=done.n_accepted,
                n_emitted=len(done.tokens),
                n_draft_calls=done.n_draft_calls,
                n_syncs=done.n_syncs,
                stage_ns=stages,
                probe_ns=done.observe_ns + time.perf_counter_ns() - began,
                draft_end=done.draft.draft_end,
                walk_end=walk_end(done),
                cut=done.cut,
                kv=done.kv_after,
            ),
            done.number,
        )


def _named(records: "list[Node | Verify | Chain | Closing]") -> Iterator[int]:
    """Tokens that records name by id only."""
    for record in records:
        top = record.row if isinstance(record, Closing) else None if isinstance(record, Chain) else record.top
        yield from (entry[0] for entry in top or ())


def confidences(done: RoundResult) -> dict[int, float]:
    """Log of the raw draft softmax of every node that has one; what the drafter left out is worked out here."""
    known: dict[int, float] = {}
    left: list[Born] = []
    for node in done.draft.nodes:
        if node.log_conf is not None:
            known[node.id] = six(node.log_conf)
        elif node.raw is not None:
            left.append(node)
    if left:
        logs = log_shares([node.raw for node in left], [node.token for node in left])
        for node, log in zip(left, logs, strict=True):
            known[node.id] = six(log)
    return known


MOST = 1e9  # a carried ratio without bound; JSON has no infinity


def carried(done: RoundResult) -> float | None:
    """Log of the joint ratio that the round before handed on."""
    return None if done.carry is None else MOST if done.carry.log_ratio == math.inf else six(done.carry.log_ratio)


def walk_end(done: RoundResult) -> WalkEnd:
    """Why the walk ended, in the words of the contract."""
    assert done.outcome is not None
    if done.finish:
        return "length" if done.finish == "context" else done.finish
    ends: dict[str | None, WalkEnd] = {"recovered": "rejected", "bonus": "leaf", None: "open"}
    return ends[done.outcome.kind]
