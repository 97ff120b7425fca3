"""Drafting with a second, smaller model: a chain, or a tree of its most likely continuations.

Chain (Leviathan et al. 2023): up to gamma tokens one after another, each drawn from the draft law (`sampled`), its
most likely one (`argmax`), or drawn with the target's own noise (`shared`). Tree (contract.md 5): level 1 holds the
`k_max` best children of the root, each later level expands the `k_max` best nodes of the level before in one batched
call, `w_max` children each, and the `node_budget` best nodes by path probability are sent.
"""

from typing import Any

from specviz.draft import ROOT, Draft
from specviz.engine.cache import KVCache
from specviz.engine.context import Context, Models, Observation, Tree
from specviz.engine.model import Model
from specviz.engine.rows import BLOCK, Rows, Tensor, fill
from specviz.errors import KnobError
from specviz.knobs import Knobs
from specviz.laws import Certain
from specviz.names import DraftEnd, Mode


class DraftModel:
    """The draft model with its cache, one forward of new rows at a time."""

    def __init__(self, model: Model, capacity: int) -> None:
        self.model = model
        self.cache: KVCache = model.new_cache(capacity)
        self.rows: Rows | None = None

    def reach(self, ctx: Context) -> int:
        """Longest path worth drafting: what the text has room for, and the draft model positions.

        The last drafted token is not fed to it. Past its context it drafts nothing, and the text goes on without.
        """
        return max(0, min(ctx.reach, self.model.context - ctx.n + 1))

    def begin(self, ctx: Context) -> Tensor:
        """Feed what the cache lacks of the text, the root last; the root's logits `[1, V]`."""
        missing = fill(self.model, self.cache, ctx.tokens[:-1], leave=BLOCK)
        self.rows = Rows(self.model, self.cache)
        self.root = self.rows.add_line([*missing, ctx.tokens[-1]])
        return self.take(ctx, last=1)

    def take(self, ctx: Context, last: int | None = None) -> Tensor:
        """Logits of the rows added since the last call, or of the `last` few of them; one forward."""
        assert self.rows is not None
        ctx.counters.n_draft_calls += 1
        return self.rows.take(last)


class Chain:
    """Up to gamma drafted tokens in a row."""

    taps: tuple[int, ...] = ()

    def __init__(self, models: Models, mode: str) -> None:
        assert models.draft is not None
        self.mode: Mode = "sampled" if mode == "auto" else mode  # type: ignore[assignment]
        self.drafts = DraftModel(models.draft, models.capacity)

    def propose(self, ctx: Context) -> Draft:
        """A chain of at most `gamma` tokens, cut to the room and at a stop token (kept, not fed)."""
        length = min(ctx.knobs["gamma"], self.drafts.reach(ctx))
        tree, node = Tree(ctx), ROOT
        logits = self.drafts.begin(ctx) if length else None
        while len(tree) < length and not tree.ends(node):
            if node != ROOT:
                assert self.drafts.rows is not None
                last = len(self.drafts.rows) - 1
                self.drafts.rows.add(tree.path(node)[-1], last)
                logits = self.drafts.take(ctx)
            assert logits is not None
            node = self._draw(ctx, tree, node, logits)
        end: DraftEnd = "stop_token" if tree.ends(node) else "full" if length == ctx.knobs["gamma"] else "length"
        return tree.draft(end, shared=self.mode == "shared" and not ctx.warper.greedy)

    def _draw(self, ctx: Context, tree: Tree, parent: int, logits: Tensor) -> int:
        law = laws(ctx, tree, [parent], logits)[0]
        depth = tree.depth(parent) + 1
        ctx.counters.n_syncs += 1
        if isinstance(law, Certain) or self.mode == "argmax":
            token = law.token if isinstance(law, Certain) else int(law.argmax())
            return tree.add(token, parent, None, None, "argmax", logits[0])
        token = ctx.draw("target" if self.mode == "shared" else "draft", depth, law).token
        return tree.add(token, parent, law, None, self.mode, logits[0])

    def observe(self, seen: Observation) -> None:
        """Nothing to learn: the cache follows the text at the next proposal."""

    def cached(self) -> int | None:
        """Committed slots of the draft model's cache."""
        return self.drafts.cache.length


