"""Training exit heads: the target is frozen, one pass gives the states of all layers and what they should say.

Resumable: one checkpoint, written beside its name and moved over it; windows and positions are keyed by step.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.methods.early_exit.exit_head import FinalHead
from specviz.train.common.job import Report, run_out, save_whole
from specviz.train.common.optim import Budget, learning_rate_share
from specviz.train.common.tokens import Feed

Labels = Literal["soft", "hard"]
WINDOWS, LENGTH, POSITIONS = 8, 224, 768  # a step: windows, their length, positions that the heads see of them
RATES = {"gain": 3e-3, "lowrank": 3e-3, "square": 2e-3, "tuned": 1e-3, "full": 2e-4, "factored": 5e-4, "adapter": 2e-3}


@dataclass(frozen=True, slots=True)
class States:
    """What one pass of the target says of some positions: states by layer `[n, width]` and final logits `[n, V]`."""

    by_layer: dict[int, Tensor]
    final: Tensor

    @classmethod
    @torch.no_grad()
    def of(
        cls, model: Any, windows: Tensor, layers: tuple[int, ...], vocab: int, keep: Tensor | None = None
    ) -> "States":
        """Run `windows` `[rows, length]`; `keep` picks positions of the flattened windows."""
        out = model(input_ids=windows.to(model.device), output_hidden_states=True, use_cache=False)
        pick = slice(None) if keep is None else keep.to(model.device)
        states = {layer: out.hidden_states[layer].flatten(0, 1)[pick] for layer in layers}
        return cls(states, out.logits.flatten(0, 1)[pick][:, :vocab].float())


def loss_of(scores: Tensor, final: Tensor, labels: Labels, ids: Tensor | None) -> Tensor:
    """Mean cross-entropy of scores `[n, V or K]` with the final distribution (`soft`) or its best token (`hard`).

    With a shortlist, soft labels are those among its tokens, and positions whose best token is off it are left out.
    """
    if labels == "soft":
        wanted = (final if ids is None else final[:, ids]).softmax(-1)
        return F.cross_entropy(scores.float(), wanted)
    best = final.argmax(-1)
    if ids is not None:
        place = torch.full((final.shape[-1],), -100, device=final.device)
        place[ids] = torch.arange(len(ids), device=final.device)
        best = place[best]
    return F.cross_entropy(scores.float(), best, ignore_index=-100)


@dataclass(slots=True)
class Ledger:
    """What has been spent, and the mean loss over time: (steps, loss)."""

    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0
    curve: list[tuple[int, float]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Job:
    """Everything a training depends on besides its checkpoint. `heads` by layer: exit heads, or adapters."""

    model: Any
    final: FinalHead
    heads: Mapping[int, Any]
    feed: Feed
    labels: Labels
    budget: Budget
    seed: int
    checkpoint: Path


class HeadRun:
    """A training in progress; picks up from the job's checkpoint when there is one."""

    def __init__(self, job: Job) -> None:
        self.job, self.ledger = job, Ledger()
        kind = next(iter(job.heads.values())).kind
        self.rate = RATES[kind]
        parameters = [parameter for head in job.heads.values() for parameter in head.parameters()]
        self.optimizer = torch.optim.AdamW(parameters, lr=self.rate, betas=(0.9, 0.95), weight_decay=0.0)
        self._recent: list[float] = []
        if job.checkpoint.exists():
            self._load()

    @property
    def progress(self) -> float:
        """The share of the budget that is spent."""
        return self.job.budget.progress(self.ledger.seconds, self.ledger.steps)

    def finish(self, report: Report) -> Ledger:
        """Step until the budget is spent."""
        run_out(self, report)
        return self.ledger

    def advance(self) -> tuple[float, float]:
        """One step; the mean loss of all heads."""
        job, step, progress = self.job, self.ledger.steps, self.progress
        windows = job.feed.draw((WINDOWS, LENGTH - 1), (job.seed, step, 1))
        rng = torch.Generator().manual_seed(job.seed * 1_000_003 + step)
        keep = torch.randperm(windows.numel(), generator=rng)[:POSITIONS]
        total = 0.0
        for each in self._losses(windows, keep):
            each.backward()  # type: ignore[no-untyped-call]
            total += each.item()
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate * learning_rate_share(progress)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.ledger.steps += 1
        self.ledger.tokens += len(keep)
        self._recent.append(loss := total / len(job.heads))
        return loss, WINDOWS * LENGTH

    def _losses(self, windows: Tensor, keep: Tensor) -> Iterator[Tensor]:
        """The loss of every head on the positions `keep` of the flattened windows, one graph at a time."""
        job = self.job
        states = States.of(job.model, windows, tuple(job.heads), job.final.vocab, keep)
        for layer, head in job.heads.items():
            yield loss_of(head(states.by_layer[layer], job.final), states.final, job.labels, job.final.ids)

    def note(self) -> None:
        """Add a point to the curve each time another fortieth of the budget is spent."""
        if self.progress * 40 >= len(self.ledger.curve) + 1:
            self.ledger.curve.append((self.ledger.steps, sum(self._recent) / len(self._recent)))
            self._recent.clear()

    def save(self) -> None:
        """Write the checkpoint so that it is either the old one or the new one."""
        state = {
            "heads": {str(layer): head.state_dict() for layer, head in self.job.heads.items()},
            "optimizer": self.optimizer.state_dict(),
            "ledger": asdict(self.ledger),
        }
        save_whole(state, self.job.checkpoint)

    def _load(self) -> None:
        state: dict[str, Any] = torch.load(self.job.checkpoint, weights_only=True)
        for layer, head in self.job.heads.items():
            head.load_state_dict(state["heads"][str(layer)])
        self.optimizer.load_state_dict(state["optimizer"])
        self.ledger = Ledger(**state["ledger"])
