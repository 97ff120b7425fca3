"""`static_tree`: the drafter of EAGLE-3 on a fixed shape, the best paths of ranks that calibration found.

The shape is known before anything is drafted, so each level runs exactly the nodes that will have children. The table
of ranks lies in the drafter's folder as `static_tree.json` and names the weights it was counted with.
"""

from typing import Any

from specviz.engine.decode.context import Context, Models
from specviz.engine.model.adapter import ModelAdapter
from specviz.errors import ModelError
from specviz.knobs import Knobs
from specviz.methods.eagle3.drafter import Eagle
from specviz.methods.eagle3.files import KIND, Trained
from specviz.methods.trained.levels import Levels
from specviz.methods.trained.rank_shapes import Path as RankPath
from specviz.methods.trained.rank_shapes import best_paths
from specviz.methods.trained.rank_table import Shares, read_table
from specviz.probability.draft import ROOT


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
        level = max((node.depth for node in self.nodes), default=0)
        last = [n for n, node in enumerate(self.nodes) if node.depth == level and not self.ends(node.token)]
        return [n for n in last if self._paths[n] in self.ranks]


class StaticTree(Eagle):
    """Drafts for one query."""

    def __init__(self, trained: Trained, right: Shares, adapter: ModelAdapter) -> None:
        super().__init__(trained, adapter)
        self.right = right

    def levels(self, ctx: Context, budget: int, deepest: int) -> Levels:
        """The shape that budget, depth and room allow."""
        return FixedLevels(best_paths(self.right, budget, deepest), lambda token: token in ctx.eos)


def make(models: Models, knobs: Knobs) -> StaticTree:
    """The drafter of method `static_tree`. Raises ModelError where there is none for the target."""
    if not isinstance(models.target, ModelAdapter):
        raise ModelError("static_tree reads hidden states of its target: it needs a model, not a table")
    folder = KIND.folder(models.target, " ".join(knobs["drafter"]) or None)
    return StaticTree(KIND.load(folder, models.target), read_table(folder), models.target)
