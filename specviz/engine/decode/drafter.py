"""`Drafter`: the base class of all drafters, a hook for each moment of a run, and what hooks are told (`QueryEnd`).

`FeatureTaps`: the target's hidden states a drafter asked for, one row for every new token. Layers are numbered as in
the library's `output_hidden_states`: 0 the embedding, l after layer l, the last one after the final norm. The row of a
token is the one whose logits produced it: that of the token before it, whether that one was the root or an accepted
draft. States are kept as they pass by, and nothing is computed for them before they are read.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specviz.cost.ledger import Clock
from specviz.engine.decode.context import Context, Observation
from specviz.engine.decode.round import QueryStats
from specviz.engine.model.adapter import FactoryModels
from specviz.engine.model.rows import ForwardBatch, States
from specviz.events import Event
from specviz.knobs import Knobs, KnobSpec
from specviz.probability.draft import Draft


class Drafter(ABC):
    """Proposes drafts, with a cache of its own if it has a model. Only `propose` reads knobs; the rest is optional."""

    taps: tuple[int, ...] = ()  # layers of the target it wants to see: 0 the embedding, n_layers behind the final norm
    newest_only: bool = False  # of the observed states, those of the newest token are enough
    overlaps: bool = False  # `draft_ahead` has something to do
    clock: Clock | None = None  # what layers and head tests cost here, of one that climbs the target's own layers

    @property
    def version(self) -> int:
        """Version of the weights, counted up by what is learnt while serving."""
        return 0

    @property
    def ahead(self) -> bool:
        """Whether tokens that it drafted ahead wait for the next round: that one then asks it, pausing or not."""
        return False

    @property
    def calibrated(self) -> bool:
        """Whether a recorded run should say what passes cost on this machine."""
        return self.clock is not None

    @abstractmethod
    def propose(self, ctx: Context) -> Draft:
        """The draft of a round."""

    def draft_ahead(self, ctx: Context, draft: Draft) -> Draft:
        """The draft with what was added beside the target's pass: nodes behind `n_fed`, and nothing else."""
        return draft

    def observe(self, seen: Observation) -> None:  # noqa: B027
        """Learn from a finished round or a block of the prefill; events of the round may still be noted.

        A round may be over for which nothing was proposed (`draft_end` pausing).
        """

    def on_abort(self) -> None:  # noqa: B027
        """Forget an interrupted round: its number and its draws are used again."""

    def cached(self) -> int | None:
        """Committed slots of its own cache; None: it has none."""
        return None

    def fitted(self, spec: KnobSpec) -> KnobSpec:
        """A knob with the range and default that the loaded models give it."""
        return spec

    def parts(self) -> Mapping[str, str]:
        """Trained parts by name, in words, for the header."""
        return {}

    def reset_knobs(self, knobs: Knobs) -> Mapping[str, Any]:
        """Knobs that request a single action (such as a reset), with the values they return to for the next query."""
        return {}

    def on_query_end(self, query: "QueryEnd") -> Sequence[Event]:
        """Learn from a finished query; returns the events to record about it."""
        return ()

    def next_query(self, models: FactoryModels, knobs: Knobs) -> "Drafter | None":
        """The drafter of the next query; None: a new one is made."""
        return None


class OverlappingDrafter(Drafter):
    """A drafter that works on while the target judges: lanes are chosen for it, and their costs recorded."""

    overlaps = True
    calibrated = True

    @abstractmethod
    def draft_ahead(self, ctx: Context, draft: Draft) -> Draft: ...


@dataclass(frozen=True, slots=True)
class QueryEnd:
    """The query, the knobs as they stand for the next one, and a way to know what it would be like with a drafter.

    `next_length(drafter)`: mean acceptance length of the next query; None where there is none, and as a value when the
    query could not be decoded to its end.
    """

    query: int
    knobs: Knobs
    served: QueryStats
    domain: str = ""
    first_token: int = 0
    next_length: Callable[[Drafter], float | None] | None = None


@dataclass(frozen=True, slots=True)
class FeatureTaps:
    """Which layers are wanted. `newest_only`: of the newest token alone, so features are `[1, width]`."""

    layers: tuple[int, ...] = ()
    newest_only: bool = False

    @classmethod
    def of(cls, drafter: Drafter | None, n_layers: int) -> "FeatureTaps":
        """The taps that a drafter needs."""
        if drafter is None:
            return cls()
        layers = tuple(sorted(set(drafter.taps)))
        assert all(0 <= layer <= n_layers for layer in layers), f"taps {layers} of a target with {n_layers} layers"
        return cls(layers, drafter.newest_only)

    def read(self, rows: ForwardBatch, wanted: Sequence[int]) -> States:
        """The states of some rows; of the last of them only where that is enough."""
        chosen = wanted[-1:] if self.newest_only else wanted
        return States({layer: rows.states(layer, chosen) for layer in self.layers if chosen}, rows.model)

    def path(self, rows: ForwardBatch, root: int, accepted: Sequence[int], n_new: int) -> States:
        """Features of a round's `n_new` committed tokens: the root's row, then those of the accepted nodes."""
        return self.read(rows, [root, *(root + 1 + node for node in accepted)][:n_new])

    def of_prompt(self, rows: ForwardBatch, prompt: Sequence[int]) -> Observation | None:
        """What a block of the prefill shows, in the shape of a round: the tokens after its rows.

        None for the blocks before the last where only the newest row is wanted.
        """
        first, n = rows.first, len(rows)
        if self.newest_only and first + n < len(prompt) - 1:
            return None
        return Observation(tuple(prompt[first + 1 : first + n + 1]), Draft(), None, self.read(rows, range(n)))
