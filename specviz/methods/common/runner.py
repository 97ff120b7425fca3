"""The draft model as drafters use it, and which of its tokens become a round's nodes.

`DraftModelRunner` has its cache and runs one forward for all the nodes of a level. `DraftSampler` chooses: draws with a
key each, most likely tokens, or draws with the target's own noise. What a token is chosen by is known before it is
drawn and goes on record with it, so drawn drafts keep their law.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from specviz.engine.decode.context import Context
from specviz.engine.decode.draft_tree import DraftTree
from specviz.engine.decode.drafter import Drafter
from specviz.engine.decode.sampling import finite, require
from specviz.engine.model.adapter import FactoryModels, Model, ModelAdapter
from specviz.engine.model.cache import KVCache
from specviz.engine.model.rows import BLOCK, ForwardBatch, Tensor, fill
from specviz.methods.common.top_k import RowConfidence
from specviz.names import Mode
from specviz.probability.draft import ROOT
from specviz.probability.host import fetch
from specviz.probability.rows import Certain, Row


class DraftModelRunner:
    """The draft model with its cache. Rows of one round are a tree over the text; each call is one forward."""

    def __init__(self, model: Model, capacity: int) -> None:
        self.model = model
        self.cache: KVCache = model.new_cache(capacity)
        self.rows: ForwardBatch | None = None
        self.row_of: dict[int, int] = {}

    def reach(self, ctx: Context) -> int:
        """Longest path worth drafting: what the text has room for, and the draft model positions.

        The last drafted token is not fed to it. Past its context it drafts nothing, and the text goes on without.
        """
        return max(0, min(ctx.reach, self.model.context - ctx.n + 1))

    def begin(self, ctx: Context) -> Tensor:
        """Feed what the cache lacks of the text, the root last; the root's logits `[1, V]`.

        A twin of the target in fewer bits reads the keys and values that the target has computed anyway (as QuantSpec
        does): nothing of the text is fed to it, and it sees what the target saw.
        """
        text = ctx.tokens[:-1]
        if isinstance(self.model, ModelAdapter) and self.model.reads_cache_of(ctx.rows.model):
            self.cache.borrow(ctx.rows.cache, text, self.model.dtype)
        missing = fill(self.model, self.cache, text, leave=BLOCK)
        self.rows = ForwardBatch(self.model, self.cache)
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


LEAST = 1e-30  # mass below which nothing is left to draw; a quotient by it is still exact in float32


class DraftSampler:
    """The tokens of one round, by `mode`. The draws of a depth are numbered in the order they are made."""

    def __init__(self, ctx: Context, mode: Mode) -> None:
        self.ctx, self.mode = ctx, mode
        self._ordinals: dict[int, int] = {}

    def token(self, depth: int, law: Row) -> int:
        """The token of a node at a tree depth, under `law` `[V]`."""
        if isinstance(law, Certain):
            return law.token
        self.ctx.counters.n_syncs += 1
        if self.mode == "argmax":
            (token,), (top,) = fetch(law.argmax(0, keepdim=True), law.amax(0, keepdim=True))
            require([math.isfinite(top)])
            return int(token)
        if self.mode == "shared":
            return self.ctx.draw("target", depth, law).token
        ordinal = self._ordinals[depth] = self._ordinals.get(depth, -1) + 1
        return self.ctx.draw("draft", depth, law, ordinal).token

    def add(self, tree: DraftTree, parent: int, token: int, law: Row | None, raw: Tensor | None, **facts: Any) -> int:
        """The node of a chosen token. `law` None: it was fixed, not drawn; `raw`: the draft's logits `[V]`, if any."""
        drawn = law is not None and not isinstance(law, Certain) and self.mode != "argmax"
        return tree.add(token, parent, law if drawn else None, mode=self.mode if drawn else "argmax", raw=raw, **facts)

    def after(self, tree: DraftTree, parent: int, row: RowConfidence) -> int:
        """The node after a row whose best token is known: a law is formed only where one is drawn from."""
        ctx, logits = self.ctx, row.logits
        if self.mode != "argmax" and not ctx.warper.greedy:
            law = laws(ctx, tree, [parent], logits)[0]
            return self.add(tree, parent, self.token(tree.depth(parent) + 1, law), law, logits[0])
        token = row.top1
        if ctx.warper.needs_prefix or ctx.warper.banned:
            scores = ctx.warper.scores(logits, prefixes(ctx, tree, [parent]))
            (token,), sound = fetch(scores.argmax(-1), finite(scores))
            require(sound)
            ctx.counters.n_syncs += 1
        log_conf = row.log_raw if token == row.top1 else None
        return self.add(tree, parent, token, None, logits[0], log_conf=log_conf)


def without_replacement(law: Row | None, n: int, draw: Callable[[Row], int]) -> list[tuple[int, Row]]:
    """`n` tokens drawn one after another, each with the law `[V]` that the ones before left; fewer if none is left.

    Sequential draws of that kind are Gumbel top-k, one uniform each.
    """
    out: list[tuple[int, Row]] = []
    while law is not None and len(out) < n:
        token = draw(law)
        out.append((token, law))
        law = without(law, token)
    return out


def without(law: Row, *tokens: int) -> Row | None:
    """The law `[V]` once tokens are struck out, renormalised; None when nothing is left."""
    if isinstance(law, Certain):
        return None if law.token in tokens else law
    left: torch.Tensor = law.clone()
    for token in tokens:
        left[token] = 0.0
    mass = left.sum()
    return left / mass if fetch(mass)[0] > LEAST else None
