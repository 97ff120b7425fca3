"""`Session`: one prompt being decoded, and the one round that every method shares (architecture.md 4).

Snapshot knobs, open the target's rows, propose, one target pass (the drafter's `meanwhile` beside it), target laws,
plan, walk, one cut, append, `follow`, observe, record. Every method is a drafter and a verifier in this round;
nothing else differs.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from specviz.draft import ROOT, Carry, Draft
from specviz.engine.context import Context, Counters, Drafter, Models, Observation
from specviz.engine.lanes import Lanes, Serial
from specviz.engine.round import Clock, Kind, Round
from specviz.engine.rows import Rows, Tensor, fill
from specviz.engine.said import Said
from specviz.engine.sampling import Warper
from specviz.engine.texts import Texts, banned_ids
from specviz.errors import KnobError, SpecvizError
from specviz.events import Knob, Level
from specviz.events.round import Finish
from specviz.keys import Keys
from specviz.knobs import Knobs, KnobTable
from specviz.laws import Rows as LawRows
from specviz.plan import DrawResult, Draws, Outcome, Verifier


class Sink(Protocol):
    """Where a session reports; `specviz.engine.probe.Probe` is the one of production. None records nothing."""

    level: Level

    def prefilled(self, session: "Session", dur_ns: int) -> None: ...
    def knob(self, event: Knob) -> None: ...
    def round(self, done: Round) -> None: ...
    def aborted(self, begun: Round, why: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Parts:
    """What decodes: models, drafter (None: plain decoding), verifier, lanes."""

    models: Models
    drafter: Drafter | None
    verifier: Verifier
    lanes: Lanes = field(default_factory=Serial)


@dataclass(slots=True)
class Request:
    """A knob asked for while round `requested_r` ran."""

    name: str
    value: Any
    by: str
    requested_r: int


class Session:
    """Decodes one prompt. `rounds()` is a generator, `generate()` runs it to the end.

    `tokens` always holds prompt + committed tokens; `finish` says why decoding ended (None: not yet). `query` is
    added to the seed. `draws(round)` gives the keyed draws, replaced in tests that enumerate them.
    """

    def __init__(
        self,
        parts: Parts,
        prompt: Sequence[int],
        table: KnobTable,
        knobs: Knobs,
        *,
        eos: frozenset[int] = frozenset(),
        texts: Texts | None = None,
        sink: Sink | None = None,
        query: int = 0,
        draws: Callable[[int], Draws] | None = None,
    ) -> None:
        self.parts, self.table, self.knobs = parts, table, knobs
        self.target, self.drafter = parts.models.target, parts.drafter
        self.prompt = tuple(prompt)
        self.tokens: list[int] = list(prompt)
        self.eos, self.texts, self.sink, self.query = eos, texts, sink, query
        self.cache = self.target.new_cache(parts.models.capacity)
        self.counters, self.number = Counters(), 0
        self.finish: Finish | None = None
        self.carry: Carry | None = None  # what the last round left to carried rounds
        self.verifier = parts.verifier.tuned(knobs)
        self._banned = banned_ids(knobs["ban"], texts, self.target.vocab)
        self.warper = Warper.of(knobs, self._banned)
        self._requests: list[Request] = []
        self._prefilled = False
        self._said = Said(texts, prompt)
        seed, way = knobs["seed"] + query, knobs["draw"]
        self._draws = draws or (lambda round_: Keys(seed, round_, way))
        self._refuse_bad_prompt()

    def _refuse_bad_prompt(self) -> None:
        if not self.prompt:
            raise SpecvizError("the prompt is empty: give at least one token of text")
        if len(self.prompt) >= self.target.context:
            raise SpecvizError(
                f"the prompt has {len(self.prompt)} tokens, the target's context holds {self.target.context}: "
                f"shorten it to at most {self.target.context - 1}"
            )

    @property
    def seed(self) -> int:
        """The seed this query's draws are keyed by."""
        return int(self.knobs["seed"]) + self.query

    @property
    def text(self) -> str:
        """The new text so far."""
        return self._said.text

    @property
    def new_tokens(self) -> list[int]:
        """Tokens committed so far."""
        return self.tokens[len(self.prompt) :]

    @property
    def room(self) -> int:
        """Most tokens that may still be committed."""
        left: int = min(self.knobs["max_new_tokens"] - len(self.new_tokens), self.target.context - len(self.tokens))
        return left

    def request(self, name: str, value: Any, by: str = "user") -> None:
        """Ask for a knob; it is applied at the start of the next round. Raises KnobError."""
        spec = self.table.spec(name)
        checked = spec.check(value)
        if spec.applies != "R":
            when = {"Q": "the next prompt", "X": "a restart"}[spec.applies]
            raise KnobError(f"knob {name} applies at {when}, not during a run")
        self._requests.append(Request(name, checked, by, self.number))

    def generate(self) -> list[int]:
        """Decode to the end; the new tokens."""
        for _ in self.rounds():
            pass
        return self.new_tokens

    def rounds(self) -> Iterator[Round]:
        """Prefill, then one `Round` after another until something ends the text."""
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
            fill(self.target, self.cache, self.prompt[:-1])
        if self.sink:
            self.sink.prefilled(self, time.perf_counter_ns() - began)

    @torch.inference_mode()
    def _round(self) -> Round:
        self.number += 1
        self._apply_knobs()
        now = Round(self.number, len(self.tokens), self.tokens[-1], self.knobs.version, self._filled(), self.carry)
        now.clock = Clock(getattr(getattr(self.target, "device", None), "type", "cpu") == "cuda")
        now.started_ns = time.perf_counter_ns()
        try:
            self._decide(now)
            with now.clock.stage("commit"):
                self._commit(now)
        except BaseException as error:
            self._abort(now, error)
            raise
        self._observe(now)
        now.kv_after, now.ended_ns = self._filled(), time.perf_counter_ns()
        if self.sink:
            self.sink.round(now)
        return now

    def _apply_knobs(self) -> None:
        """Apply what was asked for. What changes the law waits for the end of a block: its rounds make one draw."""
        ready = [ask for ask in self._requests if self.carry is None or self.table.spec(ask.name).text == "K"]
        for ask in ready:
            old = self.knobs[ask.name]
            self.knobs = self.knobs.with_(**{ask.name: ask.value})
            changes = self.table.spec(ask.name).text != "K"
            if self.sink:
                self.sink.knob(self._acknowledgement(ask, old, changes))
        if ready:
            self.warper = Warper.of(self.knobs, self._banned)
            self.verifier = self.parts.verifier.tuned(self.knobs)
            self._requests = [ask for ask in self._requests if ask not in ready]

    def _acknowledgement(self, ask: Request, old: Any, changes: bool) -> Knob:
        return Knob(
            name=ask.name, old=old, new=ask.value, requested_r=ask.requested_r, applied_r=self.number, by=ask.by,
            changes_text=changes,
        )  # fmt: skip

    def _decide(self, now: Round) -> None:
        """Draft, target pass, laws, plan, walk."""
        ctx = self._open()
        if self.drafter:
            with now.clock.stage("draft"):
                now.draft = self.drafter.propose(ctx)
        refusal = self.verifier.refuses(now.draft)
        if refusal:
            raise SpecvizError(f"verifier {self.verifier.name} does not take this draft: {refusal}")
        began = time.perf_counter_ns()
        with now.clock.stage("target"):
            result = self.parts.lanes.submit(lambda: ctx.rows.finish(now.draft, ctx.root_row))
            meanwhile = getattr(self.drafter, "meanwhile", None)
            if meanwhile is not None:
                now.draft = meanwhile(ctx, now.draft)
            now.logits = result()
        now.target_call = (began, time.perf_counter_ns() - began)
        with now.clock.stage("other"):
            now.target_probs = self._laws(now.draft, now.logits)
        with now.clock.stage("verdict"):
            now.plan, now.keys = self.verifier.plan(now.draft, now.target_probs), ctx.keys
            now.outcome = now.plan.walk(ctx.keys, now.n)
        now.facts, now.ledger = ctx.facts, ctx.rows.ledger
        now.n_draft_calls = self.counters.n_draft_calls
        now.n_syncs = self.counters.n_syncs + host_reads(now.outcome)

    def _open(self) -> Context:
        rows = Rows(self.target, self.cache)
        root = rows.add_line([*self.tokens[self.cache.length : -1], self.tokens[-1]])
        self.counters.n_draft_calls = self.counters.n_syncs = 0
        return Context(
            tokens=tuple(self.tokens), room=self.room, knobs=self.knobs, warper=self.warper,
            keys=self._draws(self.number), rows=rows, root_row=root, eos=self.eos,
            level=self.sink.level if self.sink else "none", counters=self.counters, carry=self.carry,
        )  # fmt: skip

    def _laws(self, draft: Draft, logits: Tensor) -> LawRows:
        if not self.warper.needs_prefix:
            return self.warper.laws(logits)
        paths = [draft.path(node) for node in range(ROOT, draft.n_fed)]
        return self.warper.laws(logits, [[*self.tokens, *path] for path in paths])

    def _commit(self, now: Round) -> None:
        """The one cut, at the end token, a stop text or the limit; then the text grows and the cache follows it."""
        outcome = now.outcome
        assert outcome is not None
        tokens = [now.draft.tokens[node] for node in outcome.accepted]
        kinds: list[Kind] = ["accepted" if now.draft.has_row(node) else "branch" for node in outcome.accepted]
        if outcome.closing is not None:
            tokens.append(outcome.closing)
            kinds.append(outcome.kind or "bonus")
        kept, texts = self._cut(tokens)
        now.tokens, now.kinds, now.texts = tuple(tokens[:kept]), tuple(kinds[:kept]), tuple(texts)
        now.n_accepted = min(kept, len(outcome.accepted))
        now.cut, now.finish = kept < len(tokens), self.finish
        self.tokens += now.tokens
        self.carry = None if self.finish else outcome.carry
        self.cache.follow(self.tokens[:-1])

    def _cut(self, tokens: list[int]) -> tuple[int, list[str]]:
        texts: list[str] = []
        limit, context = self.knobs["max_new_tokens"], self.target.context
        for kept, token in enumerate(tokens, 1):
            texts.append(self._said.grow(token))
            length = len(self.tokens) + kept
            if token in self.eos:
                self.finish = "eos"
            elif (left := self._said.stopped(self.knobs["stop"], texts[-1])) is not None:
                self.finish, texts[-1] = "stop", left
            elif length - len(self.prompt) >= limit:
                self.finish = "length"
            elif length >= context:
                self.finish = "context"
            if self.finish:
                return kept, texts
        return len(tokens), texts

    def _abort(self, now: Round, error: BaseException) -> None:
        """Leave the cache as the committed text has it; the number is used again."""
        self.cache.follow(self.tokens[:-1])
        self.number -= 1
        if self.sink:
            self.sink.aborted(now, f"{type(error).__name__}: {error}".strip(": "))

    def _observe(self, now: Round) -> None:
        if self.drafter:
            self.drafter.observe(Observation(now.tokens, now.draft, now.outcome))

    def _filled(self) -> dict[str, int | None]:
        return {"target": self.cache.length, "draft": self.drafter.cached() if self.drafter else None}


def host_reads(outcome: Outcome) -> int:
    """Device reads of a verdict: the gathered thresholds are one, every draw is one."""
    draws = sum(isinstance(result, DrawResult) for result in outcome.trace)
    return draws + (len(outcome.trace) > draws)
