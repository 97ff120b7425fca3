"""AdaEDL: a chain that ends where the entropy of the draft law promises a rejection.

Looked at before a token is drawn, so the stop depends on the law alone and the text keeps its law. The first
token of a round is always drafted; a stop costs one forward whose token is never drawn, and it is counted. The
threshold moves by what the round before drafted and kept, under the knobs of the round that begins.
"""

import math
from dataclasses import dataclass

import torch

from specviz.engine.decode.context import Context, Observation
from specviz.engine.decode.draft_tree import DraftTree
from specviz.engine.model.adapter import FactoryModels
from specviz.engine.model.rows import Tensor
from specviz.engine.row_stats import facts_of
from specviz.events import DraftStep
from specviz.knobs import Knobs
from specviz.methods.common.runner import laws
from specviz.methods.common.top_k import TOP
from specviz.methods.draft_model.drafter import ChainDrafter
from specviz.names import Mode
from specviz.probability.draft import Draft
from specviz.probability.host import fetch
from specviz.probability.rows import Certain

KEEP_RATE, KEEP_THRESHOLD = 0.5, 0.9  # beta_1 and beta_2 of the paper


@dataclass(slots=True)
class EntropyThreshold:
    """The threshold, and the smoothed acceptance rate that steers it."""

    threshold: float
    rate: float

    def learn(self, drafted: int, accepted: int, longest: int, knobs: Knobs) -> None:
        """Move by one round in which `accepted` of `drafted` tokens were kept, `longest` being the cap."""
        self.rate = KEEP_RATE * self.rate + (1 - KEEP_RATE) * accepted / drafted
        full = accepted == longest
        moved = self.threshold
        if self.rate < knobs["target_rate"]:
            moved += knobs["entropy_step"]
        elif full == (knobs["entropy_decrease"] == "full"):
            moved -= knobs["entropy_step"]
        self.threshold = KEEP_THRESHOLD * self.threshold + (1 - KEEP_THRESHOLD) * moved


class AdaEdl(ChainDrafter):
    """Up to gamma drafted tokens in a row, fewer where the draft model is unsure."""

    calibrated, planned = True, False

    def __init__(self, models: FactoryModels, mode: Mode) -> None:
        super().__init__(models, mode)
        self.controller: EntropyThreshold | None = None
        self._longest = 0
        self._last_round: tuple[int, int] | None = None  # drafted, accepted of the round before

    def propose(self, ctx: Context) -> Draft:
        """A chain of at most `gamma` tokens, cut to the room, at a stop token, or at the entropy stop."""
        self._threshold = self._steer(ctx.knobs)
        return super().propose(ctx)

    def _stops(self, ctx: Context, tree: DraftTree, node: int, logits: Tensor) -> bool:
        self._step = self._look(ctx, tree, node, logits, self._threshold if len(tree) else None)
        return self._step.stopped

    def _draw(self, ctx: Context, tree: DraftTree, parent: int, logits: Tensor) -> int:
        node = super()._draw(ctx, tree, parent, logits)
        self._step.node = tree.node(node).id
        return node

    def _look(self, ctx: Context, tree: DraftTree, node: int, logits: Tensor, bound: float | None) -> DraftStep:
        """Whether to stop before the token after `node` is drawn; `bound` None: not here."""
        entropy = self._entropy(ctx, tree, node, logits)
        conf = 1 - math.sqrt(ctx.knobs["entropy_gain"] * entropy)
        step = DraftStep(
            pos=ctx.n + tree.depth(node), conf=conf, bound=bound, stopped=bound is not None and conf < bound
        )
        if ctx.level == "full":
            step.entropy, step.top = entropy, facts_of(None, logits, TOP).tops[0]
        ctx.note(step)
        return step

    def _entropy(self, ctx: Context, tree: DraftTree, node: int, logits: Tensor) -> float:
        """Of the law the next token would be drawn from, in nats; of the raw softmax where that law is certain."""
        law = laws(ctx, tree, [node], logits)[0]
        ctx.counters.n_syncs += 1
        row = logits[0].softmax(-1) if isinstance(law, Certain) else law
        (entropy,) = fetch(torch.special.entr(row).sum())
        return max(0.0, float(entropy))

    def _steer(self, knobs: Knobs) -> float:
        if self.controller is None:
            self.controller = EntropyThreshold(knobs["lambda0"], knobs["target_rate"])
        elif self._last_round is not None and self._last_round[0]:
            self.controller.learn(*self._last_round, self._longest, knobs)
        self._last_round, self._longest = None, knobs["gamma"]
        return self.controller.threshold

    def observe(self, seen: Observation) -> None:
        if seen.outcome is not None:
            self._last_round = (len(seen.draft), len(seen.outcome.accepted))


def make(models: FactoryModels, knobs: Knobs) -> AdaEdl:
    return AdaEdl(models, knobs["draft_mode"])
