"""A run in this process: load a pair once, then one `LocalRun` per prompt, or per stream of prompts.

The worker, the command line, scripts and tests all decode through this; it turns a `Start` command into a `Session`
and its events into a whole run, `header` to `end`, however the run ends.
"""

import platform
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Literal
from weakref import WeakKeyDictionary

import msgspec
import torch

from specviz.commands import Start
from specviz.cost.pausing import Pausing
from specviz.engine.decode.drafter import Drafter, QueryEnd
from specviz.engine.decode.overlap_choice import choose, threads_of
from specviz.engine.decode.round import QueryStats, RoundResult
from specviz.engine.decode.session import Session, SessionConfig, Sink
from specviz.engine.decode.text_output import Texts
from specviz.engine.measure import ENDS, PlainPasses, calibrate, is_padded
from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.cache import KVCache
from specviz.engine.model.files.loading import stop_tokens
from specviz.engine.model.pair import Pair, dtype_warning, kernel_warning, load_pair, small
from specviz.engine.record.probe import Probe
from specviz.engine.run import prepare
from specviz.engine.run.prepare import Queries, encode_prompt, make_drafter
from specviz.errors import KnobError, ModelError
from specviz.events import SCHEMA, VERSION, Calibration, Commit, End, Event, Header, Knob, RoundEnd, Warn
from specviz.knobs import Knobs
from specviz.methods import get_method, pick_verifier

__all__ = ["LocalRun", "Pair", "encode_prompt", "environment", "load_pair", "make_drafter", "small", "usual_auto"]

TOPK = 8
_pausing: "WeakKeyDictionary[ModelAdapter, dict[str, Pausing]]" = WeakKeyDictionary()


def pausing_of(pair: Pair, method: str, knobs: Knobs) -> Pausing:
    """What is known of whether a method pays with this pair under these knobs: learnt once, kept for later runs."""
    apart = {"seed", "stop", "max_new_tokens"}
    draft = id(pair.draft.adapter) if pair.draft else 0
    key = repr((method, draft, sorted((name, value) for name, value in knobs.values.items() if name not in apart)))
    return _pausing.setdefault(pair.target.adapter, {}).setdefault(key, Pausing())


def usual_auto(pair: Pair, start: Start) -> Start:
    """A request that leaves open whether drafting may pause: it may, but with a target whose pass takes less than all
    that a round does beside it, as the embedded one's does: there no drafting pays, and it is there to be looked at."""
    return start if start.auto is not None else msgspec.structs.replace(start, auto=not small(pair.target))


