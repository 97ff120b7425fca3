"""The loop that trains a drafter beside a frozen target: steps until the budget is spent, one checkpoint.

A step draws what it needs by its own number, so a run that was interrupted goes on with the very same steps. The
checkpoint is written beside its name and moved over it.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from specviz.drafters.blocks.losses import Truth
from specviz.train.block_text import Windows
from specviz.train.loop import Report, save_whole
from specviz.train.schedule import Budget

WINDOWS = 4  # of a step
RATE, WARM_UP, FLOOR, CLIP = 2e-3, 50, 0.05, 0.5
SAVE_EVERY_S = 60.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What the target says of windows: features of all pairs, and the truth its logits hold."""

    tokens: Tensor  # [W, T]
    features: Tensor  # [W, T - 1, n_features]
    truth: Truth


@torch.no_grad()
def look(model: Any, trained: Any, taps: tuple[int, ...], windows: Tensor, answer_from: int) -> Seen:
    """Run the target over `windows` `[W, T]`; `trained` is the drafter it is asked for."""
    tokens = windows.to(model.device)
    out = model(input_ids=tokens, output_hidden_states=True, use_cache=False)
    features = torch.cat([out.hidden_states[tap][:, :-1] for tap in taps], -1)
    truth = Truth(out.logits[..., : trained.config.vocab].float(), trained.vocabulary, answer_from)
    return Seen(tokens, features, truth)


@dataclass(frozen=True, slots=True)
class Step:
    """One step's loss; what is shown of it: the loss of the first place, share right of the first and the last."""

    loss: Tensor
    shown: float
    right: tuple[float, float]
    pairs: int


@dataclass(slots=True)
class Ledger:
    """What has been spent, and over time: (steps, loss of the first place, share right of the first and the last)."""

    steps: int = 0
    pairs: int = 0
    seconds: float = 0.0
    curve: list[tuple[int, float, float, float]] = field(default_factory=list)

    def spent(self, minutes: float, windows: Windows) -> dict[str, Any]:
        """For a card."""
        curve = [[steps, *(round(value, 4) for value in rest)] for steps, *rest in self.curve]
        return {
            "steps": self.steps, "pairs": self.pairs, "own_tokens": int(windows.ids.size),
            "minutes": round(minutes, 2), "curve": curve,
        }  # fmt: skip


class DrafterRun:
    """A training in progress; picks up from its checkpoint when there is one. `take(step)` makes a step's loss."""

    def __init__(self, network: nn.Module, budget: Budget, checkpoint: Path, take: Callable[[int], Step]) -> None:
        self.network = network.requires_grad_(True).train()
        self.budget, self.checkpoint, self.take, self.ledger = budget, checkpoint, take, Ledger()
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=RATE, betas=(0.9, 0.95), weight_decay=0.0)
        self._recent: list[tuple[float, float, float]] = []
        if checkpoint.exists():
            self._load()

    @property
    def progress(self) -> float:
        """The share of the budget that is spent."""
        return self.budget.progress(self.ledger.seconds, self.ledger.steps)

    def finish(self, report: Report) -> Ledger:
        """Step until the budget is spent."""
        saved_at = time.monotonic()
        while self.progress < 1.0:
            began = time.monotonic()
            done = self.step()
            self.ledger.seconds += (took := time.monotonic() - began)
            report(self.progress, done.shown, done.pairs / took)
            self._note(done)
            if time.monotonic() - saved_at > SAVE_EVERY_S:
                self.save()
                saved_at = time.monotonic()
        self.save()
        self.network.requires_grad_(False).eval()
        return self.ledger

    def step(self) -> Step:
        """One step."""
        progress, number = self.progress, self.ledger.steps
        done = self.take(number)
        done.loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), CLIP)
        for group in self.optimizer.param_groups:
            group["lr"] = RATE * min(1.0, (number + 1) / WARM_UP) * (1 - (1 - FLOOR) * progress)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.ledger.steps += 1
        self.ledger.pairs += done.pairs
        return done

    def _note(self, done: Step) -> None:
        self._recent.append((done.shown, *done.right))
        if self.progress * 40 >= len(self.ledger.curve) + 1:
            loss, first, last = (sum(each) / len(self._recent) for each in zip(*self._recent, strict=True))
            self.ledger.curve.append((self.ledger.steps, loss, first, last))
            self._recent.clear()

    def save(self) -> None:
        """Write the checkpoint so that it is either the old one or the new one."""
        state = {
            "network": self.network.state_dict(), "optimizer": self.optimizer.state_dict(),
            "ledger": asdict(self.ledger),
        }  # fmt: skip
        save_whole(state, self.checkpoint)

    def _load(self) -> None:
        state: dict[str, Any] = torch.load(self.checkpoint, weights_only=True)
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.ledger = Ledger(**state["ledger"])
