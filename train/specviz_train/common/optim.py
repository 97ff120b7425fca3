"""What part of its budget a run has spent, and what follows from that: learning rate, window length, batch; and Muon.

Progress is a share between 0 and 1, of seconds or of steps. Everything else is a function of it, so a run that was
interrupted, slowed by neighbours or given three minutes ends fully decayed all the same.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

WARM_UP = 0.01


@dataclass(frozen=True, slots=True)
class BatchStage:
    """Up to `until` (a share of the run): windows of `length`, `rows` at a time, `n_parts` of them to a step."""

    until: float
    length: int
    rows: int
    n_parts: int

    @property
    def n_tokens(self) -> int:
        """Tokens that one step predicts."""
        return self.length * self.rows * self.n_parts


FULL = (
    BatchStage(0.30, 256, 8, 1),
    BatchStage(0.68, 256, 8, 2),
    BatchStage(0.85, 512, 4, 2),
    BatchStage(1.0, 1_024, 2, 2),
)
"""Short windows while local patterns are learnt; only the end pays for long ones, up to the full context."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit in seconds of training or in steps; exactly one of them is given."""

    seconds: float | None = None
    steps: int | None = None

    def __post_init__(self) -> None:
        """Refuse a budget with no end or with two."""
        assert (self.seconds is None) != (self.steps is None), f"one limit: {self.seconds=} {self.steps=}"

    def progress(self, seconds: float, steps: int) -> float:
        """The share spent, at most 1."""
        spent = steps / self.steps if self.steps is not None else seconds / (self.seconds or 1.0)
        return min(1.0, spent)


def learning_rate_share(progress: float) -> float:
    """Short linear warm-up, then linear decay: 1 at the end of the warm-up, 0 at the end of the run."""
    if progress < WARM_UP:
        return max(progress / WARM_UP, 0.05)
    return max(0.0, (1.0 - progress) / (1.0 - WARM_UP))


def stage_at(stages: tuple[BatchStage, ...], progress: float) -> BatchStage:
    """The stage that holds at `progress`."""
    return next((stage for stage in stages if progress < stage.until), stages[-1])


_A, _B, _C = 3.4445, -4.7750, 2.0315
_N_STEPS = 5
_EPS = 1e-7


def orthogonalise(updates: Tensor) -> Tensor:
    """Newton-Schulz in bfloat16 towards the nearest (semi-)orthogonal matrices, [n, rows, columns]."""
    tall = updates.size(-2) > updates.size(-1)
    x = (updates.mT if tall else updates).bfloat16()
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=_EPS)
    for _ in range(_N_STEPS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=_B, alpha=_C), x, beta=_A)
    return x.mT if tall else x


class BatchedMuon(torch.optim.Optimizer):
    """Muon over 2-D parameters, Nesterov momentum 0.95, with the matrices of one shape orthogonalised together.

    The rule, its constants and its learning-rate scaling are those of `torch.optim.Muon` (Jordan et al. 2024; a test
    holds the two together), which walks the matrices one by one: the 84 small ones of the target cost 240 ms a step on
    two CPU cores, half a training step. As one batched product for each shape they cost 60.
    """

    def __init__(self, params: Iterable[Tensor], lr: float, weight_decay: float = 0.1, momentum: float = 0.95) -> None:
        """Group `params` by shape; `lr` is scaled by sqrt(rows / columns) for tall matrices."""
        shapes: dict[tuple[int, ...], list[Tensor]] = {}
        for param in params:
            shapes.setdefault(tuple(param.shape), []).append(param)
        groups = [{"params": same} for same in shapes.values()]
        super().__init__(groups, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Apply one update to every group."""
        for group in self.param_groups:
            _update(group, group["params"], [self.state[param] for param in group["params"]])


def _update(group: dict[str, Any], params: list[Tensor], states: list[dict[str, Tensor]]) -> None:
    momentum, lr = group["momentum"], group["lr"]
    grads = [param.grad for param in params if param.grad is not None]
    assert len(grads) == len(params), f"{len(params) - len(grads)} of {len(params)} matrices have no gradient"
    for param, state in zip(params, states, strict=True):
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(param)
    buffers = [state["momentum_buffer"] for state in states]
    torch._foreach_lerp_(buffers, grads, 1 - momentum)
    updates = orthogonalise(torch.stack(torch._foreach_lerp(grads, buffers, momentum)))
    scale = max(1.0, params[0].size(-2) / params[0].size(-1)) ** 0.5
    torch._foreach_mul_(params, 1 - lr * group["weight_decay"])
    torch._foreach_add_(params, [update.to(params[0].dtype) for update in updates], alpha=-lr * scale)
