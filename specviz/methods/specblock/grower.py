"""One round of the block network: its knobs as read for it, its calls, and the tree that grows from what they say.

Block 1 was spoken when the new pairs became rows; each further block is one call for all its starts.

`width_mode oracle` reads true ranks off the target before the tree is grown, to see what the rank head can be worth at
most. It costs a target pass more for every drafter call, over a cache of its own; it looks at the target's rows, not at
the draws that decide, so even here the text is that of plain decoding.

Sampled siblings are draws without replacement, each with the law it was really drawn from, which the
target's own processors form over the whole vocabulary. A verifier that tests siblings by p/q in the order they were
drawn keeps the target's law and, on flat rows, more tokens than any fixed set of siblings could.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import torch

from specviz.engine.decode.context import Context
from specviz.engine.decode.draft_tree import DraftTree
from specviz.engine.model.adapter import Model
from specviz.engine.model.host import to_device
from specviz.engine.model.rows import BLOCK, ForwardBatch, fill
from specviz.engine.row_stats import entries
from specviz.events import six
from specviz.knobs import Knobs
from specviz.methods.common.knobs import ints, reals
from specviz.methods.common.runner import DraftSampler, without_replacement
from specviz.methods.common.tree_size import TreeCost
from specviz.methods.specblock.growth import PRESETS, ChosenToken, GrowingTree, GrowthKnobs, Widths
from specviz.methods.specblock.network import BlockConfig, Trained
from specviz.methods.specblock.recorder import best_tokens
from specviz.methods.trained.calls import BlockCall, BlockRunner, BlockStart, CallCache
from specviz.methods.trained.ranks import N_TOP, RankReading, SlotCandidates, bucket, offers, order, ranks
from specviz.methods.trained.vocabulary import Vocabulary
from specviz.names import DraftEnd
from specviz.probability.draft import ROOT, Draft
from specviz.probability.host import fetch


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """What this round does: how the tree grows, how ranks are read, how many blocks run and slots are looked at.

    `drawn`: siblings are draws; `oracle`: widths go by true ranks. `notices`: what a person should know, by code.
    """

    growing: GrowthKnobs
    ranks: RankReading
    blocks: int
    slots: int
    drawn: bool = False
    oracle: bool = False
    notices: dict[str, str] = field(default_factory=dict)


def read(knobs: Knobs, trained: BlockConfig, reach: int, full: bool, cost: TreeCost | None = None) -> RoundPlan:
    """`reach`: no node deeper than that is of use. Blocks that depth leaves no room for are not run. `cost`: of a
    round, for a tree that is as large as pays; drawn siblings have rules of their own, and widths by true ranks show
    what the whole preset could be."""
    preset = PRESETS[knobs["preset"]]
    used = min(knobs["slots_used"] or trained.slots, trained.slots)
    wanted = knobs["d_max"] if knobs["d_max"] >= 0 else used * knobs["blocks"]
    deepest = min(wanted, reach, used * knobs["blocks"])
    sizes = ints("widths", knobs["widths"]) or preset.widths
    trims = {"on": True, "off": False}.get(knobs["trims"], preset.trims)
    cap = knobs["w_max"]
    fixed = max(1, min(sizes[1], cap)) if knobs["width_mode"] == "fixed" else None
    rule = Widths((sizes[0], sizes[1], sizes[2], sizes[3]), knobs["k_max"], cap, trims, fixed)
    budget = preset.budget if knobs["node_budget"] < 0 else knobs["node_budget"]
    drawn, oracle = knobs["siblings"] == "sampled" and knobs["temperature"] > 0, knobs["width_mode"] == "oracle"
    pays = None if knobs["node_budget"] >= 0 or drawn or oracle else cost
    return RoundPlan(
        GrowthKnobs(rule, deepest, knobs["merge"], knobs["start_cap"], budget, pays, used),
        RankReading(reals("bucket_bias", knobs["bucket_bias"]), knobs["rank_temp"], full),
        blocks=math.ceil(deepest / used),
        slots=used,
        drawn=drawn,
        oracle=oracle,
        notices=notices(knobs, trained, used),
    )


def notices(knobs: Knobs, trained: BlockConfig, used: int) -> dict[str, str]:
    """By code: what is clamped, what is beyond the training, what costs more than it seems."""
    out: dict[str, str] = {}
    blocks, depth = knobs["blocks"], used * knobs["blocks"]
    if knobs["slots_used"] > trained.slots:
        out["slots_clamped"] = f"slots_used {knobs['slots_used']}: the drafter has {trained.slots}, which are all used"
    if knobs["d_max"] > depth:
        out["depth_clamped"] = (
            f"d_max {knobs['d_max']}: {blocks} x {used} slots reach {depth}; raise blocks to go deeper"
        )
    if blocks > trained.trained_blocks:
        out["blocks_beyond_training"] = (
            f"blocks {blocks}: the drafter was trained for {trained.trained_blocks}; later ones guess badly"
        )
    if knobs["width_mode"] == "oracle":
        out["oracle_widths"] = (
            "width_mode oracle: the target says the true ranks before drafting, a pass more for every drafter call; "
            "times mean nothing and nothing is learnt"
        )
    return out


Path = tuple[int, ...]


class TargetRanks:
    """The target's best token behind drafted paths. `room`: most paths a round may ask for."""

    def __init__(self, target: Model, capacity: int, room: int) -> None:
        self.model, self.cache = target, target.new_cache(capacity + room)

    def open(self, ctx: Context) -> None:
        missing = fill(self.model, self.cache, ctx.tokens[:-1], leave=BLOCK)
        self._ctx, self._rows = ctx, ForwardBatch(self.model, self.cache)
        self._row: dict[Path, int] = {(): self._rows.add_line([*missing, ctx.tokens[-1]])}
        self._best: dict[Path, int] = {}

    def best(self, paths: Sequence[Path]) -> list[int]:
        """One target pass for all paths that are new, and for those on the way to them: a drawn token leads where no
        path went before."""
        through = {path[:n] for path in paths for n in range(len(path) + 1)}
        new = sorted((path for path in through if path not in self._best), key=lambda path: (len(path), path))
        for path in new:
            if path:
                self._row[path] = self._rows.add(path[-1], self._row[path[:-1]])
        if new:
            logits = self._rows.take(len(new))
            prefixes = [[*self._ctx.tokens, *path] for path in new] if self._ctx.warper.needs_prefix else None
            laws = self._ctx.warper.laws(logits, prefixes)
            self._best |= zip(new, best_tokens(laws, range(len(new))), strict=True)
        return [self._best[path] for path in paths]