class TreeDraftModel(DraftModel):
    """A draft model that expands several nodes in one call."""

    def open(self, ctx: Context) -> tuple[list[int], Tensor]:
        """The root and its logits `[1, V]`."""
        logits = self.begin(ctx)
        self.row_of = {ROOT: self.root}
        return [ROOT], logits

    def expand(self, ctx: Context, tree: Tree, nodes: list[int]) -> tuple[list[int], Tensor]:
        """The nodes and the logits `[nodes, V]` after them, from one forward; their ancestors were expanded before."""
        assert self.rows is not None
        for node in nodes:
            self.row_of[node] = self.rows.add(tree.path(node)[-1], self.row_of[tree.parent(node)])
        return nodes, self.take(ctx)


class TopTree:
    """A tree of the draft model's most likely continuations; every node is a point mass."""

    taps: tuple[int, ...] = ()

    def __init__(self, models: Models) -> None:
        assert models.draft is not None
        self.drafts = TreeDraftModel(models.draft, models.capacity)

    def propose(self, ctx: Context) -> Draft:
        """Grow level by level, then keep the `node_budget` best by (path probability, depth, id)."""
        knobs, tree = ctx.knobs, Tree(ctx)
        depth, budget = min(knobs["d_max"], self.drafts.reach(ctx)), knobs["node_budget"]
        if not depth or not budget:
            return tree.draft("budget" if not budget else "length")
        score: dict[int, float] = {ROOT: 0.0}
        level = self._children(ctx, tree, score, self.drafts.open(ctx), knobs["k_max"])
        for _ in range(1, depth):
            best = sorted((n for n in level if not tree.ends(n)), key=lambda n: (-score[n], n))[: knobs["k_max"]]
            if not best:
                break
            level = self._children(ctx, tree, score, self.drafts.expand(ctx, tree, best), knobs["w_max"])
        order = sorted(range(len(tree)), key=lambda n: (-score[n], tree.depth(n), n))
        end: DraftEnd = "budget" if len(tree) > budget else "depth" if depth == knobs["d_max"] else "length"
        return tree.draft(end, keep=order[:budget])

    def _children(
        self, ctx: Context, tree: Tree, score: dict[int, float], expanded: tuple[list[int], Tensor], width: int
    ) -> list[int]:
        """The `width` best children of each expanded node; the level leaves the device in one copy."""
        parents, logits = expanded
        top = logits.log_softmax(-1).topk(min(width, logits.shape[-1]), -1)
        ctx.counters.n_syncs += 1
        added: list[int] = []
        for k, (logs, tokens) in enumerate(zip(top.values.tolist(), top.indices.tolist(), strict=True)):
            raw = logits[k]
            for log, token in zip(logs, tokens, strict=True):
                node = tree.add(token, parents[k], None, log, "argmax", raw)
                score[node] = score[parents[k]] + log
                added.append(node)
        return added

    def observe(self, seen: Observation) -> None:
        """Nothing to learn: the cache follows the text at the next proposal."""

    def cached(self) -> int | None:
        """Committed slots of the draft model's cache."""
        return self.drafts.cache.length


def laws(ctx: Context, tree: Tree, nodes: list[int], logits: Tensor) -> Any:
    """Draft laws after each node, by the target's own processors."""
    prefixes = [[*ctx.tokens, *tree.path(node)] for node in nodes] if ctx.warper.needs_prefix else None
    return ctx.warper.laws(logits, prefixes)


def make(models: Models, knobs: Knobs) -> Chain | TopTree:
    """The drafter of method `draft`. Raises KnobError for a mode the shape has no law for."""
    if knobs["shape"] == "chain":
        return Chain(models, knobs["draft_mode"])
    if knobs["draft_mode"] not in ("auto", "argmax"):
        raise KnobError(
            f"knob draft_mode: a tree of the k best nodes is argmax, not '{knobs['draft_mode']}'; use shape chain"
        )
    return TopTree(models)
