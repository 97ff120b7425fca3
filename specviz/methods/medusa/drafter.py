"""`medusa`: one call of all heads, and the fixed tree of their ranks over the shared verification.

Head j says `W2_j (f + SiLU(W1_j f + b_j))` of the target's last hidden state f, taken after the target's final norm,
whose own logits gave the root token: head 0 speaks of the token behind the root. W1 begins at zero and W2 at the
target's head, so an untrained head says what the target said one token ago. Heads do not see each other.

The root is the token the round begins with, drawn from the target as every other; the released sampler's looser test
of later tokens is not lossless and is not here.
"""

import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from specviz.engine.decode.context import Context, Observation
from specviz.engine.decode.draft_tree import DraftTree
from specviz.engine.decode.drafter import Drafter
from specviz.engine.model.adapter import FactoryModels, ModelAdapter
from specviz.engine.model.rows import States
from specviz.events import Block, TreeMade, Warn, six
from specviz.knobs import Knobs
from specviz.methods.common.knobs import HEADS, MOST_NODES
from specviz.methods.trained import published
from specviz.methods.trained.calls import CallCosts, count_widths
from specviz.methods.trained.pair_drafter import read_by
from specviz.methods.trained.part_kind import Tensors, read_tensors
from specviz.methods.trained.parts import OPTION, drafter_kind
from specviz.methods.trained.parts import Trained as AnyTrained
from specviz.methods.trained.rank_shapes import NAME, RankPath, best_paths, paying_paths, read_table
from specviz.methods.trained.ranks import Ranked, best
from specviz.probability.draft import ROOT, Draft

Tensor = torch.Tensor


class MedusaHeads(nn.Module):
    """`n` heads in stacked tensors, one residual block each (the released code's further blocks share one weight)."""

    def __init__(self, n: int, width: int, vocab: int) -> None:
        super().__init__()
        self.inner = nn.Parameter(torch.zeros(n, width, width))
        self.bias = nn.Parameter(torch.zeros(n, width))
        self.outer = nn.Parameter(torch.empty(n, vocab, width))

    @property
    def n(self) -> int:
        return len(self.inner)

    def begin(self, rows: Tensor) -> "MedusaHeads":
        """Let every head begin at the target's own, `[V_d, width]`, copied."""
        with torch.no_grad():
            self.outer.copy_(rows.to(self.outer).expand_as(self.outer))
        return self

    def one(self, head: int, states: Tensor) -> Tensor:
        """`[n_rows, V_d]` of one head, from states `[n_rows, width]`."""
        turned = states @ self.inner[head].T + self.bias[head]
        out: Tensor = (states + nn.functional.silu(turned)) @ self.outer[head].T
        return out

    def forward(self, states: Tensor) -> Tensor:
        """`[n_rows, heads, V_d]` of states `[n_rows, width]`."""
        turned = torch.einsum("hij,nj->nhi", self.inner, states) + self.bias
        return torch.einsum("hvi,nhi->nhv", self.outer, states[:, None] + nn.functional.silu(turned))


@dataclass(frozen=True, slots=True)
class MedusaConfig:
    """`config.json`. `right[j][r]`: how often the target's token had rank r + 1 in head j on held-out text.

    The fixed tree follows from it; `counted` is false of a stand-in.
    """

    target: str
    target_name: str
    target_layers: int
    target_width: int
    vocab: int
    draft_vocab: int
    heads: int
    right: tuple[tuple[float, ...], ...] = ()
    counted: bool = True

    @property
    def tree(self) -> str:
        return (
            "tree from counted ranks"
            if self.counted
            else "stand-in tree, as no table of ranks comes with released heads"
        )

    @property
    def taps(self) -> tuple[int, ...]:
        """The target's last layer: its state is what heads read."""
        return (self.target_layers,)


Trained = AnyTrained[MedusaConfig, MedusaHeads]


def _published(folder: Path, document: dict[str, Any], adapter: ModelAdapter) -> tuple[MedusaConfig, Tensors]:
    """Released heads; which weights their target has is not known, and a table of ranks is ours or a stand-in."""
    tensors = published.medusa_tensors(folder, read_tensors(folder, OPTION, adapter.device))
    heads, vocab, width = tensors["outer"].shape
    counted = (folder / NAME).is_file()  # by specviz train static-tree
    config = MedusaConfig(
        target="",
        target_name=published.name_of(folder, document),
        target_layers=adapter.n_layers,
        target_width=width,
        vocab=min(vocab, adapter.vocab),
        draft_vocab=min(vocab, adapter.vocab),
        heads=heads,
        right=read_table(folder) if counted else published.usual_shares(heads),
        counted=counted,
    )
    tensors["outer"] = tensors["outer"][:, : adapter.vocab]  # padded rows stand for no token
    return config, tensors


KIND = drafter_kind(
    HEADS,
    "specviz-medusa",
    MedusaConfig,
    lambda config: MedusaHeads(config.heads, config.target_width, config.draft_vocab),
    _published,
)


class Medusa(Drafter):
    """Drafts for one query; the heads are shared by all. Nothing is cached: a state is read once."""

    newest_only = True

    def __init__(self, trained: Trained, adapter: ModelAdapter) -> None:
        self.trained, self.pace = trained, CallCosts(trained.network.parameters(), adapter)
        self.taps = (trained.config.target_layers,)
        self._states = States({})  # of the row whose logits gave the newest token

    def observe(self, seen: Observation) -> None:
        """Keep the newest state, and complete what is on record of this round."""
        self.pace.judge(seen)
        self._states = seen.features or self._states

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
        if not self._states:
            return tree.draft("no_match")  # no target row has been seen yet: a prompt of one token
        began = time.perf_counter_ns()
        deepest = min(ctx.reach, self.trained.config.heads)
        logits = self.trained.network(self._states[self.taps[0]])[0, :deepest]
        ctx.counters.n_draft_calls += 1
        right = self.trained.config.right[:deepest]
        ranked = best(ctx, self.trained.vocabulary, logits, [()] * deepest, max(len(row) for row in right))
        if ranked is None:
            ctx.note(Warn(code="draft_not_finite", message="the heads' numbers are not finite: nothing drafted"))
            return tree.draft("no_match")
        if budget < 0:
            paths = paying_paths(right, self.pace.tree_cost, MOST_NODES, by_level=False)
        else:
            paths = best_paths(right, budget)
        self._grow(ctx, tree, paths, ranked, logits)
        if ctx.level != "none":
            took = time.perf_counter_ns() - began
            ctx.note(Block(start=0, node=ROOT, chain=[], kv_len=0, batch=1, dur_ns=took))
            n_children = Counter(tree.parent(node) for node in range(len(tree)))
            widths = count_widths([*n_children.values()])
            fact = TreeMade(n_raw=len(tree), n_merged=0, n_kept=len(tree), widths=widths, buckets=[])
            ctx.note(self.pace.of(fact, ctx.counters.n_draft_calls))
        return tree.draft("full" if 0 <= len(paths) < budget else "budget")

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
    target = read_by("medusa", models.target)
    return Medusa(KIND.pick(target, " ".join(knobs["drafter"]) or None), target)
