"""Which tokens become a round's nodes: draws with a key each, most likely tokens, or draws with the target's own noise.

What a token is chosen by is known before it is drawn and goes on record with it, so drawn drafts keep their law.
"""

from collections.abc import Callable
from typing import Any

import torch

from specviz.engine.decode.context import Context
from specviz.engine.decode.draft_tree import DraftTree
from specviz.engine.model.rows import Tensor
from specviz.methods.common.runner import laws, prefixes
from specviz.methods.common.top_k import RowConfidence
from specviz.names import Mode
from specviz.probability.rows import Certain, Row

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
            return int(law.argmax())
        if self.mode == "shared":
            return self.ctx.draw("target", depth, law).token
        ordinal = self._ordinals[depth] = self._ordinals.get(depth, -1) + 1
        return self.ctx.draw("draft", depth, law, ordinal).token

    def add(self, tree: DraftTree, parent: int, token: int, law: Row | None, raw: Tensor, **facts: Any) -> int:
        """The node of a chosen token. `law` None: it was fixed, not drawn; `raw`: the draft's logits `[V]`."""
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
            token = int(ctx.warper.allowed(logits, prefixes(ctx, tree, [parent]))[0].argmax())
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
    return left / mass if float(mass) > LEAST else None
