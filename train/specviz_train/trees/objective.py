"""How a drafter learns beside a frozen target: what it reads of it, and the steps that its weights take.

A step may be made of several parts, here or in other processes; a part has windows of its own and the gradients are
averaged.

Muon moves the matrices between hidden states, AdamW what is left (heads, norms, queries): on the embedded target 120
steps of either took the same time and brought the first slot to a loss of 4.5 and 5.3. The drafter computes in
bfloat16 over float32 weights, the target in its own precision: its best token is a label.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from specviz.methods.specblock.losses import TargetRows
from specviz_train.common.kept_states import KeptStates
from specviz_train.common.loop import Loop, Objective, Rated, StepResult, move
from specviz_train.common.optim import BatchedMuon, Budget
from specviz_train.common.own_text import OwnWindows
from specviz_train.common.training_text import Ids
from specviz_train.common.workers import Workers

Optimizer = Literal["muon", "adamw"]
Precision = Literal["bf16", "fp32"]
WINDOWS = 2  # of a part
RATE, MUON_RATE, WARM_UP, FLOOR, CLIP = 1.5e-3, 2e-2, 50, 0.05, 0.5


@dataclass(frozen=True, slots=True)
class TrainingPace:
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
class TargetOutputs:
    """What the target says of windows: features of all pairs, and the truth its logits hold."""

    tokens: Tensor  # [W, T]
    features: Tensor  # [W, T - 1, n_features]
    truth: TargetRows

    @property
    def n_pairs(self) -> int:
        """Of all windows."""
        return self.features.shape[0] * self.features.shape[1]


@torch.no_grad()
def read_target(model: Any, trained: Any, taps: tuple[int, ...], windows: Tensor, written: Tensor) -> TargetOutputs:
    """Run the target over `windows` `[W, T]`, of which it wrote those of `written`, for the drafter `trained`."""
    tokens = windows.to(model.device)
    with torch.autocast(tokens.device.type, enabled=False):
        out = model(input_ids=tokens, output_hidden_states=True, use_cache=False)
    features = torch.cat([out.hidden_states[tap][:, :-1] for tap in taps], -1)
    truth = TargetRows(out.logits[..., : trained.config.vocab].float(), trained.vocabulary, written.to(model.device))
    return TargetOutputs(tokens, features, truth)


@dataclass(frozen=True, slots=True)
class DrafterBatches:
    """Everything a part of a step depends on besides its number and the weights: target, drafter, text.

    `parts`: how many make a step, in all processes together.
    """

    model: Any
    trained: Any
    taps: tuple[int, ...]
    windows: OwnWindows
    seed: int
    batch: int = WINDOWS
    kept: KeptStates | None = None
    parts: int = 1

    def numbers(self, step: int, part: int) -> Ids:
        """The windows `[batch]` of a part of a step: none comes twice before all came once."""
        return self.windows.in_turn(self.batch, step * self.parts + part, self.seed)

    def seen(self, step: int, part: int) -> TargetOutputs:
        """The windows of a part of a step, and what the target says of them."""
        picked = self.numbers(step, part)
        if self.kept is not None:
            return self._known(self.kept, picked)
        return read_target(self.model, self.trained, self.taps, *self.windows.at(picked))

    @torch.no_grad()
    def _known(self, kept: KeptStates, picked: Ids) -> TargetOutputs:
        kept.ask(picked)
        tokens, written = (array.to(self.model.device) for array in self.windows.at(picked))
        features = torch.cat([kept.states(tap, picked)[:, :-1] for tap in self.taps], -1)
        logits, best = kept.logits(picked, self.trained.vocabulary.ids), kept.best(picked)
        return TargetOutputs(tokens, features, TargetRows(logits, self.trained.vocabulary, written, best))

    def key(self, step: int, part: int, what: int = 2) -> tuple[int, int, int]:
        """What random draws of a part are keyed by: 2 places in its windows."""
        return self.seed, step, what + 2 * part


@dataclass(frozen=True, slots=True)
class PartResult:
    """One part's loss; what is shown of it: the loss of the first place, share right of the first and the last."""

    loss: Tensor
    shown: float
    right: tuple[float, float]
    pairs: int


PartLoss = Callable[[int, int, float], PartResult]


class DrafterObjective(Objective):
    """A drafter; `part_loss` makes a part's loss, given the step, the part and how far the run is.

    Parts are numbered through all processes, so two processes do in a step what one does that adds up two parts. A step
    shows the loss of the first place and the share right of the first and the last.
    """

    def __init__(self, network: nn.Module, part_loss: PartLoss, pace: TrainingPace, workers: Workers) -> None:
        self.network = network.requires_grad_(True).train()
        self.part_loss, self.pace, self.workers = part_loss, pace, workers
        self.optimizers: Rated = optimizers(self.network, pace)

    def step(self, number: int, progress: float) -> StepResult:
        """Add up the parts of this process, average with the others, move."""
        pace, workers = self.pace, self.workers
        shown, pairs = torch.zeros(3, dtype=torch.float64), 0
        device = next(self.network.parameters()).device.type
        for turn in range(pace.accumulate):
            with torch.autocast(device, torch.bfloat16, enabled=pace.precision == "bf16"):
                done = self.part_loss(number, workers.rank + workers.count * turn, progress)
            (done.loss / pace.accumulate).backward()  # type: ignore[no-untyped-call]
            shown += torch.tensor([done.shown, *done.right], dtype=torch.float64) / pace.accumulate
            pairs += done.pairs * workers.count
        workers.average_gradients(self.network)
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), CLIP)
        move(self.optimizers, min(1.0, (number + 1) / pace.warm_up) * (1 - (1 - FLOOR) * progress))
        return StepResult(tuple(workers.average(shown.to(workers.device)).tolist()), pairs)

    def weights(self) -> dict[str, Any]:
        return {"network": self.network.state_dict()}

    def load(self, state: dict[str, Any]) -> bool:
        self.network.load_state_dict(state["network"])
        return True


def drafter_loop(
    network: nn.Module,
    budget: Budget,
    checkpoint: Path,
    part_loss: PartLoss,
    pace: TrainingPace | None = None,
    workers: Workers | None = None,
) -> Loop:
    """A training of `network`, with the same weights in all processes."""
    workers = workers or Workers()
    loop = Loop(DrafterObjective(network, part_loss, pace or TrainingPace(), workers), budget, checkpoint, workers)
    workers.same(network)
    return loop


def optimizers(network: nn.Module, pace: TrainingPace) -> list[tuple[torch.optim.Optimizer, float]]:
    """What moves a drafter's weights, each with its peak rate."""
    linear = [(name, module.weight) for name, module in network.named_modules() if isinstance(module, nn.Linear)]
    hidden = [weight for name, weight in linear if not name.startswith(("head", "rank"))]
    own = {id(weight) for weight in hidden if pace.optimizer == "muon"}
    others = [parameter for parameter in network.parameters() if id(parameter) not in own]
    optimizer_rates: list[tuple[torch.optim.Optimizer, float]] = [
        (torch.optim.AdamW(others, lr=pace.rate, betas=(0.9, 0.95), weight_decay=0.0), pace.rate)
    ]
    if own:
        optimizer_rates.append((BatchedMuon(hidden, lr=pace.muon_rate, weight_decay=0.0), pace.muon_rate))
    return optimizer_rates
