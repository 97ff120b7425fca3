"""Trees that a draft model grows, and siblings drawn one after another.

`TopTree`: the most likely continuations; every node is a point mass. Level 1 holds the `k_max` best
children of the root, each later level expands the `k_max` best nodes of the level before in one batched call, `w_max`
children each, and the `node_budget` best nodes by path probability are sent. Pruning by value is allowed here because
nothing was drawn.

`DrawnTree`: every expanded node gets `candidates` drawn children (distinct without `replacement`). Level by level, one
draft-model call each: the `k_max` most probable nodes of a level, by path probability under the draft, are expanded
while the `node_budget` lasts, down to depth `d_max`. The budget is spent *before* drawing: which nodes get children,
and how many, is told by tokens already kept. Drawing first and pruning by value afterwards would favour likely tokens
over what their recorded law says, and the text would no longer follow the target.
"""

from dataclasses import dataclass, field

import torch

from specviz.engine.decode.context import Context
from specviz.engine.decode.draft_tree import DraftTree
from specviz.engine.decode.sampling import finite, require
from specviz.engine.model.adapter import FactoryModels
from specviz.engine.model.host import to_device
from specviz.engine.model.rows import Tensor
from specviz.methods.common.runner import DraftModelRunner, DraftSampler, ModelDrafter, laws, prefixes, without
from specviz.methods.common.tree_builder import Levels
from specviz.names import DraftEnd, Mode
from specviz.probability.draft import ROOT, Draft
from specviz.probability.host import fetch
from specviz.probability.rows import Row


class TopTree(ModelDrafter):
    """The best continuations, level by level."""

    def propose(self, ctx: Context) -> Draft:
        """Grow level by level, then keep the `node_budget` best by (path probability, depth, id)."""
        knobs, tree = ctx.knobs, DraftTree(ctx)
        depth, budget = min(knobs["d_max"], self.drafts.reach(ctx)), knobs["node_budget"]
        if not depth or not budget:
            return tree.draft("budget" if not budget else "length")
        levels = Levels(knobs["k_max"], depth, lambda token: token in ctx.eos)  # numbers its nodes as `tree` does
        parents, logits, width = [ROOT], self.drafts.begin(ctx), knobs["k_max"]
        while True:
            self._offer(ctx, tree, levels, parents, logits, width)
            parents, width = levels.next(), knobs["w_max"]
            if not parents:
                break
            logits = self.drafts.expand(ctx, tree, parents)
        end: DraftEnd = "budget" if len(tree) > budget else "depth" if depth == knobs["d_max"] else "length"
        return tree.draft(end, keep=levels.pruned(budget))

    def _offer(
        self, ctx: Context, tree: DraftTree, levels: Levels, parents: list[int], logits: Tensor, width: int
    ) -> None:
        """The `width` best children of each expanded node, by logits `[parents, V]`, in one copy off the device."""
        ranked = ctx.warper.scores(logits, prefixes(ctx, tree, parents))
        best = ranked.topk(min(width, logits.shape[-1]), -1).indices
        logs = logits.log_softmax(-1).gather(-1, best)
        ctx.counters.n_syncs += 1
        first_node, first_row = len(tree), len(levels.rows)
        tokens, scores, sound = fetch(best, logs, finite(ranked))
        require(sound)
        levels.offer(parents, zip(tokens, scores, strict=True))
        for node in levels.nodes[first_node:]:
            tree.add(node.token, node.parent, None, node.log, "argmax", logits[node.row - first_row])


