"""A drafter that works ahead: what survives of its branches is pending in the next round. For tests of the engine.

Drafts `depth` tokens when nothing is pending; `draft_ahead` adds `width` branch tokens behind the last pending node
(the most likely ones) and follows each with `more` tokens. All are point masses, so `walk` keeps the
text of plain decoding.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from specviz.engine.decode.context import Context, Observation
from specviz.engine.decode.draft_tree import DraftTree
from specviz.engine.decode.drafter import OverlappingDrafter
from specviz.engine.model.adapter import FactoryModels
from specviz.methods.common.runner import DraftModelRunner
from specviz.probability.draft import ROOT, Draft, NodeFacts


class Ahead(OverlappingDrafter):
    """See the module. `during`: called in `draft_ahead` when the branches are drafted."""

    def __init__(
        self,
        models: FactoryModels,
        depth: int = 3,
        width: int = 2,
        more: int = 2,
        during: Callable[[], Any] = lambda: None,
    ) -> None:
        assert models.draft is not None
        self.drafts = DraftModelRunner(models.draft, models.capacity)
        self.depth, self.width, self.more, self.during = depth, width, more, during
        self.waiting: list[NodeFacts] = []  # the rest of the branch that survived
        self.n_aborted = 0

    def propose(self, ctx: Context) -> Draft:
        """What is pending, or a chain when nothing is."""
        tree = self._tree = DraftTree(ctx)
        logits = self.drafts.begin(ctx)
        node, room = ROOT, self.drafts.reach(ctx)
        for pending in self.waiting[:room]:
            node = tree.put(pending, None, node)
            if not tree.ends(node):
                logits = self.drafts.expand(ctx, tree, [node])
        for _ in range(0 if self.waiting else min(self.depth, room)):
            node = tree.add(int(logits[0].argmax()), node)
            if tree.ends(node):
                break
            logits = self.drafts.expand(ctx, tree, [node])
        self._tip, self._logits = node, logits
        return tree.draft()

    def draft_ahead(self, ctx: Context, draft: Draft) -> Draft:
        """Branches at the end of what the target judges, and a few tokens behind each."""
        tree, tip = self._tree, self._tip
        self._behind: dict[int, list[int]] = {}
        room = self.drafts.reach(ctx) - tree.depth(tip)
        tokens = self._logits[0].topk(self.width).indices.tolist() if room > 0 and not tree.ends(tip) else []
        branches = [tree.add(token, tip, branch=k) for k, token in enumerate(tokens)]
        tree.unfed |= set(branches)
        for branch in branches:
            line, node = self._behind.setdefault(branch, []), branch
            for _ in range(min(self.more, room - 1)):
                if tree.ends(node):
                    break
                node = tree.add(int(self.drafts.expand(ctx, tree, [node])[0].argmax()), node)
                line.append(node)
        self.during()
        return tree.draft()

    def observe(self, observation: Observation) -> None:
        """Keep what hangs behind the branch that was hit."""
        assert observation.outcome is not None
        kept = {observation.draft.ids[node] for node in observation.outcome.accepted}
        self.waiting = []
        for branch, line in self._behind.items():
            if self._tree.node(branch).id in kept and observation.outcome.closing is None:
                self.waiting = [replace(self._tree.node(node)) for node in line]

    def on_abort(self) -> None:
        """Count; what waited is still waiting."""
        self.n_aborted += 1

    def cached(self) -> int | None:
        """Committed slots."""
        return self.drafts.cache.length
