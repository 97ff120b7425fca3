"""The drafter: a chain of the last token, and a guess at how much of it will be kept."""

from itertools import takewhile

from specviz.engine.decode.context import Context
from specviz.engine.decode.draft_tree import DraftTree
from specviz.engine.decode.drafter import Drafter
from specviz.engine.model.adapter import FactoryModels
from specviz.knobs import Knobs
from specviz.probability.draft import ROOT, Draft
from toy.record import Guess


class Echo(Drafter):
    """Guesses that a token which stands there k times in a row comes k - 1 times more."""

    def propose(self, ctx: Context) -> Draft:
        tree, last, node = DraftTree(ctx), ctx.tokens[-1], ROOT
        for _ in range(min(ctx.knobs["times"], ctx.reach)):
            node = tree.add(last, node)
            if tree.ends(node):
                break
        if ctx.level != "none":
            again = sum(1 for _ in takewhile(last.__eq__, reversed(ctx.tokens))) - 1
            ctx.note(Guess(n=min(again, len(tree))))
        return tree.draft("full")


def make(models: FactoryModels, knobs: Knobs) -> Echo:
    return Echo()
