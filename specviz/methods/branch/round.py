"""A round of a branch drafter in flight: its pending tokens and the branches behind them, and how they are drawn."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch

from specviz.engine.decode.context import Context
from specviz.engine.decode.draft_tree import DraftTree
from specviz.engine.model.rows import Tensor
from specviz.engine.record.device_stats import entropies, top_lists
from specviz.errors import SpecvizError
from specviz.events import DraftStep, Event, Span, six
from specviz.events.branch import ForkReason, Rule, TokenFate
from specviz.methods.branch.model_cache import DraftModelCache
from specviz.methods.common.draft_sampler import DraftSampler
from specviz.methods.common.runner import laws
from specviz.methods.common.top_k import TOP
from specviz.names import Mode
from specviz.probability.draft import ROOT, NodeFacts
from specviz.probability.draws import NOT_FINITE
from specviz.probability.rows import Row


@dataclass(frozen=True, slots=True)
class DraftRow:
    """A draft row before anything is drawn from it. `conf`: the top of its raw softmax; `cost_ns`: of its forward."""

    raw: Tensor  # [V]
    conf: float
    cost_ns: int = 0
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class PendingToken:
    """A drafted token that is not judged yet, with the law it was drawn from (None: a point mass)."""

    node: NodeFacts
    law: Row | None
    look: DraftRow
    cost_ns: int  # its share of the forward


@dataclass(slots=True)
class BranchRound:
    """One round. Nodes are numbers of `tree`; `branches[b]` are those of branch b, its branch token first.

    `point`: the look at the branch point, if it is at hand. `fates` by stable id.
    """

    ctx: Context
    tree: DraftTree
    mode: Mode
    pending: list[int] = field(default_factory=list)
    branches: list[list[int]] = field(default_factory=list)
    held: dict[int, PendingToken] = field(default_factory=dict)  # by node
    point: DraftRow | None = None
    reason: ForkReason = "after_last"
    rule: Rule = "topk"
    fates: dict[int, TokenFate] = field(default_factory=dict)
    costs: dict[int, int] = field(default_factory=dict)  # by stable id
    spans: list[Span] = field(default_factory=list)
    sampler: DraftSampler = field(init=False)

    def __post_init__(self) -> None:
        self.sampler = DraftSampler(self.ctx, self.mode)

    @property
    def recorded(self) -> bool:
        return self.ctx.level != "none"

    @property
    def tip(self) -> int:
        """The node that drafting goes on behind."""
        return self.pending[-1] if self.pending else ROOT

    @property
    def shared(self) -> bool:
        """Whether tokens are drawn with the target's noise."""
        return self.mode == "shared" and not self.ctx.warper.greedy

    def note(self, fact: Event) -> None:
        if self.recorded:
            self.ctx.note(fact)

    def ids(self, nodes: Iterable[int]) -> list[int]:
        return [self.tree.node(node).id for node in nodes]

    def looks(self, logits: Tensor, rows: DraftModelCache, name: str) -> list[DraftRow]:
        """The rows `[n, V]` of the last forward, their confidences in one copy."""
        self.ctx.counters.n_syncs += 1
        confs = logits.softmax(-1).amax(-1).tolist()
        if any(math.isnan(conf) for conf in confs):
            raise SpecvizError(NOT_FINITE)
        done = rows.finished()
        span = Span(lane="draft", name=name, t0=done.t0_ns, dur_ns=done.dur_ns)
        self.spans.append(span)
        self.note(span)
        return [DraftRow(raw, conf, done.dur_ns, span) for raw, conf in zip(logits, confs, strict=True)]

    def law(self, parents: Sequence[int], looks: Sequence[DraftRow]) -> list[Row]:
        """The draft laws after some nodes, by the target's own processors."""
        rows = laws(self.ctx, self.tree, parents, torch.stack([look.raw for look in looks]))
        return [rows[k] for k in range(len(looks))]

    def add(
        self, token: int, parent: int, law: Row | None, look: DraftRow, share: int = 1, branch: int | None = None
    ) -> int:
        """A chosen token; `law` None: it was fixed. `share`: how many tokens came from the same forward."""
        node = self.sampler.add(self.tree, parent, token, law, look.raw, branch=branch)
        self._hold(node, PendingToken(self.tree.node(node), self.tree.law(node), look, look.cost_ns // share))
        return node

    def put(self, held: PendingToken) -> None:
        """A pending token that an earlier round drew."""
        node = self.tree.put(held.node, held.law, self.tip)
        self.pending.append(node)
        self._hold(node, held)

    def _hold(self, node: int, held: PendingToken) -> None:
        self.held[node] = held
        self.costs[held.node.id] = held.cost_ns

    def step(self, node: int | None, look: DraftRow, bound: float | None = None, branch: int | None = None) -> None:
        """Note a look: a token was drawn under it, or it was too unsure and nothing was."""
        if not self.recorded:
            return
        depth = self.tree.depth(self.tip) + 1 if node is None else self.tree.depth(node)
        record = DraftStep(
            pos=self.ctx.n - 1 + depth,
            branch=branch,
            node=None if node is None else self.tree.node(node).id,
            conf=six(look.conf),
            bound=bound,
            stopped=node is None,
        )
        if node is None and self.ctx.level == "full":  # of a drawn token they stand on its node
            probs = look.raw.softmax(-1)[None]
            record.top, record.entropy = top_lists(probs, TOP)[0], six(entropies(probs)[0])
        self.ctx.note(record)

    def settle(self, nodes: Iterable[int], fate: TokenFate) -> None:
        self.fates |= dict.fromkeys(self.ids(nodes), fate)
