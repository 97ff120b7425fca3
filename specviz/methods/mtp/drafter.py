"""`mtp`: a chain, a call of the layer for every token of it.

Call 0 reads the new pairs of the text and gives the first token's law; every further call reads the token that was
drafted and the layer's own output. Rows of drafted tokens are dropped when the round is over, because the target's
states are what committed text is read by.
"""

from collections.abc import Sequence

from specviz.engine.decode.context import Context
from specviz.engine.decode.draft_tree import DraftTree
from specviz.engine.model.adapter import FactoryModels, ModelAdapter
from specviz.events import DraftStep, Warn, six
from specviz.knobs import Knobs
from specviz.methods.common.runner import DraftSampler
from specviz.methods.common.top_k import RowConfidence
from specviz.methods.mtp.network import KIND, Trained
from specviz.methods.trained.calls import BlockCall, BlockRunner, BlockStart, CallCache
from specviz.methods.trained.layers import Tensor
from specviz.methods.trained.pair_drafter import PairDrafter, read_by
from specviz.methods.trained.ranks import wide
from specviz.names import DraftEnd, Mode
from specviz.probability.draft import ROOT, Draft


class Mtp(PairDrafter):
    """Drafts for one query; the layer is shared by all."""

    def __init__(self, trained: Trained, adapter: ModelAdapter, mode: Mode = "argmax") -> None:
        super().__init__(trained, adapter)
        self.trained, self.mode = trained, mode

    def parts(self) -> dict[str, str]:
        return {"drafter": KIND.tell(self.trained, self.trained.config.origin)}

    def propose(self, ctx: Context) -> Draft:
        """Token by token, until one is unsure."""
        tree, most = DraftTree(ctx), ctx.knobs["gamma"]
        length = min(most, ctx.reach)
        if (why := self.hindered(ctx, most, length)) is not None:
            return tree.draft(why)
        runner = _ChainRunner(ctx, self.trained, self.text.calls, tree, self.mode, length)
        if not runner.grow(self.text.root()):
            ctx.note(Warn(code="draft_not_finite", message="the layer's numbers are not finite: nothing more drafted"))
            return tree.draft("no_match")
        end: DraftEnd = runner.end or ("full" if length == most else "length")
        return tree.draft(end, shared=self.mode == "shared" and not ctx.warper.greedy)


class _ChainRunner(BlockRunner):
    """A row a token. `end`: why the chain ended before it was `length` long."""

    def __init__(
        self, ctx: Context, trained: Trained, calls: CallCache, tree: DraftTree, mode: Mode, length: int
    ) -> None:
        super().__init__(ctx, calls)
        self.trained, self.tree, self.length = trained, tree, length
        self.sampler = DraftSampler(ctx, mode)
        self.end: DraftEnd | None = None

    def _starts(self, block: int) -> list[tuple[int, BlockStart]]:
        node = len(self.tree) - 1
        if self.end is not None or len(self.tree) == self.length:
            return []
        return [(node, self._start(self.tree.token(node), len(self.tree), node, 0))]

    def _offer(self, level: Sequence[BlockCall], h: Tensor) -> bool:
        """The next token by the states `[1, 1, width]` of the newest row, unless its best one is unsure."""
        ctx, tree, bound = self.ctx, self.tree, self.ctx.knobs["p_min"]
        _, spoken = self.calls.norm_and_head(h[:, 0], self.trained.network.norm_and_head)
        logits = self.trained.vocabulary.spread(wide(spoken))
        look = RowConfidence.at(0, 0, logits, 1.0, ctx.level == "full")
        ctx.counters.n_syncs += 1
        if not 0 < look.raw <= 1:  # a NaN among them
            return False
        node = None
        if look.raw < bound:
            self.end = "low_conf"
        else:
            node = self.sampler.after(tree, len(tree) - 1 if len(tree) else ROOT, look)
            self.end = "stop_token" if tree.ends(node) else None
        if ctx.level != "none":
            self._note(look, node, bound)
        return True

    def _note(self, look: RowConfidence, node: int | None, bound: float) -> None:
        drawn = node is not None
        self.ctx.note(
            DraftStep(
                pos=self.ctx.n + len(self.tree) - drawn,
                node=None if node is None else self.tree.node(node).id,
                conf=six(look.raw),
                bound=bound,
                stopped=not drawn,
                entropy=None if look.entropy is None else six(look.entropy),
            )
        )


def make(models: FactoryModels, knobs: Knobs) -> Mtp:
    """The drafter of method `mtp`. Raises ModelError where there is none for the target."""
    target = read_by("mtp", models.target)
    return Mtp(KIND.pick(target, " ".join(knobs["drafter"]) or None), target, knobs["draft_mode"])
