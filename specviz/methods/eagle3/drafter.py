"""`eagle3`: its network, and its tree over the shared verification.

The network is one decoder layer that reads `[norm(E[x]) ; norm(f)]` on the residual stream f. f is
`W [low; mid; top]` of the target's features on committed text, and the layer's own output on drafted nodes; the head
speaks after a norm. One row a pair, at the position of its token. Only the target's first conditions differ from a
block network with one slot, so cache, starts and masks are the block drafter's.

Call 0 appends the new pairs and gives the children of the root; every further level is one call for its `k_max` best
nodes. Rows of drafted nodes are made from the drafter's own outputs, so they are dropped when the round is over.

`static_tree` drafts a fixed shape, the best paths of ranks that calibration found: each level runs exactly the nodes
that will have children. Its table of ranks lies in the drafter's folder as `static_tree.json` and names the weights it
was counted with.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from specviz.engine.decode.context import Context, Observation
from specviz.engine.decode.draft_tree import DraftTree
from specviz.engine.model.adapter import FactoryModels, ModelAdapter
from specviz.engine.model.compiled.program import RowChoice
from specviz.events import TreeMade, Warn, six
from specviz.knobs import Knobs
from specviz.methods.common.knobs import EAGLE, MOST_NODES
from specviz.methods.common.tree_builder import Levels
from specviz.methods.common.tree_size import PayingLevels
from specviz.methods.trained import published
from specviz.methods.trained.calls import (
    BlockCall,
    BlockRunner,
    BlockStart,
    CallCache,
    CallCosts,
    count_widths,
)
from specviz.methods.trained.layers import Keys, Layer, LayerShape, RMSNorm, Rope, Tensor, fill_normal, linear
from specviz.methods.trained.pair_drafter import PairDrafter, read_by
from specviz.methods.trained.part_kind import Tensors, read_tensors
from specviz.methods.trained.parts import OPTION, LayerConfig, drafter_kind
from specviz.methods.trained.parts import Trained as AnyTrained
from specviz.methods.trained.programs import CallTables, ModuleSketch, SketchedReader
from specviz.methods.trained.rank_shapes import RankPath, Shares, best_paths, paying_paths, read_table
from specviz.methods.trained.ranks import best
from specviz.names import DraftEnd
from specviz.probability.draft import ROOT, Draft


@dataclass(frozen=True, slots=True)
class EagleShape:
    """Everything that fixes the tensors. `layer.width` is also the embedding's."""

    layer: LayerShape
    n_features: int
    vocab: int  # draft vocabulary


class EagleNetwork(SketchedReader):
    """Rows come and go as `[B, n, 1, ..]`; below the layer a row is `[e ; f]`."""

    slots, depth = 1, 1
    head: nn.Linear

    def __init__(self, shape: EagleShape, rng: torch.Generator | None = None) -> None:
        super().__init__()
        self.shape, width = shape, shape.layer.width
        self.fc = linear(shape.n_features, width)
        self.norm_token = RMSNorm(width, shape.layer.eps)
        self.layer = Layer(shape.layer, 2 * width)
        self.norm_out = RMSNorm(width, shape.layer.eps)
        self.head = linear(width, shape.vocab)
        self.rope = Rope(shape.layer)
        if rng is not None:
            fill_normal(self, rng)

    def conditions(self, features: Tensor) -> Tensor:
        """f `[.., width]` of features `[.., n_features]` on committed text."""
        out: Tensor = self.fc(features)
        return out

    def begin(self, condition: Tensor, embedded: Tensor) -> Tensor:
        """Rows `[B, n, 1, 2 * width]` of f and embeddings, both `[B, n, width]`."""
        return torch.cat([self.norm_token(embedded), condition], -1)[..., None, :]

    def forward(self, rows: Tensor, positions: Tensor, keys: Keys, mask: Tensor | None) -> Tensor:
        """The layer's output `[B, n, 1, width]`, before the norm: what the next level's rows take for f."""
        token, stream = rows[..., 0, :].chunk(2, -1)
        read = torch.cat([token, self.layer.norm_attention(stream)], -1)
        out: Tensor = self.layer.after(stream, read, self.rope.at(positions, rows), 0, keys, mask)
        return out[..., None, :]

    def _sketched(self, call: ModuleSketch, later: bool) -> CallTables:
        """`conditions`, `begin` and `forward`."""
        width = self.shape.layer.width
        inputs, embedded = call.table(width if later else self.shape.n_features), call.table(width)
        read, stream, out = call.table(2 * width), call.table(width), call.table(width, *((1, 0) if later else (0, 1)))
        if later:
            call.copy(inputs, stream)
        else:
            call.through(inputs, stream, self.fc)
        call.normed(embedded, read, self.norm_token)
        call.normed(stream, read, self.layer.norm_attention, width)
        call.decoded(stream, self.layer, 0, out, read)
        call.copy(stream, out, RowChoice.LAST)
        return CallTables(inputs, embedded, out)


