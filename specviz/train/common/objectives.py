"""What a step minimises, as functions from a batch of windows [rows, length + 1] to one loss."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import LlamaForCausalLM

Objective = Callable[[Tensor], Tensor]
DATA_SHARE = 0.2
"""Share of plain cross-entropy in the distillation loss; the rest is the divergence from the target."""


def _logits(model: LlamaForCausalLM, windows: Tensor) -> Tensor:
    """Next-token logits [rows * length, vocab], matrix products in bfloat16."""
    with torch.autocast("cpu", torch.bfloat16):
        logits: Tensor = model(input_ids=windows[:, :-1], use_cache=False).logits
    return logits.flatten(0, 1)


def next_token(model: LlamaForCausalLM) -> Objective:
    """Cross-entropy with the text."""

    def loss(windows: Tensor) -> Tensor:
        return F.cross_entropy(_logits(model, windows).float(), windows[:, 1:].flatten())

    return loss


def distilled(model: LlamaForCausalLM, target: LlamaForCausalLM) -> Objective:
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
    """Mean next-token loss in nats over `windows`, `rows` at a time."""
    objective = next_token(model)
    parts = [(objective(part).item(), len(part)) for part in torch.split(windows, rows)]
    return sum(loss * count for loss, count in parts) / sum(count for _, count in parts)
