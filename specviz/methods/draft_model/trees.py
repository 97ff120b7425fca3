"""A tree of the draft model's most likely continuations; every node is a point mass (contract.md 5).

Level 1 holds the `k_max` best children of the root, each later level expands the `k_max` best nodes of the level before
in one batched call, `w_max` children each, and the `node_budget` best nodes by path probability are sent. Pruning by
value is allowed here because nothing was drawn.
"""

from collections.abc import Sequence

from specviz.engine.decode.context import Context, Tree
from specviz.engine.model.rows import Tensor
from specviz.methods.common.runner import ModelDrafter, prefixes
from specviz.names import DraftEnd
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