@dataclass(frozen=True, slots=True)
class EagleConfig(LayerConfig):
    """`config.json`. `trained_steps`: how many levels the training unrolled."""

    trained_steps: int = 7

    @property
    def shape(self) -> EagleShape:
        """Of the network, which is as wide as its target."""
        return EagleShape(self.layer, len(self.taps) * self.target_width, self.draft_vocab)


Trained = AnyTrained[EagleConfig, EagleNetwork]


def _published(folder: Path, config: dict[str, Any], adapter: ModelAdapter) -> tuple[EagleConfig, Tensors]:
    """A released checkpoint; which weights its target has is not known."""
    sizes = published.eagle_sizes(folder, config, adapter)
    tensors = published.eagle_tensors(folder, read_tensors(folder, OPTION, adapter.device), adapter)
    sizes["vocab"] = min(sizes["vocab"], adapter.vocab)
    if "d2t" not in tensors and sizes["draft_vocab"] >= adapter.vocab:  # padded rows stand for no token
        head = tensors["head.weight"]
        tensors["head.weight"] = head[: adapter.vocab] if head.dim() else head
        sizes["draft_vocab"] = adapter.vocab
    name = published.name_of(folder, config)
    return EagleConfig(target="", target_name=name, target_layers=adapter.n_layers, **sizes), tensors


KIND = drafter_kind(EAGLE, "specviz-eagle3", EagleConfig, lambda config: EagleNetwork(config.shape), _published)


