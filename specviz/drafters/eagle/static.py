"""`static_tree`: the drafter of EAGLE-3 on a fixed shape, the best paths of ranks that calibration found.

The shape is known before anything is drafted, so each level runs exactly the nodes that will have children. The table
of ranks lies in the drafter's folder as `static_tree.json` and names the weights it was counted with.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from specviz.draft import ROOT, Draft
from specviz.drafters.blocks.fit import OPTION
from specviz.drafters.eagle.drafter import Eagle, Grower, drafted
from specviz.drafters.eagle.files import KIND, Trained
from specviz.drafters.eagle.levels import Levels
from specviz.drafters.rank_paths import Path as RankPath
from specviz.drafters.rank_paths import best_paths
from specviz.engine.context import Context, Models, Tree
from specviz.engine.model import ModelAdapter
from specviz.errors import ModelError
from specviz.events import Warn
from specviz.knobs import Knobs

Shares = tuple[tuple[float, ...], ...]
NAME, FORMAT = "static_tree.json", "specviz-static-tree"
CALIBRATE = "calibrate it with specviz train static-tree"


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

    def propose(self, ctx: Context) -> Draft:
        """The shape that budget, depth and room allow, level by level."""
        knobs, tree = ctx.knobs, Tree(ctx)
        budget, deepest = knobs["node_budget"], min(knobs["d_max"], ctx.reach)
        if not budget or deepest < 1:
            return tree.draft("budget" if not budget else "length")
        if not self.text.ready(ctx.n):
            return tree.draft("no_match")  # no target row has been seen yet: a prompt of one token
        levels = FixedLevels(best_paths(self.right, budget, deepest), lambda token: token in ctx.eos)
        grower = Grower(ctx, self.trained, self.text.calls, levels)
        if not grower.grow(self.text.root()):
            ctx.note(Warn(code="draft_not_finite", message="the drafter's numbers are not finite: nothing drafted"))
            return tree.draft("no_match")
        return drafted(ctx, tree, grower, budget)


def weights_hash(folder: Path) -> str:
    """Of the drafter's file: a table of ranks is one drafter's."""
    return hashlib.sha256((folder / KIND.weights).read_bytes()).hexdigest()[:32]


def write_table(folder: Path, right: Shares) -> None:
    """Beside the drafter it was counted with."""
    made = {"format": FORMAT, "version": 1, "drafter": weights_hash(folder), "right": right}
    (folder / NAME).write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


def read_table(folder: Path) -> Shares:
    """The table of a drafter's folder. Raises ModelError in one line for none, another drafter's, or no table."""
    path = folder / NAME
    if not path.is_file():
        raise ModelError(f"{OPTION} {folder}: no {NAME} in it, so its tree has no shape; {CALIBRATE}")
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
        right = tuple(tuple(float(value) for value in row) for row in given["right"])
        owner, named = given["drafter"], given["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{OPTION} {folder}: {NAME} cannot be read ({error!r}); {CALIBRATE}") from None
    if named != FORMAT or not right or not all(right):
        raise ModelError(f"{OPTION} {folder}: {NAME} holds no table of ranks; {CALIBRATE}")
    if owner != weights_hash(folder):
        raise ModelError(f"{OPTION} {folder}: {NAME} was counted with other weights; {CALIBRATE}")
    return right


def make(models: Models, knobs: Knobs) -> StaticTree:
    """The drafter of method `static_tree`. Raises ModelError where there is none for the target."""
    if not isinstance(models.target, ModelAdapter):
        raise ModelError("static_tree reads hidden states of its target: it needs a model, not a table")
    folder = KIND.folder(models.target, " ".join(knobs["drafter"]) or None)
    return StaticTree(KIND.load(folder, models.target), read_table(folder), models.target)
