"""The draft model as drafters use it: its cache, and one forward for all the nodes of a level."""

from collections.abc import Sequence
from typing import Any

from specviz.engine.decode.context import Context
from specviz.engine.decode.draft_tree import DraftTree
from specviz.engine.decode.drafter import Drafter
from specviz.engine.model.adapter import FactoryModels, Model
from specviz.engine.model.cache import KVCache
from specviz.engine.model.rows import BLOCK, Rows, Tensor, fill
from specviz.probability.draft import ROOT


class DraftModelRunner:
    """The draft model with its cache. Rows of one round are a tree over the text; each call is one forward."""

    def __init__(self, model: Model, capacity: int) -> None:
        self.model = model
        self.cache: KVCache = model.new_cache(capacity)
        self.rows: Rows | None = None
        self.row_of: dict[int, int] = {}

    def reach(self, ctx: Context) -> int:
        """Longest path worth drafting: what the text has room for, and the draft model positions.

        The last drafted token is not fed to it. Past its context it drafts nothing, and the text goes on without.
        """
        return max(0, min(ctx.reach, self.model.context - ctx.n + 1))

    def begin(self, ctx: Context) -> Tensor:
        """Feed what the cache lacks of the text, the root last; the root's logits `[1, V]`."""
        missing = fill(self.model, self.cache, ctx.tokens[:-1], leave=BLOCK)
        self.rows = Rows(self.model, self.cache)
        self.row_of = {ROOT: self.rows.add_line([*missing, ctx.tokens[-1]])}
        ctx.counters.n_draft_calls += 1
        return self.rows.take(1)

    def expand(self, ctx: Context, tree: DraftTree, nodes: Sequence[int]) -> Tensor:
        """The logits `[nodes, V]` after nodes whose parents were expanded before; one forward for all of them."""
        assert self.rows is not None
        for node in nodes:
            self.row_of[node] = self.rows.add(tree.token(node), self.row_of[tree.parent(node)])
        ctx.counters.n_draft_calls += 1
        return self.rows.take()


class ModelDrafter(Drafter):
    """What every layout drafted by a second model shares. A layout is a `propose`.

    Nothing is learnt from a round: the cache follows the text at the next proposal.
    """

    def __init__(self, models: FactoryModels) -> None:
        assert models.draft is not None
        self.drafts = DraftModelRunner(models.draft, models.capacity)

    def cached(self) -> int | None:
        """Committed slots of the draft model's cache."""
        return self.drafts.cache.length


def prefixes(ctx: Context, tree: DraftTree, nodes: Sequence[int]) -> list[list[int]] | None:
    """The text before the row after each node, where a row depends on it."""
    return [[*ctx.tokens, *tree.path(node)] for node in nodes] if ctx.warper.needs_prefix else None


def laws(ctx: Context, tree: DraftTree, nodes: Sequence[int], logits: Tensor) -> Any:
    """Draft laws `[nodes, V]` after each node, by the target's own processors."""
    return ctx.warper.laws(logits, prefixes(ctx, tree, nodes))