class Eagle(PairDrafter):
    """Drafts for one query; the network is shared by all."""

    def __init__(self, trained: Trained, adapter: ModelAdapter) -> None:
        super().__init__(trained, adapter)
        self.trained = trained
        self.pace = CallCosts(trained.network.parameters(), adapter)

    def observe(self, seen: Observation) -> None:
        """Keep the new pairs for the next call, and complete what is on record of this round."""
        self.pace.judge(seen)
        super().observe(seen)

    def parts(self) -> dict[str, str]:
        return {"drafter": KIND.tell(self.trained, f"trained for {self.trained.config.trained_steps} levels")}

    def levels(self, ctx: Context, budget: int, deepest: int) -> Levels:
        """The tree to grow; `budget` -1: as far as it pays."""
        k = ctx.knobs["k_max"]
        if budget < 0:
            return PayingLevels(k, deepest, lambda token: token in ctx.eos, self.pace.tree_cost, MOST_NODES)
        return Levels(k, deepest, lambda token: token in ctx.eos)

    def propose(self, ctx: Context) -> Draft:
        """Level by level, then the best nodes of all."""
        knobs, tree = ctx.knobs, DraftTree(ctx)
        budget, deepest = knobs["node_budget"], min(knobs["d_max"], ctx.reach)
        if (why := self.hindered(ctx, budget, deepest)) is not None:
            return tree.draft(why)
        grower = LevelRunner(ctx, self.trained, self.text.calls, self.levels(ctx, budget, deepest))
        if not grower.grow(self.text.root()):
            ctx.note(Warn(code="draft_not_finite", message="the drafter's numbers are not finite: nothing drafted"))
            return tree.draft("no_match")
        return self._drafted(ctx, tree, grower, grower.levels.size(budget))

    def _drafted(self, ctx: Context, tree: DraftTree, grower: "LevelRunner", budget: int) -> Draft:
        levels, spread = grower.levels, self.trained.vocabulary.spread
        raws = list(spread(torch.stack(grower.logits))) if ctx.level == "full" else [None] * len(levels.rows)
        kept, place = levels.pruned(budget), {ROOT: ROOT}
        for number in kept if ctx.level == "none" else range(len(levels.nodes)):  # pruned ones are for the record
            node = levels.nodes[number]
            src = {"rank": node.rank, "cum": six(node.cum)}
            parent = place[node.parent]
            place[number] = tree.add(node.token, parent, None, node.log, "argmax", raws[node.row], src=src)
        end: DraftEnd = "budget" if levels.unpaid or len(kept) < len(levels.nodes) else "depth"
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
        starts = [(n, self.levels.nodes[n]) for n in self.levels.next()]
        return [(n, self._start(node.token, node.depth, node.row, 0)) for n, node in starts]

    def _offer(self, level: Sequence[BlockCall], h: Tensor) -> bool:
        """Children of expanded nodes, from one call's states `[n, 1, width]`."""
        _, logits = self.calls.norm_and_head(h[:, 0], self.trained.network.norm_and_head)
        paths = [self.levels.path(call.node) for call in level]
        ranked = best(self.ctx, self.trained.vocabulary, logits, paths, self.levels.k)
        if ranked is None:
            return False
        self.levels.offer([call.node for call in level], ranked)
        self.logits += list(logits)
        return True

    def note(self, draft: Draft, pace: CallCosts) -> None:
        """Leave calls and tree on record; node numbers become ids."""
        for number, call in enumerate(self.made):
            node_id = ROOT if call.node == ROOT else draft.nodes[call.node].id
            self.ctx.note(call.record(number, node_id))
        children = Counter(node.row for node in self.levels.nodes)
        widths = count_widths([children[row] for row in range(len(self.levels.rows))])
        tree = TreeMade(n_raw=len(self.levels.nodes), n_merged=0, n_kept=len(draft), widths=widths, buckets=[])
        self.ctx.note(pace.of(tree, self.ctx.counters.n_draft_calls))


def make(models: FactoryModels, knobs: Knobs) -> Eagle:
    """The drafter of method `eagle3`. Raises ModelError where there is none for the target."""
    target = read_by("eagle3", models.target)
    return Eagle(KIND.pick(target, " ".join(knobs["drafter"]) or None), target)


class FixedLevels(Levels):
    """Levels of a fixed shape: every expanded node gets the ranks that its path has, the others are not run."""

    def __init__(self, paths: list[RankPath], ends: Any) -> None:
        super().__init__(k=1 + max((path[-1] for path in paths), default=0), deepest=0, ends=ends)
        self.ranks: dict[RankPath, list[int]] = {}
        for path in paths:
            self.ranks.setdefault(path[:-1], []).append(path[-1])
        self._paths: list[RankPath] = []  # of every node

    def offer(self, parents: Sequence[int], offers: Iterable[tuple[Sequence[int], Sequence[float]]]) -> None:
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
        if budget < 0:
            paths = paying_paths(self.right, self.pace.tree_cost, MOST_NODES, deepest)
        else:
            paths = best_paths(self.right, budget, deepest)
        return FixedLevels(paths, lambda token: token in ctx.eos)


def make_static(models: FactoryModels, knobs: Knobs) -> StaticTree:
    """The drafter of method `static_tree`. Raises ModelError where there is none for the target."""
    target = read_by("static_tree", models.target)
    folder = KIND.folder(target, " ".join(knobs["drafter"]) or None)
    return StaticTree(KIND.load(folder, target), read_table(folder), target)
