"""Training a block network: the target is frozen and runs along; all blocks of a step come from one packed forward.

A step draws windows, anchors and cuts by its own number, so a run that was interrupted goes on with the very same
steps. One checkpoint, written beside its name and moved over it.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specviz.drafters.blocks.files import Trained
from specviz.train.block_losses import How, Losses, Tally, Truth, block_losses
from specviz.train.block_pass import packed
from specviz.train.block_text import Windows
from specviz.train.loop import Report, save_whole
from specviz.train.schedule import Budget

WINDOWS, ANCHORS = 4, 32  # of a step; anchors of a window at which blocks 2 and later run
RATE, WARM_UP, FLOOR, CLIP = 2e-3, 50, 0.05, 0.5
SAVE_EVERY_S = 60.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What the target says of windows: features of all pairs, and the truth its logits hold."""

    tokens: Tensor  # [W, T]
    features: Tensor  # [W, T - 1, n_features]
    truth: Truth


@torch.no_grad()
def look(model: Any, trained: Trained, windows: Tensor, answer_from: int) -> Seen:
    """Run the target over `windows` `[W, T]`."""
    tokens = windows.to(model.device)
    out = model(input_ids=tokens, output_hidden_states=True, use_cache=False)
    features = torch.cat([out.hidden_states[tap][:, :-1] for tap in trained.config.taps], -1)
    logits = out.logits[..., : trained.config.vocab].float()
    return Seen(tokens, features, Truth(logits, trained.vocabulary, answer_from))


def losses_of(
    trained: Trained, embed: Callable[[Tensor], Tensor], seen: Seen, anchors: Tensor, cuts: tuple[int, ...], how: How
) -> list[Losses]:
    """Of block 1 at every pair, and of one further block at `anchors` `[W, A]` for every cut."""
    network, n_pairs = trained.network, seen.features.shape[1]
    every = torch.arange(n_pairs, device=anchors.device).expand(len(anchors), -1)
    made = packed(network, embed, seen.features, seen.tokens, anchors, cuts)
    told = []
    for number, states in enumerate(made):
        first = (every if number == 0 else anchors) + 1 + sum(cuts[:number])
        told.append(block_losses(network, seen.truth, states, first, how))
    return told


@dataclass(slots=True)
class Ledger:
    """What has been spent, and over time: (steps, loss, share of slot 0 and of the last slot that was right)."""

    steps: int = 0
    pairs: int = 0
    seconds: float = 0.0
    curve: list[tuple[int, float, float, float]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Job:
    """Everything a training depends on besides its checkpoint."""

    model: Any
    embed: Callable[[Tensor], Tensor]
    trained: Trained
    windows: Windows
    how: How
    budget: Budget
    seed: int
    checkpoint: Path


class BlockRun:
    """A training in progress; picks up from the job's checkpoint when there is one."""

    def __init__(self, job: Job) -> None:
        self.job, self.ledger = job, Ledger()
        self.network = job.trained.network.requires_grad_(True).train()
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=RATE, betas=(0.9, 0.95), weight_decay=0.0)
        self._recent: list[float] = []
        self._tally = Tally.empty(self.network.shape.slots)
        if job.checkpoint.exists():
            self._load()

    def finish(self, report: Report) -> Ledger:
        """Step until the budget is spent."""
        saved_at = time.monotonic()
        while (progress := self.job.budget.progress(self.ledger.seconds, self.ledger.steps)) < 1.0:
            began = time.monotonic()
            loss, pairs = self.step(progress)
            self.ledger.seconds += (took := time.monotonic() - began)
            report(self.job.budget.progress(self.ledger.seconds, self.ledger.steps), loss, pairs / took)
            self._note(loss)
            if time.monotonic() - saved_at > SAVE_EVERY_S:
                self.save()
                saved_at = time.monotonic()
        self.save()
        self.network.requires_grad_(False).eval()
        return self.ledger

    def step(self, progress: float) -> tuple[float, int]:
        """One step; its loss and how many pairs it saw."""
        job, step = self.job, self.ledger.steps
        windows = job.windows.draw(WINDOWS, (job.seed, step, 1))
        seen = look(job.model, job.trained, windows, job.windows.answer_from)
        anchors, cuts = self._places(seen, step)
        told = losses_of(job.trained, job.embed, seen, anchors, cuts, job.how)
        loss = sum((each.draft + each.rank for each in told), torch.zeros((), device=seen.tokens.device))
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), CLIP)
        for group in self.optimizer.param_groups:
            group["lr"] = RATE * min(1.0, (step + 1) / WARM_UP) * (1 - (1 - FLOOR) * progress)
        self.optimizer.step()
        self.optimizer.zero_grad()
        for each in told:
            self._tally.add(each.tally)
        self.ledger.steps += 1
        pairs = seen.features.shape[0] * seen.features.shape[1]
        self.ledger.pairs += pairs
        return float(loss.detach()), pairs

    def _places(self, seen: Seen, step: int) -> tuple[Tensor, tuple[int, ...]]:
        """Anchors `[W, A]` whose blocks have something to predict, and one cut for every further block."""
        shape, rng = self.network.shape, np.random.default_rng((self.job.seed, step, 2))
        n_cuts = self.job.trained.config.trained_blocks - 1
        cuts = tuple(int(cut) for cut in rng.integers(1, shape.slots + 1, size=n_cuts))
        first, last = max(0, self.job.windows.answer_from - 2 - sum(cuts)), seen.features.shape[1] - 1 - sum(cuts)
        picked = np.stack([rng.permutation(np.arange(first, max(last, first + 1)))[:ANCHORS] for _ in seen.tokens])
        return torch.from_numpy(np.sort(picked, 1)).to(seen.tokens.device), cuts

    def _note(self, loss: float) -> None:
        self._recent.append(loss)
        progress = self.job.budget.progress(self.ledger.seconds, self.ledger.steps)
        if progress * 40 >= len(self.ledger.curve) + 1:
            right = (self._tally.right / self._tally.total.clamp(min=1)).tolist()
            self.ledger.curve.append((self.ledger.steps, sum(self._recent) / len(self._recent), right[0], right[-1]))
            self._recent.clear()
            self._tally = Tally.empty(self.network.shape.slots)

    def save(self) -> None:
        """Write the checkpoint so that it is either the old one or the new one."""
        state = {
            "network": self.network.state_dict(), "optimizer": self.optimizer.state_dict(),
            "ledger": asdict(self.ledger),
        }  # fmt: skip
        save_whole(state, self.job.checkpoint)

    def _load(self) -> None:
        state: dict[str, Any] = torch.load(self.job.checkpoint, weights_only=True)
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.ledger = Ledger(**state["ledger"])
