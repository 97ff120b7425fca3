"""`Session`: one prompt being decoded, and the one round that every method shares.

Snapshot knobs, open the target's rows, propose, one target pass (the drafter's `draft_ahead` beside it), target laws,
plan, walk, one cut, append, `follow`, observe, record. Every method is a drafter and a verifier in this round;
nothing else differs. `SessionConfig` is what a session is made of, behind `Sink` stands a probe.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import torch

from specviz.cost.pausing import Pausing
from specviz.engine.decode.context import Context, Counters, Observation
from specviz.engine.decode.drafter import Drafter, FeatureTaps
from specviz.engine.decode.knob_queue import KnobQueue, refuse_draft, refuse_prompt
from specviz.engine.decode.overlap import OverlapLanes, Serial
from specviz.engine.decode.round import CudaMarks, Kind, RoundResult, StageClock, StreamMarks
from specviz.engine.decode.sampling import Warper
from specviz.engine.decode.text_output import StopCriteria, TextOutput, Texts, banned_ids
from specviz.engine.model.adapter import FactoryModels
from specviz.engine.model.cache import KVCache
from specviz.engine.model.rows import ForwardBatch, PromptChunk, Tensor, fill
from specviz.errors import SpecvizError
from specviz.events import Knob, Level, Warn
from specviz.events.round import Finish
from specviz.knobs import Knobs, KnobTable
from specviz.probability.draft import ROOT, Carry, Draft
from specviz.probability.draws import NOT_FINITE, Keys
from specviz.probability.host import READS, off_host, to_host
from specviz.probability.plan import Draws, Verifier
from specviz.probability.rows import Rows


class Sink(Protocol):
    """Where a session reports; `specviz.engine.record.probe.Probe` is the one of production. None records nothing."""

    level: Level

    def prefilled(self, session: "Session", dur_ns: int) -> None: ...
    def knob(self, event: Knob) -> None: ...
    def round(self, done: RoundResult) -> None: ...
    def aborted(self, begun: RoundResult, why: str) -> None: ...


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """What decodes: models, drafter (None: plain decoding), verifier, lanes. `pausing`: decides which rounds draft;
    None: all do."""

    models: FactoryModels
    drafter: Drafter | None
    verifier: Verifier
    lanes: OverlapLanes = field(default_factory=Serial)
    pausing: Pausing | None = None


class Session:
    """Decodes one prompt. `rounds()` is a generator, `generate()` runs it to the end.

    `tokens` always holds prompt + committed tokens; `finish` says why decoding ended (None: not yet). `query` is
    added to the seed. `cache`: the target's, of a session that is over; what it holds of the prompt is not computed
    again where the drafter need not see it. `draws(round)` gives the keyed draws, replaced in tests that enumerate
    them. `more`: a query follows, so that knobs which apply then may be asked for.
    """

    def __init__(
        self,
        parts: SessionConfig,
        prompt: Sequence[int],
        table: KnobTable,
        knobs: Knobs,
        *,
        eos: frozenset[int] = frozenset(),
        texts: Texts | None = None,
        sink: Sink | None = None,
        query: int = 0,
        draws: Callable[[int], Draws] | None = None,
        more: bool = False,
        cache: KVCache | None = None,
    ) -> None:
        self.parts, self.table, self.knobs = parts, table, knobs
        self.target, self.drafter = parts.models.target, parts.drafter
        self.prompt = tuple(prompt)
        self.tokens: list[int] = list(prompt)
        self.eos, self.texts, self.sink, self.query = eos, texts, sink, query
        self.counters, self.number = Counters(), 0
        self.finish: Finish | None = None
        self.carry: Carry | None = None  # what the last round left to carried rounds
        self.verifier = parts.verifier.tuned(knobs)
        self._banned = banned_ids(knobs["ban"], texts, self.target.vocab)
        self.warper = Warper.of(knobs, self._banned)
        self._knob_queue = KnobQueue(table, more)
        self._taps = FeatureTaps.of(parts.drafter, self.target.n_layers)
        room = parts.models.capacity
        kept = None if self._taps.layers else cache  # a drafter that reads states needs those of the whole prompt
        self.cache = self.target.new_cache(room) if kept is None else kept.widened(room)
        cuda = parts.models.cuda_devices
        self._marks: StreamMarks | None = CudaMarks(cuda) if cuda else None
        self._prefilled, self.prefill_ns = False, 0
        self.chunks: list[PromptChunk] = []  # of the prompt, as they were fed
        self.watch: Callable[[int, int], None] | None = None  # told how much of the prompt was fed, of how much
        self._output = TextOutput(texts, prompt)
        seed, way = knobs["seed"] + query, knobs["draw"]
        self._draws = draws or (lambda round_: Keys(seed, round_, way))
        refuse_prompt(self.prompt, self.target.context)
        if parts.pausing is not None:
            parts.pausing.begin()

    @property
    def seed(self) -> int:
        """The seed this query's draws are keyed by."""
        return int(self.knobs["seed"]) + self.query

    @property
    def text(self) -> str:
        return self._output.text

    @property
    def new_tokens(self) -> list[int]:
        return self.tokens[len(self.prompt) :]

    @property
    def room(self) -> int:
        """Most tokens that may still be committed."""
        left: int = min(self.knobs["max_new_tokens"] - len(self.new_tokens), self.target.context - len(self.tokens))
        return left

    def request(self, name: str, value: Any, by: str = "user") -> None:
        """Ask for a knob; it is applied at the start of the next round. Raises KnobError."""
        self._knob_queue.ask(name, value, by, self.number)

    def between(self) -> tuple[Knobs, list[Knob]]:
        """After the last round: the knobs of the next query, and the pending changes applied with them."""
        return self._knob_queue.between(self.knobs)

    def generate(self) -> list[int]:
        """Decode to the end; the new tokens."""
        for _ in self.rounds():
            pass
        return self.new_tokens

    def rounds(self) -> Iterator[RoundResult]:
        """Prefill, then one `RoundResult` after another until something ends the text."""
        self.prefill()
        while self.finish is None:
            yield self._round()

    @torch.inference_mode()
    def prefill(self) -> None:
        """Feed `prompt[:-1]`; commits nothing. Once: `rounds()` does it when it was not done before."""
        if self._prefilled:
            return
        self._prefilled = True
        began = time.perf_counter_ns()
        if len(self.prompt) > 1:
            self._mark = time.perf_counter_ns(), time.process_time_ns()
            fill(self.target, self.cache, self.prompt[:-1], taps=self._taps.layers, show=self._fed)
        else:
            self.cache.follow(())
        self.prefill_ns = time.perf_counter_ns() - began
        if self.sink:
            self.sink.prefilled(self, self.prefill_ns)

    def _fed(self, rows: ForwardBatch) -> None:
        """A prompt chunk was prefilled: pass its states to the drafter and report progress to the sink."""
        now, (wall, cpu) = (time.perf_counter_ns(), time.process_time_ns()), self._mark
        self.chunks.append(PromptChunk(rows.first, len(rows), now[0] - wall, now[1] - cpu))
        if self._taps.layers:
            self._show_prompt(rows)
        if self.watch is not None:
            self.watch(rows.first + len(rows), len(self.prompt) - 1)
        self._mark = time.perf_counter_ns(), time.process_time_ns()

    def _show_prompt(self, rows: ForwardBatch) -> None:
        shown = self._taps.of_prompt(rows, self.prompt)
        if shown is not None and self.drafter:
            self.drafter.observe(shown)

    @torch.inference_mode()
    def _round(self) -> RoundResult:
        """Draft, target's pass, laws, plan, walk, cut; then what drafter and probe write down."""
        self.number += 1
        self._apply_knobs()
        waited = READS.n_waits
        now = RoundResult(
            self.number, len(self.tokens), self.tokens[-1], self.knobs.version, self._filled(), self.carry
        )
        clock = now.clock = StageClock(self._marks)
        now.started_ns = time.perf_counter_ns()
        try:
            ctx = self._open()
            pausing, asked = self._pausing(), self._asked()
            if asked is None:
                now.draft = Draft(draft_end="pausing" if self.drafter else "full")
            else:
                with clock.stage("draft"):
                    now.draft = asked.propose(ctx)
            now.logits, now.draft = self._target_pass(ctx, now.draft, clock, asked)
            with clock.stage("other"):
                refuse_draft(self.verifier, now.draft)
                now.target_probs, now.draft = _here(self._laws(now.draft, now.logits), now.draft)
            clock.read()
            with clock.stage("verdict", on_host=True):
                now.plan, now.keys = self.verifier.plan(now.draft, now.target_probs), ctx.keys
                now.outcome = now.plan.walk(ctx.keys, now.n)
            now.facts, now.ledger, now.n_draft_calls = ctx.facts, ctx.rows.ledger, ctx.counters.n_draft_calls
            with clock.stage("commit", on_host=True):
                seen = self._commit(now, ctx)
        except BaseException as error:
            self._abort(now, error)
            raise
        # What follows is bookkeeping: the drafter writes its records, and no stage of the round is charged for that.
        now.ended_ns = time.perf_counter_ns()
        if self.drafter:
            self.drafter.observe(seen)
        now.kv_after = self._filled()
        # Reads of device memory; on a CPU the reads that a device would have needed.
        now.n_syncs = READS.n_waits - waited or ctx.counters.n_syncs + now.outcome.n_host_reads
        now.observe_ns = time.perf_counter_ns() - now.ended_ns
        if pausing is not None:
            took = now.ended_ns - now.started_ns
            read = (now.kv_after["draft"] or 0) - (now.kv_before["draft"] or 0)
            notice = pausing.take(self.number, took, len(now.tokens), asked is not None, read)
            if notice is not None:
                now.facts.append(Warn(code="auto", message=notice))
        if self.sink:
            self.sink.round(now)
        return now

    def _apply_knobs(self) -> None:
        self.knobs, changes = self._knob_queue.apply(self.knobs, self.number, within_block=self.carry is not None)
        if self.sink:
            for event in changes:
                self.sink.knob(event)
        if changes:
            self.warper = Warper.of(self.knobs, self._banned)
            self.verifier = self.parts.verifier.tuned(self.knobs)

    def _pausing(self) -> Pausing | None:
        """The rule that decides which rounds draft, where their number cannot change the text."""
        verifier = self.verifier
        keeps = verifier.keeps_tokens or (verifier.lossless and self.knobs["temperature"] == 0)
        return self.parts.pausing if keeps and self.drafter else None

    def _asked(self) -> Drafter | None:
        """The drafter, if this round drafts; a block that is begun, and what was drafted ahead, are judged first."""
        pausing, drafter = self._pausing(), self.drafter
        if pausing is None or drafter is None or self.carry is not None or drafter.ahead or pausing.drafts:
            return drafter
        return None

    def _open(self) -> Context:
        """The round as the drafter sees it: the target's rows with what its cache lacks of the text, the root last."""
        rows = ForwardBatch(self.target, self.cache, self._taps.layers)
        root = rows.add_line([*self.tokens[self.cache.length : -1], self.tokens[-1]])
        self.counters.n_draft_calls = self.counters.n_syncs = 0
        return Context(
            tokens=tuple(self.tokens),
            room=self.room,
            knobs=self.knobs,
            warper=self.warper,
            keys=self._draws(self.number),
            rows=rows,
            root_row=root,
            eos=self.eos,
            level=self.sink.level if self.sink else "none",
            counters=self.counters,
            carry=self.carry,
        )

    def _target_pass(self, ctx: Context, fed: Draft, clock: StageClock, asked: Drafter | None) -> tuple[Tensor, Draft]:
        """Logits `[n_fed + 1, V]` of root and nodes; the draft as it is after `draft_ahead`, which ran beside."""
        if asked is None or not asked.overlaps:
            with clock.stage("target"):
                return ctx.rows.finish(fed, ctx.root_row), fed
        ahead = partial(asked.draft_ahead, ctx, fed)
        overlap = self.parts.lanes.run(lambda: ctx.rows.finish(fed, ctx.root_row), ahead, clock.settle)
        clock.overlapped(overlap)
        whole = fed if overlap.drafter is None else overlap.drafter
        assert whole.tokens[: whole.n_fed] == fed.tokens[: fed.n_fed], "draft_ahead may only add nodes that are not fed"
        return overlap.target, whole

    def _laws(self, draft: Draft, logits: Tensor) -> Rows:
        if not self.warper.needs_prefix:
            return self.warper.laws(logits)
        paths = [draft.path(node) for node in range(ROOT, draft.n_fed)]
        return self.warper.laws(logits, [[*self.tokens, *path] for path in paths])

    def _commit(self, now: RoundResult, ctx: Context) -> Observation:
        """The one cut, at the end token, a stop text or the limit; then the text grows and the cache follows it."""
        outcome = now.outcome
        assert outcome is not None
        tokens = [now.draft.tokens[node] for node in outcome.accepted]
        kinds: list[Kind] = ["accepted" if now.draft.has_row(node) else "branch" for node in outcome.accepted]
        if outcome.closing is not None:
            tokens.append(outcome.closing)
            kinds.append(outcome.kind or "bonus")
        longest = len(self.prompt) + self.knobs["max_new_tokens"]
        ends = StopCriteria(self.eos, self.knobs["stop"], longest, self.target.context)
        texts, self.finish = self._output.take(tokens, len(self.tokens), ends)
        kept = len(texts)
        now.tokens, now.kinds, now.texts = tuple(tokens[:kept]), tuple(kinds[:kept]), tuple(texts)
        now.n_accepted = min(kept, len(outcome.accepted))
        now.cut, now.finish = kept < len(tokens), self.finish
        self.tokens += now.tokens
        self.carry = None if self.finish else outcome.carry
        features = self._taps.path(ctx.rows, ctx.root_row, outcome.accepted, kept)
        self.cache.follow(self.tokens[:-1])
        target_ns = now.clock.ns.get("target", 0)
        return Observation(
            now.tokens, now.draft, outcome, features, now.target_probs, now.logits, now.finish, target_ns
        )

    def _abort(self, now: RoundResult, error: BaseException) -> None:
        """Leave the cache as the committed text has it; the number is used again."""
        self.cache.follow(self.tokens[:-1])
        self.number -= 1
        if self.drafter:
            self.drafter.on_abort()
        if self.sink:
            self.sink.aborted(now, f"{type(error).__name__}: {error}".strip(": "))

    def _filled(self) -> dict[str, int | None]:
        return {"target": self.cache.length, "draft": self.drafter.cached() if self.drafter else None}


def _here(laws: Rows, draft: Draft) -> tuple[Rows, Draft]:
    """Copy the distributions of target and draft to main memory, where the verifier reads them; waits for the device
    once.

    Verification and recording then read main memory only. Raises SpecvizError for rows computed from numbers that are
    not finite.
    """
    if not off_host(laws) and not off_host(draft.law_rows):
        return laws, draft
    host_laws, law_rows = to_host(laws, draft.law_rows)
    if host_laws is not laws and not bool(host_laws[:, 0].isfinite().all()):
        raise SpecvizError(NOT_FINITE)
    return host_laws, draft if law_rows is draft.law_rows else replace(draft, law_rows=law_rows)
