"""A tree of the draft model's most likely continuations; every node is a point mass (contract.md 5).

Level 1 holds the `k_max` best children of the root, each later level expands the `k_max` best nodes of the level before
in one batched call, `w_max` children each, and the `node_budget` best nodes by path probability are sent. Pruning by
value is allowed here because nothing was drawn.

A sampled tree: every expanded node gets `candidates` drawn children (distinct without `replacement`).

Level by level, one draft-model call each: the `k_max` most probable nodes of a level, by path probability under the
draft, are expanded while the `node_budget` lasts, down to depth `d_max`. The budget is spent *before* drawing: which
nodes get children, and how many, is told by tokens already kept. Drawing first and pruning by value afterwards would
favour likely tokens over what their recorded law says, and the text would no longer follow the target.
"""

from collections.abc import Sequence

import torch

from specviz.engine.decode.context import Context
from specviz.engine.decode.draft_tree import Tree
from specviz.engine.model.adapter import Models
from specviz.engine.model.rows import Tensor
from specviz.methods.common.draft_sampler import Grower
from specviz.methods.common.runner import ModelDrafter, prefixes
from specviz.names import DraftEnd, Mode
from specviz.probability.draft import ROOT, Draft


class TopTree(ModelDrafter):
    """The best continuations, level by level."""

    def propose(self, ctx: Context) -> Draft:
        """Grow level by level, then keep the `node_budget` best by (path probability, depth, id)."""
        knobs, tree = ctx.knobs, Tree(ctx)
        depth, budget = min(knobs["d_max"], self.drafts.reach(ctx)), knobs["node_budget"]
        if not depth or not budget:
            return tree.draft("budget" if not budget else "length")
        score: dict[int, float] = {ROOT: 0.0}
        level = self._children(ctx, tree, score, [ROOT], self.drafts.begin(ctx), knobs["k_max"])
        for _ in range(1, depth):
            best = sorted((n for n in level if not tree.ends(n)), key=lambda n: (-score[n], n))[: knobs["k_max"]]
            if not best:
                break
            logits = self.drafts.expand(ctx, tree, best)
            level = self._children(ctx, tree, score, best, logits, knobs["w_max"])
        order = sorted(range(len(tree)), key=lambda n: (-score[n], tree.depth(n), n))
        end: DraftEnd = "budget" if len(tree) > budget else "depth" if depth == knobs["d_max"] else "length"
        return tree.draft(end, keep=order[:budget])

    def _children(
        self, ctx: Context, tree: Tree, score: dict[int, float], parents: Sequence[int], logits: Tensor, width: int
    ) -> list[int]:
        """The `width` best children of each expanded node; the level leaves the device in one copy."""
        ranked = ctx.warper.allowed(logits, prefixes(ctx, tree, parents))
        best = ranked.topk(min(width, logits.shape[-1]), -1)
        logs = logits.log_softmax(-1).gather(-1, best.indices)
        ctx.counters.n_syncs += 1
        added: list[int] = []
        for k, (row, tokens) in enumerate(zip(logs.tolist(), best.indices.tolist(), strict=True)):
            for log, token in zip(row, tokens, strict=True):
                node = tree.add(token, parents[k], None, log, "argmax", logits[k])
                score[node] = score[parents[k]] + log
                added.append(node)
        return added


class DrawnTree(ModelDrafter):
    """A tree whose nodes are draws, or at temperature 0 the most likely tokens."""

    def __init__(self, models: Models, mode: Mode) -> None:
        super().__init__(models)
        self.mode: Mode = mode

    def propose(self, ctx: Context) -> Draft:
        """Expand the best nodes of every level until depth, budget or room ends it."""
        knobs = ctx.knobs
        grow = Grower(ctx, self.drafts, self.mode, knobs["candidates"], knobs["replacement"])
        depth, budget = min(knobs["d_max"], self.drafts.reach(ctx)), knobs["node_budget"]
        score, level = {ROOT: 0.0}, [ROOT]
        for _ in range(depth):
            best = sorted(level, key=lambda n: (-score[n], n))[: knobs["k_max"]]
            level = self._level(grow, best, budget - len(grow.tree))
            if not level:
                break
            score |= self._scores(grow, level, score)
            level = [node for node in level if not grow.tree.ends(node)]
        return grow.tree.draft(self._end(grow, level, depth, ctx), number=True)

    def _level(self, grow: Grower, best: list[int], left: int) -> list[int]:
        """Children for the nodes in `best` (most probable first) as far as `left` goes; they are drawn in id order."""
        share: dict[int, int] = {}
        for node in best:
            share[node] = min(grow.most, max(0, left - sum(share.values())))
        wanted = sorted(node for node in best if share[node])
        grow.open(wanted)
        drawn = [grow.child(node) for node in wanted for _ in range(share[node])]
        return [node for node in drawn if node is not None]

    def _scores(self, grow: Grower, level: list[int], score: dict[int, float]) -> dict[int, float]:
        """Log path probabilities of a new level, by the plain softmax of the draft model; one copy off the device."""
        parents = list(dict.fromkeys(grow.tree.parent(node) for node in level))
        logs = torch.stack([grow.places[parent].logits for parent in parents]).log_softmax(-1)
        rows = [parents.index(grow.tree.parent(node)) for node in level]
        picked = logs[rows, [grow.tree.token(node) for node in level]].tolist()
        grow.ctx.counters.n_syncs += 1
        return {node: score[grow.tree.parent(node)] + log for node, log in zip(level, picked, strict=True)}

    def _end(self, grow: Grower, level: list[int], depth: int, ctx: Context) -> DraftEnd:
        if len(grow.tree) >= ctx.knobs["node_budget"]:
            return "budget"
        if depth and not level:
            return "stop_token"
        return "depth" if depth == ctx.knobs["d_max"] else "length"
