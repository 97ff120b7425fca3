"""`Context`: what a drafter is given in a round (`Tree` builds its draft), and `Observation`, what it learns after.

`Taps`: the target's hidden states a drafter asked for, one row for every new token.

Layers are numbered as in the library's `output_hidden_states`: 0 the embedding, l after layer l, the last one after the
final norm. The row of a token is the one whose logits produced it: that of the token before it, whether that one was
the root or an accepted draft. States are kept as they pass by, nothing is computed for them but the final norm.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from specviz.engine.decode.sampling import Warper
from specviz.engine.model.rows import Rows, Tensor
from specviz.events import Event, Level
from specviz.events.round import Finish
from specviz.knobs import Knobs
from specviz.probability.draft import Carry, Draft
from specviz.probability.draws import Drawn, Stream
from specviz.probability.plan import Draws, Outcome
from specviz.probability.rows import Row
from specviz.probability.rows import Rows as LawRows

__all__ = ["Context", "Counters", "Drafter", "Observation"]


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
    rows: Rows
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
    features: dict[int, Tensor] = field(default_factory=dict)
    target_probs: LawRows | None = None  # [n_fed + 1, V], the law; None after the prefill
    logits: Tensor | None = None  # [n_fed + 1, V], the same rows raw
    finish: Finish | None = None
    target_ns: int = 0  # of the target's pass


class Drafter(Protocol):
    """Proposes drafts, with a cache of its own if it has a model. `observe` records; only `propose` reads knobs.

    Optional besides: `meanwhile(ctx, draft) -> Draft`, which runs beside the target's pass and may add nodes behind
    `n_fed`, and nothing else; `newest_only = True`, features of the newest token alone; `aborted()`, told after a
    round that came to nothing, whose number and draws are used again; `ended(query) -> events`, told when a query is
    over; `next_query(models, knobs) -> Drafter`, who goes on in the next one; `spent(knobs)`, knobs that ask for
    something once, and the values they return to; `version`, of the weights.
    """

    taps: tuple[int, ...]  # layers of the target it wants to see: 0 the embedding, n_layers behind the final norm

    def propose(self, ctx: Context) -> Draft: ...
    def observe(self, seen: Observation) -> None: ...
    def cached(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Taps:
    """Which layers are wanted. `newest_only`: of the newest token alone, so features are `[1, width]`."""

    layers: tuple[int, ...] = ()
    newest_only: bool = False

    @classmethod
    def of(cls, drafter: Any, n_layers: int) -> "Taps":
        """What a drafter asks for with `taps` and, if it has it, `newest_only`."""
        layers = tuple(sorted(set(getattr(drafter, "taps", ()))))
        assert all(0 <= layer <= n_layers for layer in layers), f"taps {layers} of a target with {n_layers} layers"
        return cls(layers, bool(getattr(drafter, "newest_only", False)))

    def read(self, rows: Rows, wanted: Sequence[int]) -> dict[int, Tensor]:
        """The states `[len(wanted), width]` of some rows; of the last of them only where that is enough."""
        chosen = wanted[-1:] if self.newest_only else wanted
        return {layer: rows.states(layer, chosen) for layer in self.layers} if chosen else {}

    def path(self, rows: Rows, root: int, accepted: Sequence[int], n_new: int) -> dict[int, Tensor]:
        """Features of a round's `n_new` committed tokens: the root's row, then those of the accepted nodes."""
        return self.read(rows, [root, *(root + 1 + node for node in accepted)][:n_new]) if self.layers else {}

    def of_prompt(self, rows: Rows, prompt: Sequence[int]) -> Observation | None:
        """What a block of the prefill shows, in the shape of a round: the tokens after its rows.

        None for the blocks before the last where only the newest row is wanted.
        """
        first, n = rows.first, len(rows)
        if self.newest_only and first + n < len(prompt) - 1:
            return None
        return Observation(tuple(prompt[first + 1 : first + n + 1]), Draft(), None, self.read(rows, range(n)))
