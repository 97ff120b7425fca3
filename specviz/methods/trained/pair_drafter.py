"""What drafters share that read the text as pairs: a token, and the target's states of the one before it."""

from abc import ABC
from typing import Any

from specviz.cost.row_cost import recent
from specviz.engine.decode.context import Context, Observation
from specviz.engine.decode.drafter import Drafter
from specviz.engine.model.adapter import ModelAdapter
from specviz.errors import ModelError
from specviz.methods.trained.calls import PairBuffer
from specviz.methods.trained.parts import Trained
from specviz.names import DraftEnd


class PairDrafter(Drafter, ABC):
    """Drafts for one query; the network is shared by all. `text`: the pairs, and the network's calls over them."""

    def __init__(self, trained: Trained[Any, Any], adapter: ModelAdapter) -> None:
        self.taps = trained.config.taps
        self.text = PairBuffer(trained.network, adapter.embedding, self.taps, recent(adapter.device.type))

    def observe(self, seen: Observation) -> None:
        """Keep the new pairs for the next call."""
        self.text.observe(seen)

    def cached(self) -> int | None:
        """Committed pairs."""
        return self.text.calls.pairs

    def hindered(self, ctx: Context, budget: int, deepest: int) -> DraftEnd | None:
        """Why a round has no draft at all: no token may be drafted, none fits, or no target row has been seen yet (a
        prompt of one token). None where it can have one."""
        if not budget:
            return "budget"
        if deepest < 1:
            return "length"
        return None if self.text.ready(ctx.n) else "no_match"


def read_by(method: str, target: object) -> ModelAdapter:
    """A target whose hidden states a method reads. Raises ModelError for one that has none."""
    if not isinstance(target, ModelAdapter):
        raise ModelError(f"{method} reads hidden states of its target: it needs a model, not a table")
    return target
