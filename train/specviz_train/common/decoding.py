"""What decoding with a part costs and gains, found by decoding with it: production sessions over some prompts.

Counts depend on weights and prompts alone. `predicted_ns` prices the same rounds by this machine's measured clock, so
that two settings can be compared while the machine is busy; `seconds` are what the wall said.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from specviz.cost.ledger import Clock
from specviz.engine.decode.drafter import Drafter
from specviz.engine.decode.round import RoundResult
from specviz.engine.decode.session import Session, SessionConfig
from specviz.engine.model.adapter import FactoryModels, Model
from specviz.methods import get_method
from specviz.verifiers import get_verifier

_SLACK = 600  # slots of a cache besides the text
TURNS = 3
Prompts = Sequence[Sequence[int]]
Make = Callable[[FactoryModels], Drafter | None]  # a drafter of its own for every prompt


@dataclass(slots=True)
class Decoded:
    """Sums over rounds. `tested[k]`, `kept[k]`: rounds whose draft k+1 was reached, and kept.

    `drafting_ns`, `rounds_ns`: of all rounds; `seconds`: whole runs, without their prefill.
    """

    tokens: int = 0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    draft_calls: int = 0
    layer_calls: int = 0
    cells: int = 0
    predicted_ns: float = 0.0
    drafting_ns: int = 0
    rounds_ns: int = 0
    seconds: float = 0.0
    tested: list[int] = field(default_factory=lambda: [0] * 16)
    kept: list[int] = field(default_factory=lambda: [0] * 16)

    def __add__(self, other: "Decoded") -> "Decoded":
        out = Decoded()
        for attribute in fields(Decoded):
            mine, theirs = getattr(self, attribute.name), getattr(other, attribute.name)
            both = [a + b for a, b in zip(mine, theirs, strict=True)] if isinstance(mine, list) else mine + theirs
            setattr(out, attribute.name, both)
        return out

    def take(self, done: RoundResult, clock: Clock | None) -> None:
        n, kept = len(done.draft), done.n_accepted
        self.tokens += len(done.tokens)
        self.rounds += 1
        self.drafted += n
        self.accepted += kept
        self.draft_calls += done.n_draft_calls
        self.drafting_ns += done.clock.ns.get("draft", 0)
        self.rounds_ns += done.ended_ns - done.started_ns
        widths = [call.n_rows for call in done.ledger for _ in range(call.lo, call.hi + 1)]
        self.layer_calls += len(widths)
        self.cells += sum(widths)
        for k in range(min(n, kept + (not done.cut), 16)):
            self.tested[k] += 1
            self.kept[k] += k < kept
        if clock is not None:
            self.predicted_ns += clock.round_ns(widths, len(done.ledger), done.n_draft_calls, done.draft.n_fed + 1)

    @property
    def tokens_per_round(self) -> float:
        """Tokens committed a round, the target's own counted."""
        return self.tokens / max(1, self.rounds)

    def by_position(self) -> list[float]:
        """Share kept of the drafts at position 1, 2, .. that were reached; as far as there were any."""
        return [kept / tested for kept, tested in zip(self.kept, self.tested, strict=True) if tested]


def n_texts(minutes: float, most: int, minutes_each: float) -> int:
    """How many texts of each domain are decoded after a training of so many minutes, which that should not outlast."""
    return min(most, math.ceil(minutes / minutes_each))


def decode(
    target: Model,
    make: Make,
    method: str,
    prompts: Prompts,
    n_new: int,
    clock: Clock | None = None,
    query: int = 0,
    draft: Model | None = None,
    **knobs: Any,
) -> Decoded:
    """Decode every prompt, at temperature 0 unless `knobs` say otherwise; what it took.

    `query`: what draws are keyed by besides the seed, where there are any.
    """
    table, out = get_method(method).table, Decoded()
    for prompt in prompts:
        models = FactoryModels(target, draft, len(prompt) + n_new + _SLACK)
        parts = SessionConfig(models, make(models), get_verifier("walk"))
        session = Session(parts, prompt, table, table.knobs({"max_new_tokens": n_new, **knobs}), query=query)
        session.prefill()
        began = time.perf_counter()
        for done in session.rounds():
            out.take(done, clock)
        out.seconds += time.perf_counter() - began
    return out


def gain(plain: Callable[[Prompts], Decoded], other: Callable[[Prompts], Decoded], prompts: Prompts) -> float:
    """How many times faster `other` decodes a token by the wall: every prompt at its best of `TURNS`, in turn about."""
    seconds, tokens = [0.0, 0.0], [0, 0]
    for prompt in prompts:
        turns = [[decoder([prompt]) for decoder in (plain, other)] for _ in range(TURNS)]
        for k in range(2):
            best = min((turn[k] for turn in turns), key=lambda decoded: decoded.seconds)
            seconds[k] += best.seconds
            tokens[k] += best.tokens
    return seconds[0] / tokens[0] / (seconds[1] / tokens[1])
