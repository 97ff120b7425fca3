"""Our arms: a `Session` over the loaded pair, watched at a level or by nobody.

Without a level nothing is decoded to text and no event is made, as in the library's loops. Level none decodes the text
and counts, as any run does. From there on all that a live run does with a round is timed: records, and their encoding
to lines, a round at a time as a core that is watched writes them.
"""

import time
from collections.abc import Callable
from typing import Any

import msgspec

from specviz.cost.ledger import Clock
from specviz.cost.pausing import Pausing
from specviz.engine.decode.overlap_choice import choose
from specviz.engine.decode.round import RoundResult
from specviz.engine.decode.session import Session, SessionConfig
from specviz.engine.decode.text_output import Texts
from specviz.engine.model.adapter import FactoryModels
from specviz.engine.record.probe import Probe
from specviz.engine.run import prepare
from specviz.engine.run.local import TOPK, Pair, small
from specviz.events import SCHEMA, VERSION, Event, Header, Level
from specviz.events.batch import LineBatch
from specviz.knobs import Knobs
from specviz.methods import pick_verifier
from specviz_lab.bench.measure import Split, Tokens
from specviz_lab.bench.settings import BenchSettings, Contestant

STAGES = ("draft", "target", "verdict", "commit", "other")


class OurArm:
    """One of our methods. The verifier is the arm's, or the method's default for the temperature."""

    def __init__(self, contestant: Contestant, settings: BenchSettings, pair: Pair) -> None:
        self.name, self.level, self.pair, self.lanes = contestant.name, contestant.level, pair, settings.lanes
        self.method, self.knobs = settings.method_knobs(contestant.kind, dict(contestant.knobs))
        self.verifier = pick_verifier(self.method, contestant.verifier, self.knobs)
        self.texts = Texts(pair.target.tokenizer)
        auto = settings.auto and not contestant.knobs and not small(pair.target)
        self.pausing = Pausing() if auto else None  # goes on from run to run
        self.used_lanes = "serial"  # those of the last session
        self.clock: Clock | None = None  # of a drafter that climbs the target's layers, once a session was made

    @property
    def keeps_tokens(self) -> bool:
        """Whether the text is that of plain decoding, token for token."""
        return self.verifier.keeps_tokens or self.knobs["temperature"] == 0

    def session(self, prompt: Tokens, n: int, seed: int) -> Session:
        """A fresh session, watched as the arm says."""
        return self._session(prompt, n, seed, self.level, LineBatch(lambda lines: None).take)

    def _session(self, prompt: Tokens, n: int, seed: int, level: Level | None, emit: Callable[[Any], Any]) -> Session:
        """No end tokens, so that every run writes exactly n."""
        knobs = Knobs({**self.knobs.values, "max_new_tokens": n, "seed": seed})
        draft = self.pair.draft.adapter if self.pair.draft else None
        models = FactoryModels(self.pair.target.adapter, draft, len(prompt) + n + prepare.in_flight(self.method, knobs))
        drafter = prepare.make_drafter(self.method, models, knobs)
        self.clock = drafter.clock if drafter else None
        table, knobs = prepare.fitted(self.method.table, drafter, knobs.values)
        lanes = choose(self.lanes, models, drafter).lanes
        self.used_lanes = lanes.name
        parts = SessionConfig(models, drafter, self.verifier, lanes, self.pausing)
        if level is None:
            return Session(parts, prompt, table, knobs)
        return Session(parts, prompt, table, knobs, texts=self.texts, sink=Probe(emit, self.texts, level, TOPK))

    def records(self, prompt: Tokens, n: int, seed: int) -> list[Event]:
        """The records of a run at level summary, header first, kept in memory; nothing of it is timed."""
        out: list[Event] = [self._header()]
        self._session(prompt, n, seed, "summary", out.append).generate()
        return out

    def _header(self) -> Header:
        infos = self.pair.infos  # a draft model that the method does not use is not part of its runs
        infos = infos if self.method.needs_draft else msgspec.structs.replace(infos, draft=None)
        own = {spec.name for spec in self.method.own}
        values = self.knobs.values
        return Header(
            schema=SCHEMA,
            v=VERSION,
            run="bench",
            wall="",
            method=self.method.name,
            drafter=self.method.name,
            verifier=self.verifier.name,
            lanes=self.used_lanes,
            lossless=self.verifier.lossless,
            keeps_tokens=self.verifier.keeps_tokens,
            models=infos,
            knobs={name: value for name, value in values.items() if name in own},
            knob_specs=[],
            sampling={name: value for name, value in values.items() if name not in own},
            level="summary",
            method_traits=self.method.traits,
            verifier_traits=self.verifier.traits,
        )

    def ready(self, prompt: Tokens, n: int, seed: int) -> Callable[[], Tokens]:
        """The run, its session made inside the timed part."""
        return lambda: self.session(prompt, n, seed).generate()

    def split(self, prompt: Tokens, n: int, seed: int) -> Split:
        """A run round by round; what lies between the end of a round and the next is the probe's."""
        session, out = self.session(prompt, n, seed), Split()
        for done in session.rounds():
            stages = _stages(done, time.perf_counter_ns() if self.level else done.ended_ns)
            out.n_rounds += 1
            out.n_tokens += len(done.tokens)
            out.n_drafted += done.draft.n_drafted
            out.n_accepted += done.n_accepted
            out.n_draft_calls += done.n_draft_calls
            if done.draft.is_chain and self.verifier.traits.direction == "forward":
                out.chains.append((done.draft.n_drafted, done.n_accepted))
            out.rounds.append(stages)
        out.rounds = out.rounds[1:]
        return out


def _stages(done: RoundResult, now: int) -> dict[str, float]:
    total = done.ended_ns - done.started_ns
    named = {name: done.clock.ns.get(name, 0) for name in STAGES}
    named["other"] += max(0, total - sum(named.values()))
    return {name: ns / 1e6 for name, ns in {**named, "probe": now - done.ended_ns}.items()}