Tensor = torch.Tensor


class TreeGrower(BlockRunner):
    """Grows the tree by the offers of the blocks. `oracle`: widths go by its ranks.

    `learning`: the calls' offers are kept until the round is over, recorded or not.
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
        starts = self.growth.starts() if block <= self.plan.blocks else []
        nodes = [self.growth.nodes[start.node] for start in starts]
        return [
            (start.node, self._start(node.token, node.depth, start.start, start.slot))
            for start, node in zip(starts, nodes, strict=True)
        ]

    def _offer(self, level: Sequence[BlockCall], h: Tensor) -> bool:
        """Let one call's slots `[B, K, width]` offer their tokens at the nodes they started from."""
        ctx, plan, vocabulary = self.ctx, self.plan, self.trained.vocabulary
        network = self.trained.network
        normed, logits = self.calls.norm_and_head(h[:, : plan.slots], network.norm_and_head)
        paths = [self.growth.path(call.node) for call in level]
        offered = offers(ctx, vocabulary, logits, partial(network.judged, normed), paths, plan.ranks)
        if offered is None:
            return False
        if plan.drawn:
            offered = [
                [replace(offer, logits=row) for offer, row in zip(block, rows, strict=True)]
                for block, rows in zip(offered, logits, strict=True)
            ]
        if self.oracle is not None:
            offered = [self._judged(*parts) for parts in zip(level, paths, offered, logits, strict=True)]
        for k, (call, parts) in enumerate(zip(level, offered, strict=True)):
            self.growth.expand(call.node, len(self.made) + k, call.block, parts)
            if self.wanted:
                call.logits, call.h = logits[k], h[k]
                call.order = order(ctx, vocabulary, paths[k])
        return True

    def _judged(
        self, call: BlockCall, path: list[int], block: list[SlotCandidates], logits: Tensor
    ) -> list[SlotCandidates]:
        """A block's offers with their true buckets, as far down as nodes may stand."""
        assert self.oracle is not None
        spine = [offer.tokens[0] for offer in block]
        n = min(len(block), self.plan.growing.deepest - call.start.depth)
        best = self.oracle.best([(*path, *spine[:slot]) for slot in range(n)])
        place, known = self.trained.vocabulary.find(to_device(best, logits.device))
        offered = order(self.ctx, self.trained.vocabulary, path)
        scores = logits[:n] if offered is None else offered(logits[:n])
        (rank,) = fetch(ranks(scores, place).masked_fill(~known, logits.shape[-1] + N_TOP))
        return [replace(o, true_bucket=bucket(r)) for o, r in zip(block, rank, strict=False)] + block[n:]


def drafted(tree: DraftTree, growth: GrowingTree, plan: RoundPlan, grower: TreeGrower) -> Draft:
    """The pruned tree as a draft; nodes carry where they came from."""
    full = plan.ranks.full
    spread = grower.trained.vocabulary.spread
    raws = [spread(call.logits) if full and call.logits is not None else None for call in grower.made]
    rows = [raws[slot.start] for slot in growth.expansions]  # siblings must hold the very same row
    raws = [None if row is None else row[slot.slot] for row, slot in zip(rows, growth.expansions, strict=True)]
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
    """The keyed random draws of one round's siblings; implements `growth.Draw`."""

    def __init__(self, ctx: Context, vocabulary: Vocabulary) -> None:
        self.ctx, self.vocabulary = ctx, vocabulary
        self._sampler = DraftSampler(ctx, "sampled")

    def __call__(self, path: Sequence[int], offer: SlotCandidates, n: int) -> list[ChosenToken]:
        """`n` siblings below the node that `path` leads to, fewer when the law has no more tokens."""
        warper = self.ctx.warper
        prefixes = [[*self.ctx.tokens, *path]] if warper.needs_prefix else None
        whole = warper.laws(self.vocabulary.spread(offer.logits[None]), prefixes)[0]
        drawn = without_replacement(whole, n, lambda law: self._sampler.token(len(path) + 1, law))
        probs = entries(whole, [token for token, _ in drawn])
        return [ChosenToken(token, math.log(max(p, 1e-300)), law) for (token, law), p in zip(drawn, probs, strict=True)]
