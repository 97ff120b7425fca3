"""`eagle3`: the tree of EAGLE-3 over the shared verification (specblock.md 10).

Call 0 appends the new pairs and gives the children of the root; every further level is one call for its `k_max` best
nodes. Rows of drafted nodes are made from the drafter's own outputs, so they are dropped when the round is over.

`static_tree`: the drafter of EAGLE-3 on a fixed shape, the best paths of ranks that calibration found.

The shape is known before anything is drafted, so each level runs exactly the nodes that will have children. The table
of ranks lies in the drafter's folder as `static_tree.json` and names the weights it was counted with.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch

from specviz.engine.decode.context import Context, Observation
from specviz.engine.decode.draft_tree import DraftTree
from specviz.engine.decode.drafter import Drafter
from specviz.engine.model.adapter import FactoryModels, ModelAdapter
from specviz.errors import ModelError
from specviz.events import TreeMade, Warn, six
from specviz.knobs import Knobs
from specviz.methods.common.cost_model import CallCosts
from specviz.methods.common.tree_builder import Levels
from specviz.methods.eagle3.network import KIND, Trained
from specviz.methods.trained.block_runner import BlockCall, BlockRunner, count_widths
from specviz.methods.trained.calls import BlockStart, CallCache, PairBuffer
from specviz.methods.trained.rank_shapes import RankPath, Shares, best_paths, read_table
from specviz.methods.trained.ranked_tokens import best
from specviz.names import DraftEnd
from specviz.probability.draft import ROOT, Draft

Tensor = torch.Tensor


class Eagle(Drafter):
    """Drafts for one query; the network is shared by all."""

    def __init__(self, trained: Trained, adapter: ModelAdapter) -> None:
        self.trained = trained
        self.taps = trained.config.taps
        self.text = PairBuffer(trained.network, adapter.embedding, self.taps)
        self.pace = CallCosts(trained.network.parameters(), adapter)

    def observe(self, seen: Observation) -> None:
        """Keep the new pairs for the next call, and complete what is on record of this round."""
        self.pace.judge(seen)
        self.text.observe(seen)

    def cached(self) -> int | None:
        """Committed pairs."""
        return self.text.calls.pairs

    def parts(self) -> dict[str, str]:
        return {"drafter": KIND.tell(self.trained, f"trained for {self.trained.config.trained_steps} levels")}

    def levels(self, ctx: Context, budget: int, deepest: int) -> Levels:
        return Levels(ctx.knobs["k_max"], deepest, lambda token: token in ctx.eos)

    def propose(self, ctx: Context) -> Draft:
        """Level by level, then the best nodes of all."""
        knobs, tree = ctx.knobs, DraftTree(ctx)
        budget, deepest = knobs["node_budget"], min(knobs["d_max"], ctx.reach)
        if not budget or deepest < 1:
            return tree.draft("budget" if not budget else "length")
        if not self.text.ready(ctx.n):
            return tree.draft("no_match")  # no target row has been seen yet: a prompt of one token
        grower = LevelRunner(ctx, self.trained, self.text.calls, self.levels(ctx, budget, deepest))
        if not grower.grow(self.text.root()):
            ctx.note(Warn(code="draft_not_finite", message="the drafter's numbers are not finite: nothing drafted"))
            return tree.draft("no_match")
        return self._drafted(ctx, tree, grower, budget)

    def _drafted(self, ctx: Context, tree: DraftTree, grower: "LevelRunner", budget: int) -> Draft:
        levels, spread = grower.levels, self.trained.vocabulary.spread
        raws = list(spread(torch.stack(grower.logits))) if ctx.level == "full" else [None] * len(levels.rows)
        kept, place = levels.pruned(budget), {ROOT: ROOT}
        for number in kept if ctx.level == "none" else range(len(levels.nodes)):  # pruned ones are for the record
            node = levels.nodes[number]
            src = {"rank": node.rank, "cum": six(node.cum)}
            parent = place[node.parent]
            place[number] = tree.add(node.token, parent, None, node.log, "argmax", raws[node.row], src=src)
        end: DraftEnd = "budget" if len(kept) < len(levels.nodes) else "depth"
        draft = tree.draft(end, keep=[place[number] for number in kept])
        if ctx.level != "none":
            grower.note(draft, self.pace)
        return draft


class LevelRunner(BlockRunner):
    """Runs a tree level by level, a row a node. `logits[r]` `[V_d]`: what expanded node `levels.rows[r]` said."""

    def __init__(self, ctx: Context, trained: Trained, calls: CallCache, levels: Levels) -> None:
        super().__init__(ctx, calls)
        self.trained, self.levels = trained, levels
        self.logits: list[Tensor] = []

    def _starts(self, block: int) -> list[tuple[int, BlockStart]]:
        found = [(n, self.levels.nodes[n]) for n in self.levels.next()]
        return [(n, self._start(node.token, node.depth, node.row, 0)) for n, node in found]

    def _offer(self, level: Sequence[BlockCall], h: Tensor) -> bool:
        """Children of expanded nodes, from one call's states `[n, 1, width]`."""
        logits = self.trained.network.speak(h[:, 0])
        paths = [self.levels.path(made.node) for made in level]
        ranked = best(self.ctx, self.trained.vocabulary, logits, paths, self.levels.k)
        if ranked is None:
            return False
        self.levels.offer([made.node for made in level], ranked)
        self.logits += list(logits)
        return True

    def note(self, draft: Draft, pace: CallCosts) -> None:
        """Leave calls and tree on record; node numbers become ids."""
        for number, made in enumerate(self.made):
            node_id = ROOT if made.node == ROOT else draft.nodes[made.node].id
            self.ctx.note(made.record(number, node_id))
        children = Counter(node.row for node in self.levels.nodes)
        widths = count_widths([children[row] for row in range(len(self.levels.rows))])
        tree = TreeMade(n_raw=len(self.levels.nodes), n_merged=0, n_kept=len(draft), widths=widths, buckets=[])
        self.ctx.note(pace.of(tree, self.ctx.counters.n_draft_calls))