class LocalRun:
    """A prompt, or a stream of them one after another, decoded with a loaded pair; events go to `sink` as they happen.

    Construction checks everything that can be wrong with the request (SpecvizError) before the first event. `end` is
    written by `rounds()` itself, with the reason, also when an exception passes through. `session`: the query in hand.
    `cache`: the target's after the run before; a conversation goes on from it.
    """

    def __init__(
        self,
        pair: Pair,
        start: Start,
        sink: Callable[[Event], None],
        run: str | None = None,
        cache: KVCache | None = None,
    ) -> None:
        self.pair, self.start = pair, start
        self._before = cache if start.history and not start.stream else None
        self.method = get_method(start.method)
        knobs = self.method.table.knobs(start.knobs)
        self.verifier = pick_verifier(self.method, start.verifier, knobs)
        if self.method.needs_draft and pair.draft is None:
            raise ModelError(f"method {self.method.name} needs a draft model; start with one, or use --method ngram")
        self.queries = Queries(pair, start, self.method, knobs)
        models = self.queries.models(0, knobs)
        self.texts = Texts(pair.target.tokenizer)
        self.memory = self.queries.memory(knobs)  # before anything is taken
        self.on_prompt: Callable[[int, int], None] | None = None  # told how much of a prompt was fed, of how much
        self._sink = sink
        self.totals: dict[str, Any] = {"n_rounds": 0, "n_new_tokens": 0, "finish": None}
        self.probe = Probe(self._tell, self.texts, start.level, TOPK)
        drafter = make_drafter(self.method, models, knobs)
        self.table, knobs = prepare.fitted(self.method.table, drafter, start.knobs)
        self.choice = choose(start.lanes, models, drafter)
        self._pausing = pausing_of(pair, self.method.name, knobs) if start.auto and drafter else None
        if self._pausing is not None:
            self._pausing.beside = start.level != "none"  # plain passes are timed where a run is recorded
        self.served = QueryStats()
        self.session = self._opened(0, drafter, knobs)
        self.run = run or f"r-{uuid.uuid4().hex[:8]}"
        self.reason: str | None = None
        self._stop_asked: Literal["stopped", "cancelled"] | None = None
        self._begun = False
        self._n_threads = torch.get_num_threads()
        self._pausing_state = self._pausing.state if self._pausing else None  # as it was before this run
        self._costs: Calibration | None = None  # what passes cost on this machine, once that was written
        self._plain: PlainPasses | None = None  # timed beside the run, where it is recorded

    def _opened(self, query: int, drafter: Drafter | None, knobs: Knobs) -> Session:
        self.served, self.probe.prompt = QueryStats(), self.queries.prompts[query]
        return self._session(query, drafter, knobs, self.probe)

    def _session(self, query: int, drafter: Drafter | None, knobs: Knobs, sink: Sink | None) -> Session:
        """A query that has not begun."""
        parts = SessionConfig(
            self.queries.models(query, knobs), drafter, self.verifier, self.choice.lanes, self._pausing
        )
        session = Session(
            parts,
            self.queries.ids[query],
            self.table,
            knobs,
            eos=stop_tokens(self.pair.target),
            texts=self.texts,
            sink=sink,
            query=query,
            more=query + 1 < len(self.queries),
            cache=self._before,
        )
        session.watch = self._reading
        return session

    def _reading(self, done: int, total: int) -> None:
        """Between chunks of a prompt; who cancels a run does not wait for the rest of them."""
        if self._stop_asked == "cancelled":
            raise KeyboardInterrupt
        if self.on_prompt is not None:
            self.on_prompt(done, total)

    @property
    def text(self) -> str:
        return self.session.text

    @property
    def chat(self) -> bool:
        """Whether its prompts are messages, and its texts answers."""
        return self.queries.chat

    @property
    def answer(self) -> str:
        """Its text; of a chat without the mark that ends a message."""
        text = self.text
        if not self.chat or self.session.finish != "eos":
            return text
        return text.removesuffix(self.texts.piece(self.session.tokens[-1])[0])

    @property
    def has_more(self) -> bool:
        """Whether a query follows the one in hand."""
        return self.session.query + 1 < len(self.queries)

    @property
    def tokens(self) -> list[int]:
        """Ids of its new tokens so far."""
        return self.session.new_tokens

    def set_knob(self, name: str, value: Any, by: str = "user") -> None:
        """Ask for a knob; applied at the next round, or at the next query of a stream if it is of that kind.

        Raises KnobError, also when the verifier could not go on.
        """
        asked = self.session.knobs.with_(**self.table.check({name: value}))
        refusal = self.verifier.refuses(self.method.example(asked.values))
        if refusal is not None:
            raise KnobError(f"knob {name}: verifier {self.verifier.name} could not go on: {refusal}")
        self.session.request(name, value, by)

    def stop(self, reason: Literal["stopped", "cancelled"] = "stopped") -> None:
        """End after the round in hand. Safe in a signal handler: a round is finished or never begun, not torn."""
        self._stop_asked = self._stop_asked or reason

    @property
    def stopping(self) -> bool:
        return self._stop_asked is not None

    def header(self) -> Header:
        """The first line of the trace."""
        knobs = self.session.knobs
        own, target = {spec.name for spec in self.method.own}, self.pair.target
        probed = {name: round(ms, 3) for name, ms in self.choice.probed_ms.items()}
        stream: dict[str, Any] = {}
        if self.start.stream:
            domains = Counter(prompt.domain for prompt in self.queries.prompts)
            stream = {"stream": {"n_queries": len(self.queries), "domains": domains}}
        return Header(
            schema=SCHEMA,
            v=VERSION,
            run=self.run,
            wall=datetime.now(UTC).isoformat(timespec="seconds"),
            method=self.method.name,
            drafter=(self.method.drafter or "none").rpartition(".")[2].partition(":")[0],
            verifier=self.verifier.name,
            lanes=self.session.parts.lanes.name,
            lossless=self.verifier.lossless,
            keeps_tokens=self.verifier.keeps_tokens,
            distance=self.verifier.distance,
            models=self._models_info(),
            knobs={name: value for name, value in knobs.values.items() if name in own},
            knob_specs=list(self.table.specs),
            sampling={name: value for name, value in knobs.values.items() if name not in own},
            level=self.start.level,
            topk=TOPK,
            method_traits=self.method.traits,
            verifier_traits=self.verifier.traits,
            env=environment()
            | {"exact": target.exact, "products": target.adapter.products, "memory": asdict(self.memory)}
            | ({"no_kernel": target.no_kernel.why} if target.no_kernel else {})
            | ({"layers": note} if (note := target.adapter.backend.note) else {})
            | ({"dtype": self.pair.speed.words} if self.pair.speed else {})
            | ({"lanes_ms": probed} if probed else {})
            | ({"auto": self._pausing_state} if self._pausing_state else {})
            | stream,
        )

    def _models_info(self) -> Any:
        """The pair, and the trained parts that the drafter found for it."""
        infos = self.pair.infos
        draft = infos.draft if self.method.needs_draft else None  # the pair's draft model is not used by this run
        drafter = self.session.drafter
        return msgspec.structs.replace(infos, draft=draft, parts=dict(drafter.parts()) if drafter else {})

    def begin(self) -> None:
        """Write `header` and `prefill`, so that a paused run shows its prompt. `rounds()` does it otherwise."""
        if self._begun:
            return
        self._begun = True
        self._n_threads = torch.get_num_threads()
        _use_threads(threads_of(self.start.lanes, self.pair.runtime.threads))
        self.probe.emit(self.header(), 0)
        with self._ending():
            self._preface()
            self.session.prefill()

    def _preface(self) -> None:
        """What stands between header and prompt: a warning about the lanes, what passes cost on this machine."""
        if self.choice.warning is not None:
            self.probe.emit(Warn(code="lanes", message=self.choice.warning), 0)
        for one in filter(None, (self.pair.target, self.pair.draft)):
            if one.left_out is not None:
                self.probe.emit(Warn(code="weights", message=f"{one.adapter.name}: {one.left_out}"), 0)
        kernel = kernel_warning(self.pair)
        if kernel is not None:
            self.probe.emit(Warn(code="kernel", message=kernel), 0)
        slow = dtype_warning(self.pair)
        if slow is not None:
            self.probe.emit(Warn(code="dtype", message=slow), 0)
        cut = self.queries.cut_short(self.session.knobs)
        if cut is not None:
            self.probe.emit(Warn(code="context", message=cut), 0)
        drafter, models = self.session.drafter, self.session.parts.models
        if self.start.level != "none" and drafter and (drafter.calibrated or is_padded(models)):
            self._costs = calibrate(models, drafter) if drafter.calibrated else calibrate(models, None, 0.0, ENDS)
            if self._costs is not None:
                self.probe.emit(self._costs, 0)
        if self.start.level != "none" and drafter:
            self._plain = PlainPasses(models.target, self._costs)

    def _afterword(self) -> None:
        """Measure what passes cost after the text is complete: plain passes, and for a method with a draft-length knob
        passes over several rows, which tell whether another length would have paid.

        Uses the fewest passes possible: whoever stops a run waits for its end.
        """
        session = self.session
        if self._stop_asked or self._plain is None or session.drafter is None:
            return
        behind = self._plain.behind(session.cache, session.tokens)
        if not session.drafter.calibrated and "gamma" in session.knobs.values:
            self._costs = calibrate(session.parts.models, session.drafter, 0.0)
        costs = msgspec.structs.replace(self._costs or Calibration(), behind_ns=behind)
        self.probe.emit(costs, session.number)

    def rounds(self) -> Iterator[RoundResult]:
        """Decode; every event goes to the sink, and `end` is always the last, also after an error."""
        self.begin()
        with self._ending():
            while True:
                yield from self._query()
                if self.session.finish is None or not self._go_on():
                    break
            self._afterword()
            whole = self.session.finish is not None and not self.has_more
            self._end("done" if whole or not self._stop_asked else self._stop_asked)

    def _query(self) -> Iterator[RoundResult]:
        rounds = self.session.rounds()
        while not self._stop_asked and (done := next(rounds, None)) is not None:
            self.served.add(done)
            yield done
            if self._plain is not None and self.session.finish is None:
                self.probe.plain_ns = self._plain.between(self.session.cache, self.session.tokens)
                if self.probe.plain_ns and self._pausing is not None:
                    self._pausing.price(self.probe.plain_ns)

    def _go_on(self) -> bool:
        """A query is over: let the drafter learn from it, then open the next; False when there is none."""
        query, drafter = self.session.query + 1, self.session.drafter
        knobs, changes = self.session.between()
        self._learn(drafter, knobs)
        if not self.has_more or self._stop_asked:
            return False
        for name, value in (drafter.reset_knobs(knobs) if drafter else {}).items():
            changes.append(Knob(name=name, old=knobs[name], new=value, requested_r=0, applied_r=1, by="specviz"))
            knobs = knobs.with_(**{name: value})
        models = self.queries.models(query, knobs)
        after = (drafter and drafter.next_query(models, knobs)) or make_drafter(self.method, models, knobs)
        self.session = self._opened(query, after, knobs)
        self.session.prefill()
        for event in changes:
            self.probe.knob(event)
        return True

    def _learn(self, drafter: Drafter | None, knobs: Knobs) -> None:
        """Tell the drafter that the query is over, and record what it made of that."""
        if drafter is None:
            return
        session = self.session
        self.served.seconds += session.prefill_ns / 1e9
        query_end = QueryEnd(
            session.query,
            knobs,
            self.served,
            self.queries.prompts[session.query].domain,
            session.prompt[0],
            self._next_length if self.has_more else None,
        )
        for event in drafter.on_query_end(query_end):
            self.probe.emit(event, session.number)

    def _next_length(self, drafter: Drafter) -> float | None:
        """Tokens a round of the next query, decoded with that drafter and recorded nowhere; None when stopped."""
        served = QueryStats()
        for done in self._session(self.session.query + 1, drafter, self.session.knobs, None).rounds():
            if self.stopping:
                return None
            served.add(done)
        return served.mean_acceptance_length

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """Write `end` with the reason when an exception passes through."""
        try:
            yield
        except (KeyboardInterrupt, GeneratorExit):
            self._end("cancelled")
            raise
        except BrokenPipeError:
            self._end("cancelled", "the reader closed the pipe")
            raise
        except BaseException as error:
            self._end("error", f"{type(error).__name__}: {error}")
            raise

    def _tell(self, event: Event) -> None:
        """Hand an event on, and count it: an interrupt may fall between a commit and its records."""
        self._sink(event)
        if isinstance(event, RoundEnd):
            self.totals["n_rounds"] += 1
            self.totals["n_new_tokens"] += event.n_emitted
        elif isinstance(event, Commit):
            self.totals["finish"] = event.finish

    def _end(self, reason: str, message: str | None = None) -> None:
        if self.reason is None:
            self.reason = reason
            _use_threads(self._n_threads)
            self.probe.emit(End(reason=reason, message=message, totals=dict(self.totals)), self.session.number)


def _use_threads(n: int) -> None:
    if torch.get_num_threads() != n:
        torch.set_num_threads(n)


def environment() -> dict[str, Any]:
    """What a reader of numbers must know of the machine, without its name or paths."""
    import transformers

    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "transformers": transformers.__version__,
        "machine": platform.machine(),
        "system": platform.system(),
        "threads": torch.get_num_threads(),
        "started_ns": time.perf_counter_ns(),
    }
