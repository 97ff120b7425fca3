"""`dflash`: a chain out of one call, as long as the product of its confidences stays above a bound.

How long the chain is, is settled before any token of it is drawn. The places behind its end were filled as well: they
go on record as pruned.
"""

from specviz.engine.decode.context import Context
from specviz.engine.decode.draft_tree import DraftTree
from specviz.engine.model.adapter import FactoryModels, ModelAdapter
from specviz.events import DraftStep, Warn, six
from specviz.knobs import Knobs
from specviz.methods.common.runner import DraftSampler
from specviz.methods.common.top_k import RowConfidence, numbers
from specviz.methods.dflash.network import KIND, Trained, block_behind
from specviz.methods.trained.layers import Tensor
from specviz.methods.trained.pair_drafter import PairDrafter, read_by
from specviz.methods.trained.ranks import wide
from specviz.names import DraftEnd, Mode
from specviz.probability.draft import ROOT, Draft
from specviz.probability.host import fetch


class MaskedBlock(PairDrafter):
    """Drafts for one query; the network is shared by all."""

    def __init__(self, trained: Trained, adapter: ModelAdapter, mode: Mode = "argmax") -> None:
        super().__init__(trained, adapter)
        self.trained, self.mode = trained, mode

    def parts(self) -> dict[str, str]:
        return {"drafter": KIND.tell(self.trained, f"blocks of {self.trained.config.slots}")}

    def propose(self, ctx: Context) -> Draft:
        """Fill a block, and hand over what of it is sure."""
        tree, most = DraftTree(ctx), min(ctx.knobs["gamma"], self.trained.config.slots)
        length = min(most, ctx.reach)
        if (why := self.hindered(ctx, most, length)) is not None:
            return tree.draft(why)
        self.text.root()
        states = block_behind(self.trained.network, self.text.calls, ctx.tokens[-1])
        ctx.counters.n_draft_calls += 1
        looks, chances = self._look(ctx, states[:length])
        if not all(0 < look.raw <= 1 and 0 <= chance <= 1 for look, chance in zip(looks, chances, strict=True)):
            ctx.note(Warn(code="draft_not_finite", message="the block's numbers are not finite: nothing drafted"))
            return tree.draft("no_match")
        end: DraftEnd = self._verified(ctx, tree, looks, chances) or ("full" if length == most else "length")
        kept = range(len(tree))
        if ctx.level != "none" and end == "low_conf":
            for look in looks[len(tree) :]:
                tree.add(look.top1, _last(tree), log_conf=look.log_raw, raw=look.logits[0])
        return tree.draft(end, keep=kept, shared=self.mode == "shared" and not ctx.warper.greedy)

    def _look(self, ctx: Context, states: Tensor) -> tuple[list[RowConfidence], list[float]]:
        """What places say by their states `[n, width]`, and how probable it is that all up to each are kept."""
        network = self.trained.network
        logits = wide(network.head_logits(states))
        chances = wide(network.sureness(states, logits)).sigmoid().cumprod(0)
        spread = self.trained.vocabulary.spread(logits)
        ctx.counters.n_syncs += 2
        facts, sure = fetch(numbers(spread, 1.0, ctx.level == "full"), chances)
        return RowConfidence.from_numbers([*range(len(states))], 0, spread, 1.0, facts), sure

    def _verified(
        self, ctx: Context, tree: DraftTree, looks: list[RowConfidence], chances: list[float]
    ) -> DraftEnd | None:
        """Grow the chain that is verified; why it ended before the looks did."""
        sampler, bound = DraftSampler(ctx, self.mode), ctx.knobs["confidence"]
        for look, chance in zip(looks, chances, strict=True):
            unsure = chance < bound
            node = None if unsure else sampler.after(tree, _last(tree), look)
            if ctx.level != "none":
                place = None if node is None else tree.node(node).id
                entropy = None if look.entropy is None else six(look.entropy)
                pos = ctx.n + look.row
                ctx.note(DraftStep(pos=pos, node=place, conf=six(chance), bound=bound, stopped=unsure, entropy=entropy))
            if node is None:
                return "low_conf"
            if tree.ends(node):
                return "stop_token"
        return None


def _last(tree: DraftTree) -> int:
    return len(tree) - 1 if len(tree) else ROOT


def make(models: FactoryModels, knobs: Knobs) -> MaskedBlock:
    """The drafter of method `dflash`. Raises ModelError where there is none for the target."""
    target = read_by("dflash", models.target)
    return MaskedBlock(KIND.pick(target, " ".join(knobs["drafter"]) or None), target, knobs["draft_mode"])
