"""The drafter: what followed the last token when it stood there before, and a guess at how much of it will be kept."""

from specviz.engine.decode.context import Context
from specviz.engine.decode.draft_tree import DraftTree
from specviz.engine.decode.drafter import Drafter
from specviz.engine.model.adapter import FactoryModels
from specviz.knobs import Knobs
from specviz.probability.draft import ROOT, Draft
from toy.record import Guess


class Echo(Drafter):
    """Guesses that of a token's echo as many tokens are kept as the text has had that token before."""

    def propose(self, ctx: Context) -> Draft:
        tree, node = DraftTree(ctx), ROOT
        *before, last = ctx.tokens
        places = [place for place, token in enumerate(before) if token == last]
        if places:
            start = places[-1] + 1
            for token in ctx.tokens[start : start + min(ctx.knobs["most"], ctx.reach)]:
                node = tree.add(token, node)
                if tree.ends(node):
                    break
        if ctx.level != "none":
            ctx.note(Guess(n=min(len(places), len(tree))))
        return tree.draft("full" if places else "no_match")


def make(models: FactoryModels, knobs: Knobs) -> Echo:
    return Echo()