def make(models: FactoryModels, knobs: Knobs) -> Eagle:
    """The drafter of method `eagle3`. Raises ModelError where there is none for the target."""
    if not isinstance(models.target, ModelAdapter):
        raise ModelError("eagle3 reads hidden states of its target: it needs a model, not a table")
    folder = " ".join(knobs["drafter"]) or None
    return Eagle(KIND.pick(models.target, folder), models.target)


class FixedLevels(Levels):
    """Levels of a fixed shape: every expanded node gets the ranks that its path has, the others are not run."""

    def __init__(self, paths: list[RankPath], ends: Any) -> None:
        super().__init__(k=1 + max((path[-1] for path in paths), default=0), deepest=0, ends=ends)
        self.ranks: dict[RankPath, list[int]] = {}
        for path in paths:
            self.ranks.setdefault(path[:-1], []).append(path[-1])
        self._paths: list[RankPath] = []  # of every node

    def offer(self, parents: Any, offers: Any) -> None:
        """Only the ranks on the shape become nodes; a small vocabulary may lack some."""
        for parent, (tokens, logs) in zip(parents, offers, strict=True):
            above = () if parent == ROOT else self._paths[parent]
            self.rows.append(parent)
            for rank in self.ranks.get(above, ()):
                if rank < len(tokens):
                    self.add(parent, tokens[rank], logs[rank], rank + 1)
                    self._paths.append((*above, rank))

    def next(self) -> list[int]:
        """The nodes of the newest level that have children on the shape."""
        return [n for n in self.alive() if self._paths[n] in self.ranks]


class StaticTree(Eagle):
    def __init__(self, trained: Trained, right: Shares, adapter: ModelAdapter) -> None:
        super().__init__(trained, adapter)
        self.right = right

    def levels(self, ctx: Context, budget: int, deepest: int) -> Levels:
        return FixedLevels(best_paths(self.right, budget, deepest), lambda token: token in ctx.eos)


def make_static(models: FactoryModels, knobs: Knobs) -> StaticTree:
    """The drafter of method `static_tree`. Raises ModelError where there is none for the target."""
    if not isinstance(models.target, ModelAdapter):
        raise ModelError("static_tree reads hidden states of its target: it needs a model, not a table")
    folder = KIND.folder(models.target, " ".join(knobs["drafter"]) or None)
    return StaticTree(KIND.load(folder, models.target), read_table(folder), models.target)
