"""Training H-RAD: 20 epochs of small batches, class weights, and the epoch that is best on held-out prompts."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from specviz.methods.branch.hrad import CLASSES, Network
from specviz_train.common.loop import Loop, Objective, Point, StepResult, TrainingLedger, move
from specviz_train.common.optim import Budget

EPOCHS, BATCH, RATE, DECAY = 20, 32, 1e-3, 1e-2
_ROWS = 4096  # looked at at once where nothing is learned
_FLAT = 1e-6  # a feature that deviates less, relative to its mean, is left out


@dataclass(frozen=True, slots=True)
class LabelledRounds:
    """Features `[n, inputs]` in float16 and classes `[n]`."""

    features: NDArray[np.float16]
    labels: NDArray[np.int64]

    def rows(self, pick: Any) -> Tensor:
        """Some of them in float32."""
        return torch.from_numpy(self.features[pick]).float()


class HradObjective(Objective):
    """H-RAD, a step of which is an epoch; it shows the epoch's loss and the macro-F1 on held-out rounds.

    Order and dropout are keyed by (seed, epoch). `best`: the weights of `best_epoch`, which scored `best_score`.
    """

    def __init__(self, train: LabelledRounds, held_out: LabelledRounds, seed: int, epochs: int = EPOCHS) -> None:
        self.train, self.held_out, self.seed, self.epochs = train, held_out, seed, epochs
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = Network(train.features.shape[1])
        standardise(self.network, train)
        self.class_weights = class_weights(train.labels)
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=RATE, weight_decay=DECAY)
        self.optimizers = [(self.optimizer, RATE)]
        self.best, self.best_epoch, self.best_score = _copied(self.network), 0, -1.0
        self.score = 0.0  # of the last epoch

    def step(self, number: int, progress: float) -> StepResult:
        """One pass over the training rounds in an order of its own."""
        n = len(self.train.labels)
        order = np.random.default_rng((self.seed, number)).permutation(n)
        n_batches = math.ceil(n / BATCH)
        labels, total = torch.from_numpy(self.train.labels), 0.0
        self.network.train()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed * 1_000_003 + number)  # for dropout, which takes no generator
            for batch in range(n_batches):
                pick = order[batch * BATCH : (batch + 1) * BATCH]
                loss = F.cross_entropy(self.network(self.train.rows(pick)), labels[pick], self.class_weights)
                loss.backward()  # type: ignore[no-untyped-call]
                at = (number + batch / n_batches) / self.epochs
                move(self.optimizers, 0.5 * (1 + math.cos(math.pi * at)))
                total += loss.item() * len(pick)
        self.score = macro_f1(confusion(self.network, self.held_out))
        if self.score > self.best_score:
            self.best, self.best_epoch, self.best_score = _copied(self.network), number + 1, self.score
        return StepResult((total / n, self.score), n)

    def points(self, ledger: TrainingLedger, shown: Point, due: int) -> list[Point]:
        """Loss and score of the epoch."""
        return [shown]

    def weights(self) -> dict[str, Any]:
        return {
            "n": len(self.train.labels),
            "epochs": self.epochs,
            "network": self.network.state_dict(),
            "best": self.best,
            "best_epoch": self.best_epoch,
        }

    def load(self, state: dict[str, Any]) -> bool:
        """Take them over; False where more rounds were asked for since."""
        if (state["n"], state["epochs"]) != (len(self.train.labels), self.epochs):
            return False
        self.network.load_state_dict(state["network"])
        self.best, self.best_epoch = state["best"], state["best_epoch"]
        curve = state["curve"] if "curve" in state else state["ledger"]["curve"]
        self.best_score = max((score for _, score in curve), default=-1.0)
        return True


@dataclass(slots=True)
class FittedHrad:
    """The network of the best epoch. `curve`: training loss and held-out macro-F1 of every epoch."""

    network: Network
    epoch: int
    curve: list[Point]


def fit(
    objective: HradObjective,
    checkpoint: Path,
    report: Callable[[int, str], None],
    stop: Callable[[], bool] = lambda: False,
) -> FittedHrad:
    """Train, or go on training; the network as of the epoch with the best macro-F1. `report` is told of each epoch."""
    loop = Loop(objective, Budget(steps=objective.epochs), checkpoint)

    def report_epoch(progress: float, loss: float, tokens_per_s: float) -> None:
        report(loop.ledger.steps, f"loss {loss:.3f}  macro-F1 {objective.score:.3f}")

    ledger = loop.finish(report_epoch, stop)
    objective.network.load_state_dict(objective.best)
    return FittedHrad(objective.network.eval(), objective.best_epoch, ledger.curve)


def _copied(network: Network) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}


def standardise(network: Network, data: LabelledRounds) -> None:
    """Mean and deviation of every feature over the training rounds; features that do not vary are left out."""
    n = len(data.labels)
    slices = [slice(start, start + _ROWS) for start in range(0, n, _ROWS)]
    mean = sum((data.rows(part).double().sum(0) for part in slices), torch.zeros(1, dtype=torch.float64)) / n
    squares = ((data.rows(part).double() - mean).square().sum(0) for part in slices)
    deviation = (sum(squares, torch.zeros(1, dtype=torch.float64)) / n).sqrt()
    varies = deviation > _FLAT * mean.abs().clamp_min(_FLAT)
    network.mean.copy_(mean)
    network.scale.copy_(torch.where(varies, 1 / deviation.clamp_min(1e-30), 0.0))


def class_weights(labels: NDArray[np.int64]) -> Tensor:
    """`clip(N / (3 N_c), 0.5, 5)` `[3]`, of the classes `labels` `[N]`."""
    counts = np.bincount(labels, minlength=len(CLASSES))
    shares = len(labels) / (len(CLASSES) * np.maximum(counts, 1))
    return torch.from_numpy(np.clip(shares, 0.5, 5.0)).float()


@torch.inference_mode()
def predicted(network: Network, data: LabelledRounds) -> NDArray[np.float64]:
    """Probabilities `[n, 3]`."""
    network.eval()
    parts = [network(data.rows(slice(k, k + _ROWS))).softmax(-1) for k in range(0, len(data.labels), _ROWS)]
    probabilities: NDArray[np.float64] = torch.cat(parts).double().numpy()
    return probabilities


def confusion(network: Network, data: LabelledRounds) -> NDArray[np.int64]:
    """`[true, predicted]` counts."""
    return confusion_of(data.labels, predicted(network, data).argmax(-1))


def confusion_of(true: NDArray[np.int64], guess: NDArray[np.int64]) -> NDArray[np.int64]:
    """`[true, predicted]` counts of two lists of classes, `[n]` each."""
    size = len(CLASSES)
    return np.bincount(true * size + guess, minlength=size * size).reshape(size, size)


def macro_f1(counts: NDArray[np.int64]) -> float:
    """Mean F1 over the classes that occur, among the truth or the predictions; `counts` `[true, predicted]`."""
    right, seen = np.diag(counts), counts.sum(0) + counts.sum(1)
    return float(np.mean(2 * right[seen > 0] / seen[seen > 0]))
