"""`Context`: what a drafter is given in a round (`Tree` builds its draft), and `Observation`, what it learns after."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from specviz.engine.decode.sampling import Warper
from specviz.engine.model.rows import ForwardBatch, States, Tensor
from specviz.events import Event, Level
from specviz.events.round import Finish
from specviz.knobs import Knobs
from specviz.probability.draft import Carry, Draft
from specviz.probability.draws import Drawn
from specviz.probability.philox import Stream
from specviz.probability.plan import Draws, Outcome
from specviz.probability.rows import Row, Rows


@dataclass(slots=True)
class Counters:
    """What a round counts as it goes."""

    next_id: int = 0
    n_draft_calls: int = 0
    n_syncs: int = 0


@dataclass(slots=True)
class Context:
    """One round as a drafter sees it. `n` = committed length; the root is token n-1, uncached.

    `room`: most tokens this round can emit (a hint: the cut is the session's). `rows`: the target's rows, already
    open, so a drafter may climb them; `root_row` is the root's.
    """

    tokens: Sequence[int]
    room: int
    knobs: Knobs
    warper: Warper
    keys: Draws
    rows: ForwardBatch
    root_row: int
    eos: frozenset[int]
    level: Level
    counters: Counters
    carry: Carry | None = None
    facts: list[Event] = field(default_factory=list)

    @property
    def n(self) -> int:
        """Committed length."""
        return len(self.tokens)

    @property
    def reach(self) -> int:
        """Most tokens worth drafting on one path: one place is the closing token's."""
        return max(0, self.room - 1)

    def note(self, fact: Event) -> None:
        """Record a fact of this round (gates, signals, branches); written by the probe in order."""
        self.facts.append(fact)

    def draw(self, stream: Stream, depth: int, row: Row, index: int = 0) -> Drawn:
        """A keyed draw of the token at tree depth `depth` (children of the root: 1)."""
        return self.keys.draw(stream, self.n - 1 + depth, row, index)


@dataclass(frozen=True, slots=True)
class Observation:
    """What a drafter learns after a round (and after the prefill, in the same shape).

    `features[tap]` `[n, width]`: row i is the one whose logits decided `tokens[i]`. `finish`: the text ended with this
    round, so nothing that is still open will be judged.
    """

    tokens: tuple[int, ...]  # new tokens, after the cut
    draft: Draft
    outcome: Outcome | None
    features: States = field(default_factory=lambda: States({}))
    target_probs: Rows | None = None  # [n_fed + 1, V], the law; None after the prefill
    logits: Tensor | None = None  # [n_fed + 1, V], the same rows raw
    finish: Finish | None = None
    target_ns: int = 0  # of the target's pass
