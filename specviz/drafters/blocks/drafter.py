"""`specblock`: the block network drafts, predicted ranks shape the tree, the target verifies it (specblock.md 9).

One call appends the pairs that were just committed and speaks block 1; each further block is one call for all its
starts. The drafter is a memo: whatever it says, whichever weights or knobs it has, `walk` writes the target's text. A
call whose numbers are not finite drafts nothing that round and says so.
"""

import time

import torch

from specviz.draft import ROOT, Draft
from specviz.drafters.blocks.calls import Calls, Link, Start
from specviz.drafters.blocks.facts import Facts, Made
from specviz.drafters.blocks.files import KIND, Trained
from specviz.drafters.blocks.follow import Follower
from specviz.drafters.blocks.growth import Candidate, Growth
from specviz.drafters.blocks.offers import offers
from specviz.drafters.blocks.reading import Round, read
from specviz.engine.context import Context, Models, Observation, Tree
from specviz.engine.model import ModelAdapter
from specviz.errors import ModelError
from specviz.events import Warn, six
from specviz.knobs import Knobs
from specviz.names import DraftEnd

Tensor = torch.Tensor


class SpecBlock:
    """Drafts for one query; the network is shared by all."""

    def __init__(self, trained: Trained, adapter: ModelAdapter) -> None:
        self.trained, self.network = trained, trained.network
        self.taps: tuple[int, ...] = trained.config.taps
        self.text = Follower(trained.network, adapter.embedding, self.taps)
        self.facts: Facts | None = None
        self._warned = False

    def observe(self, seen: Observation) -> None:
        """Keep the new pairs for the next call, and complete what is on record of this round."""
        if self.facts is not None and seen.outcome is not None:
            self.facts.judge(seen)
        self.facts = None
        self.text.observe(seen)

    def cached(self) -> int | None:
        """Committed pairs."""
        return self.text.calls.pairs

    def propose(self, ctx: Context) -> Draft:
        """Block 1, the further blocks, prune."""
        tree, plan = Tree(ctx), read(ctx.knobs, self.network.shape.slots, ctx.reach, ctx.level == "full")
        if not plan.growing.budget or plan.growing.deepest < 1:
            return tree.draft("budget" if not plan.growing.budget else "length")
        if not self.text.ready(ctx.n):
            return tree.draft("no_match")  # no target row has been seen yet: a prompt of one token
        self._warn_beyond(ctx, plan)
        growth = Growth(plan.growing, lambda token: token in ctx.eos)
        grower = Grower(ctx, plan, self.trained, self.text.calls, growth)
        if not grower.grow(self.text.root()):
            ctx.note(Warn(code="draft_not_finite", message="the drafter's numbers are not finite: nothing drafted"))
            return tree.draft("no_match")
        draft = drafted(tree, growth, plan, grower)
        if ctx.level != "none":
            self.facts = Facts(growth, draft, self.trained.vocabulary, grower.made)
            self.facts.note(ctx)
        return draft

    def _warn_beyond(self, ctx: Context, plan: Round) -> None:
        trained = self.trained.config.trained_blocks
        if plan.blocks > trained and not self._warned:
            self._warned = True
            message = f"{plan.blocks} blocks a round, the drafter was trained for {trained}: later ones guess badly"
            ctx.note(Warn(code="blocks_beyond_training", message=message))


class Grower:
    """Runs one round's calls and lets what they say grow the tree."""

    def __init__(self, ctx: Context, plan: Round, trained: Trained, calls: Calls, growth: Growth) -> None:
        self.ctx, self.plan, self.trained, self.calls, self.growth = ctx, plan, trained, calls, growth
        self.made: list[Made] = []

    def grow(self, root: Tensor) -> bool:
        """All levels; False when a number was not finite."""
        began = time.perf_counter_ns()
        level = [Made(ROOT, 1, Start(self.ctx.tokens[-1], 0, ()), self.calls.first_row)]
        if not self._offer(level, root[None], began):
            return False
        for block in range(2, self.plan.blocks + 1):
            found = self.growth.starts()
            if not found:
                break
            began = time.perf_counter_ns()
            starts = [self._start(candidate) for candidate in found]
            h, rows = self.calls.later(starts)
            level = [
                Made(candidate.node, block, start, row)
                for candidate, start, row in zip(found, starts, rows, strict=True)
            ]
            if not self._offer(level, h, began):
                return False
        return True

    def _start(self, found: Candidate) -> Start:
        node, offered = self.growth.nodes[found.node], self.made[found.start]
        return Start(node.token, node.depth, (*offered.start.chain, Link(offered.block, offered.row, found.slot)))

    def _offer(self, level: list[Made], h: Tensor, began: int) -> bool:
        """Let one call's slots `[B, K, width]` offer their tokens at the nodes they started from."""
        ctx, plan = self.ctx, self.plan
        ctx.counters.n_draft_calls += 1
        spoken = self.trained.network.speak(h[:, : plan.slots])
        paths = [self.growth.path(made.node) for made in level]
        found = offers(ctx, self.trained.vocabulary, spoken, paths, plan.ranks)
        if found is None:
            return False
        took = time.perf_counter_ns() - began
        for k, (made, each) in enumerate(zip(level, found, strict=True)):
            self.growth.expand(made.node, len(self.made), made.block, each)
            made.logits = spoken[0][k] if ctx.level != "none" else None
            made.kv_len, made.batch, made.dur_ns = self.calls.kv_len, len(level), 0 if k else took
            self.made.append(made)
        return True


def drafted(tree: Tree, growth: Growth, plan: Round, grower: Grower) -> Draft:
    """The pruned tree as a draft; nodes carry where they came from."""
    full = plan.ranks.full
    spread = grower.trained.vocabulary.spread
    said = [spread(made.logits) if full and made.logits is not None else None for made in grower.made]
    rows = [said[each.start] for each in growth.expansions]  # siblings must hold the very same row
    raws = [None if row is None else row[each.slot] for row, each in zip(rows, growth.expansions, strict=True)]
    for node in growth.nodes:
        expansion = growth.expansions[node.expansion]
        src = {
            "block": expansion.block, "slot": expansion.slot, "rank": node.rank, "cum": six(node.cum),
            "merged": node.merged, "spine": node.is_spine, "start": node.start,
        }  # fmt: skip
        tree.add(
            node.token, node.parent, None, expansion.offer.logs[node.rank - 1], "argmax",
            raws[node.expansion], src=src,
        )  # fmt: skip
    kept = growth.kept()
    deepest = max((node.depth for node in growth.nodes), default=0)
    end: DraftEnd = (
        "budget" if len(kept) < len(growth.nodes) else "depth" if deepest == plan.growing.deepest else "full"
    )
    return tree.draft(end, keep=kept)


def make(models: Models, knobs: Knobs) -> SpecBlock:
    """The drafter of method `specblock`. Raises ModelError where there is none for the target."""
    if not isinstance(models.target, ModelAdapter):
        raise ModelError("specblock reads hidden states of its target: it needs a model, not a table")
    folder = " ".join(knobs["drafter"]) or None
    return SpecBlock(KIND.pick(models.target, folder), models.target)
