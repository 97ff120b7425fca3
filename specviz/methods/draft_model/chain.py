"""One drafted chain: up to gamma tokens in a row (Leviathan et al. 2023).

Each token is drawn from the draft law (`sampled`), its most likely one (`argmax`), or drawn with the target's own
noise (`shared`): then only `walk` may judge it, and the text is that of plain decoding at every temperature although
the draft was sampled. By `race` a shared token equals the target's with probability at least (1 - TV)/(1 + TV).
"""

from specviz.engine.decode.context import Context, Models, Tree
from specviz.engine.model.rows import Tensor
from specviz.knobs import Knobs
from specviz.methods.common.runner import ModelDrafter, laws
from specviz.names import DraftEnd, Mode
from specviz.probability.draft import ROOT, Draft
from specviz.probability.rows import Certain


class Chain(ModelDrafter):
    """Up to gamma drafted tokens in a row."""

    def __init__(self, models: Models, mode: Mode) -> None:
        super().__init__(models)
        self.mode: Mode = mode

    def propose(self, ctx: Context) -> Draft:
        """A chain of at most `gamma` tokens, cut to the room and at a stop token (kept, not fed).

        In a carried round nothing is drafted: the verifier asks for the draft law after the root alone.
        """
        tree, node = Tree(ctx), ROOT
        if ctx.carry is not None:
            return tree.carried(laws(ctx, tree, [ROOT], self.drafts.begin(ctx))[:1], ctx.carry)
        length = min(ctx.knobs["gamma"], self.drafts.reach(ctx))
        while len(tree) < length and not tree.ends(node):
            logits = self.drafts.begin(ctx) if node == ROOT else self.drafts.expand(ctx, tree, [node])
            node = self._draw(ctx, tree, node, logits)
        end: DraftEnd = "stop_token" if tree.ends(node) else "full" if length == ctx.knobs["gamma"] else "length"
        return tree.draft(end, shared=self.mode == "shared" and not ctx.warper.greedy, planned=length)

    def _draw(self, ctx: Context, tree: Tree, parent: int, logits: Tensor) -> int:
        law = laws(ctx, tree, [parent], logits)[0]
        depth = tree.depth(parent) + 1
        ctx.counters.n_syncs += 1
        if isinstance(law, Certain) or self.mode == "argmax":
            token = law.token if isinstance(law, Certain) else int(law.argmax())
            return tree.add(token, parent, None, None, "argmax", logits[0])
        token = ctx.draw("target" if self.mode == "shared" else "draft", depth, law).token
        return tree.add(token, parent, law, None, self.mode, logits[0])


class Sps(Chain):
    """The chain of method `sps`, whose lanes are looked at beside those of the pipelines."""

    calibrated = True


def make(models: Models, knobs: Knobs) -> Sps:
    """The drafter of method `sps`."""
    return Sps(models, knobs["draft_mode"])
