"""What a step of the pair minimises: the next token of text, or the distance of a draft model from its target."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import LlamaForCausalLM

from specviz.train.common.loop import Objective, Point, Rated, StepResult, TrainingLedger, move
from specviz.train.common.optim import BatchedMuon, BatchStage, learning_rate_share, stage_at
from specviz.train.common.tokens import WindowFeed

WindowLoss = Callable[[Tensor], Tensor]  # of windows [rows, length + 1]
DATA_SHARE = 0.2
"""Share of plain cross-entropy in the distillation loss; the rest is the divergence from the target."""
MUON_RATE, ADAM_RATE = 0.02, 3e-3


def _logits(model: LlamaForCausalLM, windows: Tensor) -> Tensor:
    """Next-token logits `[rows * length, vocab]` of windows `[rows, length + 1]`, matrix products in bfloat16."""
    with torch.autocast("cpu", torch.bfloat16):
        logits: Tensor = model(input_ids=windows[:, :-1], use_cache=False).logits
    return logits.flatten(0, 1)


def next_token(model: LlamaForCausalLM) -> WindowLoss:
    """Cross-entropy with the text."""
    return lambda windows: F.cross_entropy(_logits(model, windows).float(), windows[:, 1:].flatten())


def distilled(model: LlamaForCausalLM, target: LlamaForCausalLM) -> WindowLoss:
    """Forward KL from the target's distribution (which the draft model must cover to be accepted), and some text."""

    def loss(windows: Tensor) -> Tensor:
        with torch.no_grad():
            wanted = F.log_softmax(_logits(target, windows).float(), dim=-1)
        found = F.log_softmax(_logits(model, windows).float(), dim=-1)
        divergence = F.kl_div(found, wanted, reduction="batchmean", log_target=True)
        return (1 - DATA_SHARE) * divergence + DATA_SHARE * F.nll_loss(found, windows[:, 1:].flatten())

    return loss


@torch.no_grad()
def held_out_loss(model: LlamaForCausalLM, windows: Tensor, rows: int = 8) -> float:
    """Mean next-token loss in nats over `windows` `[n, length + 1]`, `rows` at a time."""
    loss = next_token(model)
    parts = [(loss(part).item(), len(part)) for part in torch.split(windows, rows)]
    return sum(loss * count for loss, count in parts) / sum(count for _, count in parts)


@dataclass
class LanguageObjective(Objective):
    """A model that learns from windows of text; its curve is (tokens, training loss, held-out loss).

    `rate`: the share of the usual peak rates.
    """

    model: LlamaForCausalLM
    loss: WindowLoss
    feed: WindowFeed
    held_out: Tensor  # [n, length + 1]
    stages: tuple[BatchStage, ...]
    seed: int
    rate: float = 1.0
    compiled: bool = False
    optimizers: Rated = field(init=False)

    def __post_init__(self) -> None:
        """Muon for the hidden matrices, AdamW for the embedding and the norms."""
        named = list(self.model.named_parameters())
        hidden = [param for name, param in named if param.ndim == 2 and "embed" not in name]
        others = [param for name, param in named if param.ndim != 2 or "embed" in name]
        adam = torch.optim.AdamW(others, lr=ADAM_RATE, betas=(0.9, 0.95), weight_decay=0.0, fused=True)
        muon = BatchedMuon(hidden, lr=MUON_RATE)
        self.optimizers = [(muon, MUON_RATE * self.rate), (adam, ADAM_RATE * self.rate)]
        if self.compiled:
            self.loss = torch.compile(self.loss, dynamic=False)

    def step(self, number: int, progress: float) -> StepResult:
        """One step on windows as long as the run's stage has them."""
        stage = stage_at(self.stages, progress)
        _set_attention(self.model, stage.length)
        total = 0.0
        for part in range(stage.n_parts):
            windows = self.feed.draw((stage.rows, stage.length), (self.seed, number, part))
            loss = self.loss(windows) / stage.n_parts
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.item()
        move(self.optimizers, learning_rate_share(progress))
        return StepResult((total,), stage.n_tokens)

    def points(self, ledger: TrainingLedger, shown: Point, due: int) -> list[Point]:
        """Every point that is due, as measured now."""
        return [(ledger.tokens, *shown, held_out_loss(self.model, self.held_out))] * due

    def weights(self) -> dict[str, Any]:
        return {"model": self.model.state_dict()}

    def load(self, state: dict[str, Any]) -> bool:
        self.model.load_state_dict(state["model"])
        return True


def _set_attention(model: LlamaForCausalLM, length: int) -> None:
    """Plain products beat the fused kernel on a CPU until the scores outgrow the cache."""
    wanted = "sdpa" if length > 512 else "eager"
    if model.config._attn_implementation != wanted:
        model.set_attn_implementation(wanted)
