"""`medusa`: one call of all heads, and the fixed tree of their ranks over the shared verification (specblock.md 10).

The root is the token the round begins with, drawn from the target as every other; the released sampler's looser test
of later tokens is not lossless and is not here.
"""

import time
from collections import Counter

import torch

from specviz.engine.decode.context import Context, Observation
from specviz.engine.decode.draft_tree import DraftTree
from specviz.engine.decode.drafter import Drafter
from specviz.engine.model.adapter import FactoryModels, ModelAdapter
from specviz.errors import ModelError
from specviz.events import Block, TreeMade, Warn, six
from specviz.knobs import Knobs
from specviz.methods.common.cost_model import CallCosts
from specviz.methods.medusa.network import KIND, Trained
from specviz.methods.trained.block_runner import count_widths
from specviz.methods.trained.rank_shapes import RankPath, best_paths
from specviz.methods.trained.ranked_tokens import Ranked, best
from specviz.probability.draft import ROOT, Draft

Tensor = torch.Tensor


class Medusa(Drafter):
    """Drafts for one query; the heads are shared by all. Nothing is cached: a state is read once."""

    newest_only = True

    def __init__(self, trained: Trained, adapter: ModelAdapter) -> None:
        self.trained, self.pace = trained, CallCosts(trained.network.parameters(), adapter)
        self.taps = (trained.config.target_layers,)
        self._state: Tensor | None = None  # [1, width], of the row whose logits gave the newest token

    def observe(self, seen: Observation) -> None:
        """Keep the newest state, and complete what is on record of this round."""
        self.pace.judge(seen)
        if seen.features:
            self._state = seen.features[self.taps[0]][-1:]

    def cached(self) -> int | None:
        """Heads have no cache."""
        return None

    def parts(self) -> dict[str, str]:
        return {"drafter": KIND.tell(self.trained, self.trained.config.tree)}

    def propose(self, ctx: Context) -> Draft:
        """The best paths of ranks that the text has room for."""
        tree, budget = DraftTree(ctx), ctx.knobs["node_budget"]
        if not budget or not ctx.reach:
            return tree.draft("budget" if not budget else "length")
        if self._state is None:
            return tree.draft("no_match")  # no target row has been seen yet: a prompt of one token
        began = time.perf_counter_ns()
        deepest = min(ctx.reach, self.trained.config.heads)
        logits = self.trained.network(self._state)[0, :deepest]
        ctx.counters.n_draft_calls += 1
        right = self.trained.config.right[:deepest]
        ranked = best(ctx, self.trained.vocabulary, logits, [()] * deepest, max(len(row) for row in right))
        if ranked is None:
            ctx.note(Warn(code="draft_not_finite", message="the heads' numbers are not finite: nothing drafted"))
            return tree.draft("no_match")
        paths = best_paths(right, budget)
        self._grow(ctx, tree, paths, ranked, logits)
        if ctx.level != "none":
            took = time.perf_counter_ns() - began
            ctx.note(Block(start=0, node=ROOT, chain=[], kv_len=0, batch=1, dur_ns=took))
            made = Counter(tree.parent(node) for node in range(len(tree)))
            widths = count_widths([*made.values()])
            told = TreeMade(n_raw=len(tree), n_merged=0, n_kept=len(tree), widths=widths, buckets=[])
            ctx.note(self.pace.of(told, ctx.counters.n_draft_calls))
        return tree.draft("full" if len(paths) < budget else "budget")

    def _grow(self, ctx: Context, tree: DraftTree, paths: list[RankPath], ranked: list[Ranked], logits: Tensor) -> None:
        """A node for every path; none behind an end token, and none of a rank that a small vocabulary lacks."""
        raws = list(self.trained.vocabulary.spread(logits)) if ctx.level == "full" else [None] * len(ranked)
        nodes: dict[RankPath, int] = {(): ROOT}
        cum = {ROOT: 0.0}
        for path in paths:
            parent, depth, rank = nodes.get(path[:-1]), len(path) - 1, path[-1]
            tokens, logs = ranked[depth]
            if parent is None or tree.ends(parent) or rank >= len(tokens):
                continue
            src = {"head": depth, "rank": rank + 1, "cum": six(cum[parent] + logs[rank])}
            node = tree.add(tokens[rank], parent, None, logs[rank], "argmax", raws[depth], src=src)
            nodes[path], cum[node] = node, cum[parent] + logs[rank]


def make(models: FactoryModels, knobs: Knobs) -> Medusa:
    """The drafter of method `medusa`. Raises ModelError where there are no heads for the target."""
    if not isinstance(models.target, ModelAdapter):
        raise ModelError("medusa reads hidden states of its target: it needs a model, not a table")
    return Medusa(KIND.pick(models.target, " ".join(knobs["drafter"]) or None), models.target)
