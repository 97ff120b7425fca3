"""A run in this process: load a pair once, then one `LocalRun` per prompt.

The worker, the command line, scripts and tests all decode through this; it turns a `Start` command into a `Session`
and its events into a whole run, `header` to `end`, however the run ends.
"""

import platform
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
import torch

from specviz.engine import outfit
from specviz.engine.calibrate import calibrate
from specviz.engine.context import Models
from specviz.engine.lane_choice import choose, threads_of
from specviz.engine.loading import stop_tokens
from specviz.engine.outfit import make_drafter
from specviz.engine.pair import Pair, load_pair, small
from specviz.engine.probe import Probe
from specviz.engine.round import Round
from specviz.engine.session import Parts, Session
from specviz.engine.texts import Texts
from specviz.errors import KnobError, ModelError, SpecvizError
from specviz.events import SCHEMA, VERSION, Commit, End, Event, Header, RoundEnd, Warn
from specviz.knobs import Knobs
from specviz.methods import get_method, pick_verifier
from specviz.wire import Start

__all__ = ["LocalRun", "Pair", "encode_prompt", "environment", "load_pair", "make_drafter", "small"]

TOPK = 8


def encode_prompt(tokenizer: Any, prompt: str, chat: bool) -> list[int]:
    """Token ids of a prompt: raw text with the tokenizer's own special tokens, or through its chat template."""
    if not prompt:
        raise SpecvizError("the prompt is empty: give at least one character")
    if not chat:
        return list(tokenizer(prompt, verbose=False)["input_ids"])  # its length is checked, and told, by the session
    if not getattr(tokenizer, "chat_template", None):
        raise SpecvizError("this tokenizer has no chat template; leave out --chat")
    messages = [{"role": "user", "content": prompt}]
    try:
        encoded = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)
    except Exception as error:  # a template is a program of its author's: it may refuse, or be broken
        why = " ".join(str(error).split())
        raise SpecvizError(f"the tokenizer's chat template fails ({why}); leave out --chat") from error
    return list(encoded["input_ids"])


class LocalRun:
    """One prompt, decoded with a loaded pair; events go to `sink` as they happen.

    Construction checks everything that can be wrong with the request (SpecvizError) before the first event. `end` is
    written by `rounds()` itself, with the reason, also when an exception passes through.
    """

    def __init__(self, pair: Pair, start: Start, sink: Callable[[Event], None], run: str | None = None) -> None:
        self.pair, self.start = pair, start
        self.method = get_method(start.method)
        knobs = self.method.table.knobs(start.knobs)
        self.verifier = pick_verifier(self.method, start.verifier, knobs)
        if self.method.needs_draft and pair.draft is None:
            raise ModelError(f"method {self.method.name} needs a draft model; start with one, or use --method ngram")
        prompt = encode_prompt(pair.target.tokenizer, start.prompt, start.chat)
        models = self._models(len(prompt), knobs)
        self.texts = Texts(pair.target.tokenizer)
        self._sink = sink
        self.totals: dict[str, Any] = {"n_rounds": 0, "n_new_tokens": 0, "finish": None}
        self.probe = Probe(self._tell, self.texts, start.level, TOPK, start.prompt)
        drafter = make_drafter(self.method, models, knobs)
        self.table, knobs = outfit.fitted(self.method.table, drafter, start.knobs)
        self.choice = choose(start.lanes, models, drafter)
        self.session = Session(
            Parts(models, drafter, self.verifier, self.choice.lanes), prompt, self.table, knobs,
            eos=stop_tokens(pair.target), texts=self.texts, sink=self.probe,
        )  # fmt: skip
        self.run = run or f"r-{uuid.uuid4().hex[:8]}"
        self.reason: str | None = None
        self._stop_asked: Literal["stopped", "cancelled"] | None = None
        self._begun = False
        self._n_threads = torch.get_num_threads()

    def _models(self, n_prompt: int, knobs: Knobs) -> Models:
        # Slots for the text and for the widest draft in flight; a context of 128k is not reserved for a short run.
        flight = outfit.in_flight(knobs)
        wanted = n_prompt + int(knobs["max_new_tokens"]) + flight
        target, draft = self.pair.target.adapter, self.pair.draft.adapter if self.pair.draft else None
        return Models(target, draft, min(wanted, target.context + flight))

    @property
    def text(self) -> str:
        """The new text so far."""
        return self.session.text

    @property
    def tokens(self) -> list[int]:
        """Ids of the new tokens so far."""
        return self.session.new_tokens

    def set_knob(self, name: str, value: Any, by: str = "user") -> None:
        """Ask for a knob; applied at the next round. Raises KnobError, also when the verifier could not go on."""
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
        """Whether `stop` was called."""
        return self._stop_asked is not None

    def header(self) -> Header:
        """The first line of the trace."""
        knobs = self.session.knobs
        own = {spec.name for spec in self.method.own}
        probed = {name: round(ms, 3) for name, ms in self.choice.probed_ms.items()}
        return Header(
            schema=SCHEMA, v=VERSION, run=self.run, wall=datetime.now(UTC).isoformat(timespec="seconds"),
            method=self.method.name, drafter=(self.method.drafter or "none").rpartition(".")[2].partition(":")[0],
            verifier=self.verifier.name, lanes=self.session.parts.lanes.name, lossless=self.verifier.lossless,
            keeps_tokens=self.verifier.keeps_tokens, distance=self.verifier.distance, models=self._models_info(),
            knobs={name: value for name, value in knobs.values.items() if name in own},
            knob_specs=list(self.table.specs),
            sampling={name: value for name, value in knobs.values.items() if name not in own},
            level=self.start.level, topk=TOPK,
            env=environment() | ({"lanes_ms": probed} if probed else {}),
        )  # fmt: skip

    def _models_info(self) -> Any:
        """The pair, and the trained parts that the drafter found for it."""
        infos = self.pair.infos
        draft = infos.draft if self.method.needs_draft else None  # a draft model at hand is none of this run
        return msgspec.structs.replace(infos, draft=draft, parts=outfit.parts(self.session.drafter))

    def begin(self) -> None:
        """Write `header` and `prefill`, so that a paused run shows its prompt. `rounds()` does it otherwise."""
        if self._begun:
            return
        self._begun = True
        self._n_threads = torch.get_num_threads()
        _use_threads(threads_of(self.start.lanes, self._n_threads))
        self.probe.emit(self.header(), 0)
        with self._ending():
            self._preface()
            self.session.prefill()

    def _preface(self) -> None:
        """What stands between header and prompt: a warning about the lanes, what passes cost on this machine."""
        if self.choice.warning is not None:
            self.probe.emit(Warn(code="lanes", message=self.choice.warning), 0)
        drafter = self.session.drafter
        if self.start.level != "none" and outfit.wants_calibration(drafter):
            costs = calibrate(self.session.parts.models, drafter)
            if costs is not None:
                self.probe.emit(costs, 0)

    def rounds(self) -> Iterator[Round]:
        """Decode; every event reaches the sink, `end` last, whatever happens."""
        self.begin()
        with self._ending():
            rounds = self.session.rounds()
            while not self._stop_asked and (done := next(rounds, None)) is not None:
                yield done
            self._end(self._stop_asked if self._stop_asked and self.session.finish is None else "done")

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
        """Hand an event on. Totals count what was told: an interrupt may fall between a commit and its records."""
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
        "python": platform.python_version(), "torch": str(torch.__version__), "transformers": transformers.__version__,
        "machine": platform.machine(), "system": platform.system(), "threads": torch.get_num_threads(),
        "started_ns": time.perf_counter_ns(),
    }  # fmt: skip
