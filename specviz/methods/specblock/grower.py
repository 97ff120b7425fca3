"""One round's calls of the block network, and the tree that grows from what they say.

Block 1 was spoken when the new pairs became rows; each further block is one call for all its starts.

Siblings as draws without replacement, each with the law it was really drawn from (specblock.md 6.4).

The law is formed by the target's own processors, over the whole vocabulary. A verifier that tests siblings by p/q in
the order they were drawn keeps the target's law and, on flat rows, more tokens than any fixed set of siblings could.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import torch

from specviz.engine.decode.context import Context
from specviz.engine.decode.draft_tree import DraftTree
from specviz.events import six
from specviz.methods.common.draft_sampler import DraftSampler, without_replacement
from specviz.methods.specblock.files import Trained
from specviz.methods.specblock.growth import GrowingTree, Pick
from specviz.methods.specblock.ranks import RoundPlan, TargetRanks
from specviz.methods.trained.block_runner import BlockCall, BlockRunner
from specviz.methods.trained.calls import BlockStart, CallCache
from specviz.methods.trained.ranked_tokens import offers, order
from specviz.methods.trained.ranks import N_TOP, Offer, bucket, ranks
from specviz.methods.trained.vocabulary import Vocabulary
from specviz.names import DraftEnd
from specviz.probability.draft import ROOT, Draft

Tensor = torch.Tensor


class TreeGrower(BlockRunner):
    """Lets what the blocks say grow the tree. `oracle`: widths go by its ranks.

    `learning`: what the calls said is looked at when the round is over, recorded or not.
    """

    def __init__(
        self,
        ctx: Context,
        plan: RoundPlan,
        trained: Trained,
        calls: CallCache,
        growth: GrowingTree,
        oracle: TargetRanks | None = None,
        learning: bool = False,
    ) -> None:
        super().__init__(ctx, calls)
        self.plan, self.trained, self.growth = plan, trained, growth
        self.oracle, self.wanted = oracle, learning or ctx.level != "none"

    def _starts(self, block: int) -> list[tuple[int, BlockStart]]:
        found = self.growth.starts() if block <= self.plan.blocks else []
        nodes = [self.growth.nodes[each.node] for each in found]
        return [
            (each.node, self._start(node.token, node.depth, each.start, each.slot))
            for each, node in zip(found, nodes, strict=True)
        ]

    def _offer(self, level: Sequence[BlockCall], h: Tensor) -> bool:
        """Let one call's slots `[B, K, width]` offer their tokens at the nodes they started from."""
        ctx, plan, vocabulary = self.ctx, self.plan, self.trained.vocabulary
        spoken = self.trained.network.speak(h[:, : plan.slots])
        paths = [self.growth.path(made.node) for made in level]
        found = offers(ctx, vocabulary, spoken, paths, plan.ranks)
        if found is None:
            return False
        if plan.drawn:
            found = [
                [replace(offer, logits=row) for offer, row in zip(block, rows, strict=True)]
                for block, rows in zip(found, spoken[0], strict=True)
            ]
        if self.oracle is not None:
            found = [self._judged(*each) for each in zip(level, paths, found, spoken[0], strict=True)]
        for k, (made, each) in enumerate(zip(level, found, strict=True)):
            self.growth.expand(made.node, len(self.made) + k, made.block, each)
            if self.wanted:
                made.logits, made.h = spoken[0][k], h[k]
                made.order = order(ctx, vocabulary, paths[k])
        return True

    def _judged(self, made: BlockCall, path: list[int], block: list[Offer], logits: Tensor) -> list[Offer]:
        """A block's offers with their true buckets, as far down as nodes may stand."""
        assert self.oracle is not None
        spine = [offer.tokens[0] for offer in block]
        n = min(len(block), self.plan.growing.deepest - made.start.depth)
        best = self.oracle.best([(*path, *spine[:slot]) for slot in range(n)])
        place, known = self.trained.vocabulary.find(torch.tensor(best, device=logits.device))
        offered = order(self.ctx, self.trained.vocabulary, path)
        scores = logits[:n] if offered is None else offered(logits[:n])
        rank = ranks(scores, place).masked_fill(~known, logits.shape[-1] + N_TOP).tolist()
        return [replace(o, true_bucket=bucket(r)) for o, r in zip(block, rank, strict=False)] + block[n:]


def drafted(tree: DraftTree, growth: GrowingTree, plan: RoundPlan, grower: TreeGrower) -> Draft:
    """The pruned tree as a draft; nodes carry where they came from."""
    full = plan.ranks.full
    spread = grower.trained.vocabulary.spread
    said = [spread(made.logits) if full and made.logits is not None else None for made in grower.made]
    rows = [said[each.start] for each in growth.expansions]  # siblings must hold the very same row
    raws = [None if row is None else row[each.slot] for row, each in zip(rows, growth.expansions, strict=True)]
    kept = growth.kept()
    place = {ROOT: ROOT}
    for number in range(len(growth.nodes)) if grower.wanted else kept:  # pruned ones are for the record
        node = growth.nodes[number]
        expansion = growth.expansions[node.expansion]
        src = {
            "block": expansion.block,
            "slot": expansion.slot,
            "rank": node.rank,
            "cum": six(node.cum),
            "merged": node.merged,
            "spine": node.is_spine,
            "start": node.start,
            "expansion": node.expansion,
        }
        drawn = node.law is not None
        place[number] = tree.add(
            node.token,
            place[node.parent],
            node.law,
            None if drawn else expansion.offer.logs[node.rank - 1],
            "sampled" if drawn else "argmax",
            raws[node.expansion],
            src=src,
        )
    deepest = max((node.depth for node in growth.nodes), default=0)
    end: DraftEnd = (
        "budget" if len(kept) < len(growth.nodes) else "depth" if deepest == plan.growing.deepest else "full"
    )
    return tree.draft(end, keep=[place[number] for number in kept])


class SiblingDraws:
    """One round's draws; stands for `growth.Draw`."""

    def __init__(self, ctx: Context, vocabulary: Vocabulary) -> None:
        self.ctx, self.vocabulary = ctx, vocabulary
        self._sampler = DraftSampler(ctx, "sampled")

    def __call__(self, path: Sequence[int], offer: Offer, n: int) -> list[Pick]:
        """`n` siblings below the node that `path` leads to, fewer when the law has no more tokens."""
        warper = self.ctx.warper
        prefixes = [[*self.ctx.tokens, *path]] if warper.needs_prefix else None
        whole = warper.laws(self.vocabulary.spread(offer.logits[None]), prefixes)[0]
        drawn = without_replacement(whole, n, lambda law: self._sampler.token(len(path) + 1, law))
        return [Pick(token, math.log(max(float(whole[token]), 1e-300)), law) for token, law in drawn]
