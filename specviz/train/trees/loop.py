"""The loop that trains a drafter beside a frozen target: steps until the budget is spent, one checkpoint.

A step draws what it needs by its own number, so a run that was interrupted goes on with the very same steps. It may be
made of several parts, here or in other processes; a part has windows of its own and the gradients are averaged.

Muon moves the matrices between hidden states, AdamW what is left (heads, norms, queries): on the embedded target 120
steps of either took the same time and brought the first slot to a loss of 4.5 and 5.3. The drafter computes in
bfloat16 over float32 weights, the target in its own precision: its best token is a label.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from specviz.errors import SpecvizError
from specviz.methods.specblock.losses import Truth
from specviz.train.common.job import Report, run_out, save_whole
from specviz.train.common.optim import BatchedMuon, Budget
from specviz.train.common.tokens import Store
from specviz.train.common.workers import Workers
from specviz.train.trees.block_text import Windows

Optimizer = Literal["muon", "adamw"]
Precision = Literal["bf16", "fp32"]
WINDOWS = 2  # of a part
RATE, MUON_RATE, WARM_UP, FLOOR, CLIP = 1.5e-3, 2e-2, 50, 0.05, 0.5


@dataclass(frozen=True, slots=True)
class Pace:
    """How a run steps. `batch`: windows of a part; `accumulate`: parts that a process adds up before weights move.

    `rate`, `muon_rate`: AdamW's and Muon's at their peak, which is reached after `warm_up` steps; then they fall in a
    line to a twentieth.
    """

    batch: int = WINDOWS
    accumulate: int = 1
    optimizer: Optimizer = "muon"
    rate: float = RATE
    muon_rate: float = MUON_RATE
    warm_up: int = WARM_UP
    precision: Precision = "bf16"


@dataclass(frozen=True, slots=True)
class Seen:
    """What the target says of windows: features of all pairs, and the truth its logits hold."""

    tokens: Tensor  # [W, T]
    features: Tensor  # [W, T - 1, n_features]
    truth: Truth

    @property
    def n_pairs(self) -> int:
        """Of all windows."""
        return self.features.shape[0] * self.features.shape[1]


@torch.no_grad()
def look(model: Any, trained: Any, taps: tuple[int, ...], windows: Tensor, answer_from: int) -> Seen:
    """Run the target over `windows` `[W, T]`; `trained` is the drafter it is asked for."""
    tokens = windows.to(model.device)
    with torch.autocast(tokens.device.type, enabled=False):
        out = model(input_ids=tokens, output_hidden_states=True, use_cache=False)
    features = torch.cat([out.hidden_states[tap][:, :-1] for tap in taps], -1)
    truth = Truth(out.logits[..., : trained.config.vocab].float(), trained.vocabulary, answer_from)
    return Seen(tokens, features, truth)


@dataclass(frozen=True, slots=True)
class Lesson:
    """Everything a part of a step depends on besides its number and the weights: target, drafter, text."""

    model: Any
    trained: Any
    taps: tuple[int, ...]
    windows: Windows
    seed: int
    batch: int = WINDOWS

    def seen(self, step: int, part: int) -> Seen:
        """The windows of a part of a step, and what the target says of them."""
        drawn = self.windows.draw(self.batch, self.key(step, part))
        return look(self.model, self.trained, self.taps, drawn, self.windows.answer_from)

    def key(self, step: int, part: int, what: int = 1) -> tuple[int, int, int]:
        """What random draws of a part are keyed by: 1 its windows, 2 places in them."""
        return self.seed, step, what + 2 * part


@dataclass(frozen=True, slots=True)
class Step:
    """One part's loss; what is shown of it: the loss of the first place, share right of the first and the last."""

    loss: Tensor
    shown: float
    right: tuple[float, float]
    pairs: int


