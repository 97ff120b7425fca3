"""`Probe`: turns rounds into events. One call per round; without a probe nothing is recorded and nothing is copied.

The level decides what is computed and copied at all: `none` counts and tokens, `summary` the tree and its verdicts,
`full` also top-k, entropies and ranks. Its own time is measured and written (`probe_ns`), never hidden in a stage.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from specviz.draft import ROOT
from specviz.engine.round import Round
from specviz.engine.verdict import closing_record, verify_records
from specviz.events import (
    Closing,
    Commit,
    Event,
    Knob,
    Level,
    Node,
    Prefill,
    RoundEnd,
    RoundStart,
    Span,
    Warn,
    log6,
    six,
)
from specviz.events.round import WalkEnd
from specviz.plan import DrawResult, TestResult

if TYPE_CHECKING:
    from specviz.engine.session import Session
    from specviz.engine.texts import Texts

Emit = Callable[[Event], None]


class Probe:
    """Writes the events of one query to `emit`, numbered by the recorder's side of the pipe."""

    def __init__(self, emit: Emit, texts: "Texts", level: Level, topk: int = 8, prompt_text: str = "") -> None:
        self.emit_line, self.texts, self.level, self.topk = emit, texts, level, topk
        self.prompt_text = prompt_text
        self.query = 0
        self.count = 0
        self.totals: dict[str, int] = {}

    def emit(self, event: Event, r: int, t: int | None = None) -> None:
        """Number, stamp and send one event."""
        event.i, event.t = self.count, time.perf_counter_ns() if t is None else t
        event.q, event.r = self.query, r
        self.count += 1
        self.emit_line(event)

    def prefilled(self, session: "Session", dur_ns: int) -> None:
        """A query begins."""
        self.query = session.query
        prompt = list(session.prompt)
        self.emit(
            Prefill(
                prompt=prompt, text=self.prompt_text, n_prompt=len(prompt), seed=session.seed, dur_ns=dur_ns
            ), 0,
        )  # fmt: skip

    def knob(self, event: Knob) -> None:
        """A knob took effect."""
        self.emit(event, event.applied_r)

    def aborted(self, begun: Round, why: str) -> None:
        """A round that did not finish; its number is used again."""
        self.emit(Warn(code="aborted_round", message=f"round {begun.number} was aborted: {why}"), begun.number)

    def round(self, done: Round) -> None:
        """All events of a finished round."""
        began = time.perf_counter_ns()
        self._start(done)
        if self.level != "none":
            self._nodes(done)
            for verdict in verify_records(done, self.level, self.topk):
                self.emit(verdict, done.number)
            self._closing(done)
            self._spans(done)
        for fact in done.facts:
            self.emit(fact, done.number)
        self._end(done, began)

    def _start(self, done: Round) -> None:
        event = RoundStart(n=done.n, root=done.root, knob_version=done.knob_version, kv=done.kv_before)
        self.emit(event, done.number, done.started_ns)

    def _nodes(self, done: Round) -> None:
        shown: set[int] = set()
        fed = {done.draft.ids[k]: done.draft.has_row(k) for k in range(len(done.draft))}
        for node in done.draft.nodes:
            text, raw_bytes = self.texts.piece(node.token)
            event = Node(
                node=node.id, parent=node.parent, depth=node.depth, pos=done.n - 1 + node.depth, token=node.token,
                text=text, bytes=raw_bytes, logq=None if node.logq is None else six(node.logq),
                log_conf=None if node.log_conf is None else six(node.log_conf), mode=node.mode, cand=node.cand,
                branch=node.branch, fed=fed.get(node.id, False), kept=node.kept, src=node.src,
            )  # fmt: skip
            if node.raw is not None and node.parent not in shown:
                shown.add(node.parent)
                self._draft_context(event, node.raw)
            self.emit(event, done.number)

    def _draft_context(self, event: Node, raw: "object") -> None:
        probs = raw.softmax(-1)  # type: ignore[attr-defined]
        top = probs.topk(min(self.topk, len(probs)))
        event.top = [(t, log6(p)) for p, t in zip(top.values.tolist(), top.indices.tolist(), strict=True)]
        event.entropy_q = six(float(-(probs * probs.clamp(min=1e-30).log()).sum()))

    def _closing(self, done: Round) -> None:
        closing = done.outcome.closing if done.outcome else None
        text = None if closing is None else self.texts.piece(closing)[0]
        record: Closing = closing_record(done, text, self.level)
        self.emit(record, done.number)
        if record.fallback:
            message = "the residual had no mass (rounding); the plain target row was used"
            self.emit(Warn(code="residual_fallback", message=message), done.number)

    def _spans(self, done: Round) -> None:
        for name, t0, took in done.clock.spans:
            lane = "target" if name == "target" else "draft" if name == "draft" else None
            if lane and took:
                self.emit(Span(lane=lane, name=name, t0=t0, dur_ns=took), done.number)  # type: ignore[arg-type]

    def _end(self, done: Round, began: int) -> None:
        self.emit(
            Commit(
                tokens=list(done.tokens), texts=list(done.texts), kinds=list(done.kinds), n=done.n_after,
                finish=done.finish,
            ), done.number,
        )  # fmt: skip
        stages = dict(done.clock.ns)
        stages["other"] = stages.get("other", 0) + max(0, done.ended_ns - done.started_ns - sum(stages.values()))
        self.emit(
            RoundEnd(
                n_drafted=len(done.draft.judged), n_tested=tested(done), n_accepted=done.n_accepted,
                n_emitted=len(done.tokens), n_draft_calls=done.n_draft_calls, n_syncs=done.n_syncs, stage_ns=stages,
                probe_ns=time.perf_counter_ns() - began, draft_end=done.draft.draft_end, walk_end=walk_end(done),
                cut=done.cut, kv=done.kv_after,
            ), done.number,
        )  # fmt: skip


def tested(done: Round) -> int:
    """Siblings up to the kept one, all when none was kept, summed over the places the walk visited."""
    assert done.outcome is not None
    count = 0
    for result in done.outcome.trace:
        if isinstance(result, TestResult):
            count += 1
        elif isinstance(result, DrawResult) and result.step.edges:
            children = _children_at(done, result)
            tokens = [done.draft.tokens[c] for c in children]
            drawn = result.drawn.token
            count += tokens.index(drawn) + 1 if drawn in tokens else len(tokens)
    return count


def _children_at(done: Round, result: DrawResult) -> tuple[int, ...]:
    draft, here = done.draft, result.step.node
    text = draft.path(here) if here != ROOT else ()
    spelled = [n for n in range(len(draft)) if draft.path(n) == text] if here != ROOT else [ROOT]
    found = [c for n in spelled for c in draft.children.get(n, ())]
    return tuple(sorted(found, key=lambda c: draft.ids[c]))


def walk_end(done: Round) -> WalkEnd:
    """Why the walk ended, in the words of the contract."""
    assert done.outcome is not None
    if done.finish:
        return "length" if done.finish == "context" else done.finish
    ends: dict[str | None, WalkEnd] = {"recovered": "rejected", "bonus": "leaf", None: "open"}
    return ends[done.outcome.kind]
