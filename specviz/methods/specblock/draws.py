"""Siblings as draws without replacement, each with the law it was really drawn from (specblock.md 6.4).

The law is formed by the target's own processors, over the whole vocabulary. A verifier that tests siblings by p/q in
the order they were drawn keeps the target's law and, on flat rows, more tokens than any fixed set of siblings could.
"""

import math
from collections.abc import Sequence

from specviz.engine.decode.context import Context
from specviz.methods.common.draft_sampler import Sampler, without
from specviz.methods.specblock.growth import Offer, Pick
from specviz.methods.trained.vocabulary import Vocabulary


class SiblingDraws:
    """One round's draws; stands for `growth.Draw`."""

    def __init__(self, ctx: Context, vocabulary: Vocabulary) -> None:
        self.ctx, self.vocabulary = ctx, vocabulary
        self._sampler = Sampler(ctx)

    def __call__(self, path: Sequence[int], offer: Offer, n: int) -> list[Pick]:
        """`n` siblings below the node that `path` leads to, fewer when the law has no more tokens."""
        warper = self.ctx.warper
        prefixes = [[*self.ctx.tokens, *path]] if warper.needs_prefix else None
        whole = left = warper.laws(self.vocabulary.spread(offer.logits[None]), prefixes)[0]
        picks: list[Pick] = []
        while left is not None and len(picks) < n:
            token = self._sampler.token(len(path) + 1, left)
            picks.append(Pick(token, math.log(max(float(whole[token]), 1e-300)), left))
            left = without(left, token)
        return picks