Take = Callable[[int, int, float], Step]


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
    """A training in progress; picks up from its checkpoint when there is one. `take` makes a part's loss.

    It is given the step, the part and how far the run is.
    Parts are numbered through all processes, so two processes do in a step what one does that adds up two parts.
    """

    def __init__(
        self, network: nn.Module, budget: Budget, checkpoint: Path, take: Take,
        pace: Pace | None = None, workers: Workers | None = None,
    ) -> None:  # fmt: skip
        self.network = network.requires_grad_(True).train()
        self.budget, self.checkpoint, self.take, self.ledger = budget, checkpoint, take, Ledger()
        self.pace, self.workers = pace or Pace(), workers or Workers()
        self.optimizers = optimizers(self.network, self.pace)
        self._recent: list[list[float]] = []
        if checkpoint.exists():
            self._load()
        self.workers.same(self.network)

    @property
    def progress(self) -> float:
        """The share of the budget that is spent."""
        return self.budget.progress(self.ledger.seconds, self.ledger.steps)

    def finish(self, report: Report) -> Ledger:
        """Step until the budget is spent."""
        run_out(self, report, together=self.workers.together)
        self.network.requires_grad_(False).eval()
        return self.ledger

    def advance(self) -> tuple[float, float]:
        """One step; the loss of the first place, and how many pairs it read."""
        progress, number, pace, workers = self.progress, self.ledger.steps, self.pace, self.workers
        shown, pairs = torch.zeros(3, dtype=torch.float64), 0
        for turn in range(pace.accumulate):
            done = self._part(number, progress, workers.rank + workers.count * turn)
            shown += torch.tensor([done.shown, *done.right], dtype=torch.float64) / pace.accumulate
            pairs += done.pairs * workers.count
        workers.average_gradients(self.network)
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), CLIP)
        share = min(1.0, (number + 1) / pace.warm_up) * (1 - (1 - FLOOR) * progress)
        for optimizer, rate in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * share
            optimizer.step()
            optimizer.zero_grad()
        self.ledger.steps += 1
        self.ledger.pairs += pairs
        self._recent.append(workers.average(shown.to(workers.device)).tolist())
        return self._recent[-1][0], pairs

    def _part(self, number: int, progress: float, part: int) -> Step:
        """Add a part's gradients."""
        kind = next(self.network.parameters()).device.type
        with torch.autocast(kind, torch.bfloat16, enabled=self.pace.precision == "bf16"):
            done = self.take(number, part, progress)
        (done.loss / self.pace.accumulate).backward()  # type: ignore[no-untyped-call]
        return done

    def note(self) -> None:
        """Add a point to the curve each time another fortieth of the budget is spent."""
        if self.progress * 40 >= len(self.ledger.curve) + 1:
            loss, first, last = (sum(each) / len(self._recent) for each in zip(*self._recent, strict=True))
            self.ledger.curve.append((self.ledger.steps, loss, first, last))
            self._recent.clear()

    def save(self) -> None:
        """Write the checkpoint so that it is either the old one or the new one; the main process does."""
        if self.workers.main:
            state = {
                "network": self.network.state_dict(), "optimizers": [each.state_dict() for each, _ in self.optimizers],
                "ledger": asdict(self.ledger),
            }  # fmt: skip
            save_whole(state, self.checkpoint)

    def _load(self) -> None:
        try:
            state: dict[str, Any] = torch.load(self.checkpoint, map_location="cpu", weights_only=True)
            self.network.load_state_dict(state["network"])
            for (optimizer, _), saved in zip(self.optimizers, state["optimizers"], strict=True):
                optimizer.load_state_dict(saved)
            self.ledger = Ledger(**state["ledger"])
        except (OSError, EOFError, RuntimeError, KeyError, TypeError, ValueError) as error:
            why = " ".join(str(error).split())[:120]
            raise SpecvizError(
                f"cannot go on from {self.checkpoint}: {why}; remove it, or give another --work"
            ) from error


def optimizers(network: nn.Module, pace: Pace) -> list[tuple[torch.optim.Optimizer, float]]:
    """What moves a drafter's weights, each with its peak rate."""
    linear = [(name, module.weight) for name, module in network.named_modules() if isinstance(module, nn.Linear)]
    hidden = [weight for name, weight in linear if not name.startswith(("head", "rank"))]
    own = {id(weight) for weight in hidden if pace.optimizer == "muon"}
    others = [parameter for parameter in network.parameters() if id(parameter) not in own]
    made: list[tuple[torch.optim.Optimizer, float]] = [
        (torch.optim.AdamW(others, lr=pace.rate, betas=(0.9, 0.95), weight_decay=0.0), pace.rate)
    ]
    if own:
        made.append((BatchedMuon(hidden, lr=pace.muon_rate, weight_decay=0.0), pace.muon_rate))
    return made


@dataclass(frozen=True, slots=True)
class Held:
    """What is measured on: windows `[n, T]` the target wrote behind held-out beginnings, and held-out text."""

    windows: Tensor
    answer_from: int
    source: Store


@dataclass(frozen=True, slots=True)
class Made:
    """How a drafter came about: the command that repeats it, its settings, what was spent."""

    command: str
    settings: dict[str, Any]
    spent: dict[str, Any]
