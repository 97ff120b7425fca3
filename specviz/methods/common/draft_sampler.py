"""Children drawn one after another below the nodes of a draft, each with the law it was really drawn from.

With replacement every child comes from its parent's law. Without, from what its elder siblings left of it: their
entries removed, the rest renormalised; sequential draws of that kind are Gumbel top-k, one uniform each. Where nothing
is drawn (temperature 0, mode argmax) children are the most likely tokens in turn, whatever `replacement` says: the
limit of draws without it, and a second copy of a certain token could only waste a row.
"""

from dataclasses import dataclass, field

import torch

from specviz.engine.decode.context import Context
from specviz.engine.decode.draft_tree import Tree
from specviz.engine.model.rows import Tensor
from specviz.methods.common.runner import Expander, laws, prefixes
from specviz.names import Mode
from specviz.probability.draft import ROOT
from specviz.probability.rows import Certain, Row

LEAST = 1e-30  # mass below which nothing is left to draw; a quotient by it is still exact in float32


class Sampler:
    """Draws the tokens of a round's nodes; the draws of a depth are numbered in the order they are made."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self._ordinals: dict[int, int] = {}

    def token(self, depth: int, law: Row) -> int:
        """A node's token at a tree depth, from `law` `[V]`."""
        ordinal = self._ordinals[depth] = self._ordinals.get(depth, -1) + 1
        self.ctx.counters.n_syncs += 1
        return self.ctx.draw("draft", depth, law, ordinal).token


@dataclass(slots=True)
class Place:
    """An expanded node. `law`: of its next child, None when nothing is left; `ranked`: its best tokens, if not drawn"""

    logits: Tensor  # [V]
    law: Row | None
    ranked: list[int] = field(default_factory=list)


class Grower:
    """Grows one draft level by level. `open` is one forward, `child` one draw."""

    def __init__(self, ctx: Context, drafts: Expander, mode: Mode, most: int, replacement: bool) -> None:
        self.ctx, self.drafts, self.tree = ctx, drafts, Tree(ctx)
        self.is_drawn = mode == "sampled" and not ctx.warper.greedy
        self.most, self.replacement = most, replacement
        self.places: dict[int, Place] = {}
        self._sampler = Sampler(ctx)

    def open(self, nodes: list[int]) -> None:
        """Run the draft model on nodes that are to have children; the same node may be named several times."""
        new = [node for node in dict.fromkeys(nodes) if node not in self.places]
        if not new:
            return
        logits = self.drafts.begin(self.ctx) if new == [ROOT] else self.drafts.expand(self.ctx, self.tree, new)
        if self.is_drawn:
            rows = laws(self.ctx, self.tree, new, logits)
            self.places |= {node: Place(logits[k], rows[k]) for k, node in enumerate(new)}
            return
        scores = self.ctx.warper.allowed(logits, prefixes(self.ctx, self.tree, new))
        best = scores.topk(min(self.most, scores.shape[-1]), -1)
        self.ctx.counters.n_syncs += 1
        for k, node in enumerate(new):
            self.places[node] = Place(logits[k], None, best.indices[k].tolist())

    def child(self, parent: int) -> int | None:
        """The next child of an opened node; None when no token is left for one."""
        place = self.places[parent]
        if not self.is_drawn:
            if not place.ranked:
                return None
            return self.tree.add(place.ranked.pop(0), parent, None, None, "argmax", place.logits)
        if place.law is None:
            return None
        token = self._sampler.token(self.tree.depth(parent) + 1, place.law)
        node = self.tree.add(token, parent, place.law, None, "sampled", place.logits)
        if not self.replacement:
            place.law = without(place.law, token)
        return node


def without(law: Row, token: int) -> Row | None:
    """The law `[V]` once a token is struck out, renormalised; None when nothing is left."""
    if isinstance(law, Certain):
        return None
    left: torch.Tensor = law.clone()
    left[token] = 0.0
    mass = left.sum()
    return left / mass if float(mass) > LEAST else None
