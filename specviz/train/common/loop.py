"""One training run: steps until the budget is spent, resumable after any interruption.

The checkpoint holds weights, optimiser states, counters and the loss curve; windows need no state (see `tokens`). A
finished run is a checkpoint whose progress is 1: running it again does nothing.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaForCausalLM

from specviz.train.common.job import Report, run_out, save_whole
from specviz.train.common.objectives import Objective, held_out_loss
from specviz.train.common.optim import BatchedMuon, Budget, Stage, learning_rate_share, stage_at
from specviz.train.common.tokens import Feed

MUON_RATE, ADAM_RATE = 0.02, 3e-3
N_CURVE_POINTS = 40


@dataclass(frozen=True, slots=True)
class Job:
    """Everything a run depends on, apart from what the checkpoint remembers."""

    model: LlamaForCausalLM
    objective: Objective
    feed: Feed
    held_out: Tensor
    budget: Budget
    stages: tuple[Stage, ...]
    seed: int
    checkpoint: Path
    rate: float = 1.0
    compiled: bool = False


@dataclass(slots=True)
class Ledger:
    """What has been spent so far, and the curve: (tokens, training loss, held-out loss on code)."""

    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0
    curve: list[tuple[int, float, float]] = field(default_factory=list)


class Run:
    """A job in progress."""

    def __init__(self, job: Job) -> None:
        """Pick up from the job's checkpoint when there is one."""
        self.job = job
        self.ledger = Ledger()
        self.optimizers = _optimizers(job.model, job.rate)
        self._loss = torch.compile(job.objective, dynamic=False) if job.compiled else job.objective
        self._recent: list[float] = []
        if job.checkpoint.exists():
            self._load()

    @property
    def progress(self) -> float:
        """The share of the budget spent."""
        return self.job.budget.progress(self.ledger.seconds, self.ledger.steps)

    def finish(self, report: Report, stop: Callable[[], bool] = lambda: False) -> Ledger:
        """Step until the budget is spent; `stop` ends early, with a checkpoint to go on from."""
        run_out(self, report, stop)
        return self.ledger

    def advance(self) -> tuple[float, float]:
        """One step; its loss, and the tokens it predicted."""
        stage = stage_at(self.job.stages, self.progress)
        self._recent.append(loss := self._step(stage))
        return loss, stage.n_tokens

    def _step(self, stage: Stage) -> float:
        share = learning_rate_share(self.progress)
        _set_attention(self.job.model, stage.length)
        total = 0.0
        for part in range(stage.n_parts):
            windows = self.job.feed.draw((stage.rows, stage.length), (self.job.seed, self.ledger.steps, part))
            loss = self._loss(windows) / stage.n_parts
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.item()
        for optimizer, rate in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * share
            optimizer.step()
            optimizer.zero_grad()
        self.ledger.steps += 1
        self.ledger.tokens += stage.n_tokens
        return total

    def note(self) -> None:
        """Add a point to the curve each time another fortieth of the budget is spent."""
        if int(self.progress * N_CURVE_POINTS) > len(self.ledger.curve):
            began, mean = time.monotonic(), sum(self._recent) / len(self._recent)
            measured = held_out_loss(self.job.model, self.job.held_out)
            while int(self.progress * N_CURVE_POINTS) > len(self.ledger.curve):
                self.ledger.curve.append((self.ledger.tokens, mean, measured))
            self._recent.clear()
            self.ledger.seconds += time.monotonic() - began

    def save(self) -> None:
        """Write the checkpoint so that it is either the old one or the new one."""
        state = {
            "model": self.job.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer, _ in self.optimizers],
            "ledger": asdict(self.ledger),
        }
        save_whole(state, self.job.checkpoint)

    def _load(self) -> None:
        state: dict[str, Any] = torch.load(self.job.checkpoint, weights_only=True)
        self.job.model.load_state_dict(state["model"])
        for (optimizer, _), saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.ledger = Ledger(**state["ledger"])


def _optimizers(model: LlamaForCausalLM, rate: float) -> list[tuple[torch.optim.Optimizer, float]]:
    """Muon for the hidden matrices, AdamW for the embedding and the norms, each with its peak rate."""
    named = list(model.named_parameters())
    hidden = [param for name, param in named if param.ndim == 2 and "embed" not in name]
    others = [param for name, param in named if param.ndim != 2 or "embed" in name]
    adam = torch.optim.AdamW(others, lr=ADAM_RATE, betas=(0.9, 0.95), weight_decay=0.0, fused=True)
    return [(BatchedMuon(hidden, lr=MUON_RATE), MUON_RATE * rate), (adam, ADAM_RATE * rate)]


def _set_attention(model: LlamaForCausalLM, length: int) -> None:
    """Plain products beat the fused kernel on a CPU until the scores outgrow the cache."""
    wanted = "sdpa" if length > 512 else "eager"
    if model.config._attn_implementation != wanted:
        model.set_attn_implementation(wanted)