class DrawnTree(ModelDrafter):
    """A tree whose nodes are draws, or at temperature 0 the most likely tokens."""

    def __init__(self, models: FactoryModels, mode: Mode) -> None:
        super().__init__(models)
        self.mode: Mode = mode

    def propose(self, ctx: Context) -> Draft:
        """Expand the best nodes of every level until depth, budget or room ends it."""
        knobs = ctx.knobs
        grow = SiblingGrower(ctx, self.drafts, self.mode, knobs["candidates"], knobs["replacement"])
        tree, depth, budget = grow.tree, min(knobs["d_max"], self.drafts.reach(ctx)), knobs["node_budget"]
        levels, level = Levels(knobs["k_max"], depth), [ROOT]  # numbers its nodes as `tree` does
        for _ in range(depth):
            level = self._level(grow, levels.best(level, levels.k), budget - len(tree))
            if not level:
                break
            self._score(grow, levels, level)
            level = [node for node in level if not tree.ends(node)]
        end: DraftEnd = "depth" if depth == knobs["d_max"] else "length"
        if len(tree) >= budget:
            end = "budget"
        elif depth and not level:
            end = "stop_token"
        return tree.draft(end, number=True)

    def _level(self, grow: "SiblingGrower", best: list[int], left: int) -> list[int]:
        """Children for the nodes in `best` (most probable first) as far as `left` goes; they are drawn in id order."""
        share: dict[int, int] = {}
        for node in best:
            share[node] = min(grow.most, max(0, left - sum(share.values())))
        wanted = sorted(node for node in best if share[node])
        grow.open(wanted)
        drawn = [grow.child(node) for node in wanted for _ in range(share[node])]
        return [node for node in drawn if node is not None]

    def _score(self, grow: "SiblingGrower", levels: Levels, level: list[int]) -> None:
        """Score a new level by the plain softmax of the draft model; one copy off the device."""
        tree = grow.tree
        parents = list(dict.fromkeys(tree.parent(node) for node in level))
        logs = torch.stack([grow.places[parent].logits for parent in parents]).log_softmax(-1)
        rows = [parents.index(tree.parent(node)) for node in level]
        at = to_device([rows, [tree.token(node) for node in level]], logs.device)
        (picked,) = fetch(logs[at[0], at[1]])
        grow.ctx.counters.n_syncs += 1
        for node, log in zip(level, picked, strict=True):
            levels.add(tree.parent(node), tree.token(node), log, 1)


@dataclass(slots=True)
class Place:
    """An expanded node. `law`: of its next child, None when nothing is left; `ranked`: its best tokens, if not drawn"""

    logits: Tensor  # [V]
    law: Row | None
    ranked: list[int] = field(default_factory=list)


class SiblingGrower:
    """Grows one draft level by level: `open` is one forward, `child` one draw from the law it is recorded with.

    With replacement every child comes from its parent's law. Without, from what its elder siblings left of it. Where
    nothing is drawn (temperature 0, mode argmax) children are the most likely tokens in turn, whatever `replacement`
    says: the limit of draws without it, and a second copy of a certain token could only waste a row.
    """

    def __init__(self, ctx: Context, drafts: DraftModelRunner, mode: Mode, most: int, replacement: bool) -> None:
        self.ctx, self.drafts, self.tree = ctx, drafts, DraftTree(ctx)
        self.is_drawn = mode == "sampled" and not ctx.warper.greedy
        self.most, self.replacement = most, replacement
        self.places: dict[int, Place] = {}
        self._sampler = DraftSampler(ctx, mode)

    def open(self, nodes: list[int]) -> None:
        """Run the draft model on nodes that are to have children; the same node may be named several times."""
        new = [node for node in dict.fromkeys(nodes) if node not in self.places]
        if not new:
            return
        logits = self.drafts.begin(self.ctx) if new == [ROOT] else self.drafts.expand(self.ctx, self.tree, new)
        if self.is_drawn:
            rows = laws(self.ctx, self.tree, new, logits)
            self.places |= {node: Place(logits[k], rows[k]) for k, node in enumerate(new)}
            return
        scores = self.ctx.warper.scores(logits, prefixes(self.ctx, self.tree, new))
        best, sound = fetch(scores.topk(min(self.most, scores.shape[-1]), -1).indices, finite(scores))
        require(sound)
        self.ctx.counters.n_syncs += 1
        for k, node in enumerate(new):
            self.places[node] = Place(logits[k], None, best[k])

    def child(self, parent: int) -> int | None:
        """The next child of an opened node; None when no token is left for one."""
        place = self.places[parent]
        if not self.is_drawn:
            if not place.ranked:
                return None
            return self.tree.add(place.ranked.pop(0), parent, None, None, "argmax", place.logits)
        if place.law is None:
            return None
        token = self._sampler.token(self.tree.depth(parent) + 1, place.law)
        node = self._sampler.add(self.tree, parent, token, place.law, place.logits)
        if not self.replacement:
            place.law = without(place.law, token)
        return node
