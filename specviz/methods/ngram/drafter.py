"""Prompt lookup: the draft is what followed the last earlier match of the text's own suffix.

Needs no model, so it costs nothing and pays where text repeats itself (Saxena 2023, "prompt lookup decoding").
Longest suffix first; of several matches the latest.
"""

from collections.abc import Sequence

from specviz.engine.decode.context import Context
from specviz.engine.decode.draft_tree import DraftTree
from specviz.engine.decode.drafter import Drafter
from specviz.engine.model.adapter import FactoryModels
from specviz.knobs import Knobs
from specviz.probability.draft import ROOT, Draft


class Ngram(Drafter):
    """Copies up to gamma tokens: the text itself is the table."""

    def propose(self, ctx: Context) -> Draft:
        """A chain of point masses, empty when no suffix occurred before."""
        tree, knobs = DraftTree(ctx), ctx.knobs
        length = min(knobs["gamma"], ctx.reach)
        size, start = lookup(ctx.tokens, knobs["ngram_max"], knobs["ngram_min"])
        node = ROOT
        for token in ctx.tokens[start : start + length] if size else ():
            node = tree.add(token, node, src={"ngram": size, "match": start - size})
            if tree.ends(node):
                return tree.draft("stop_token")
        if not size:
            return tree.draft("no_match")
        return tree.draft("full" if len(tree) == knobs["gamma"] else "length")


def lookup(tokens: Sequence[int], longest: int, shortest: int) -> tuple[int, int]:
    """`(n-gram size, index after the match)` of the latest earlier match of the longest suffix; size 0 when none."""
    text = list(tokens)
    for size in range(min(longest, len(text) - 1), shortest - 1, -1):
        suffix = text[-size:]
        for start in range(len(text) - size - 1, -1, -1):
            if text[start : start + size] == suffix:
                return size, start + size
    return 0, 0


def make(models: FactoryModels, knobs: Knobs) -> Ngram:
    return Ngram()
