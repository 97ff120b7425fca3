"""Training H-RAD: 20 epochs of small batches, class weights, and the epoch that is best on held-out prompts.

specbranch.md 3.5. Deterministic and resumable: order and dropout are keyed by (seed, epoch), and a checkpoint is
written after every epoch.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from specviz.methods.branch.hrad import CLASSES, Network
from specviz.train.common.job import save_whole

EPOCHS, BATCH, RATE, DECAY = 20, 32, 1e-3, 1e-2
_ROWS = 4096  # looked at at once where nothing is learned
_FLAT = 1e-6  # a feature that deviates less, relative to its mean, is left out


@dataclass(frozen=True, slots=True)
class Labelled:
    """Features `[n, inputs]` in float16 and classes `[n]`."""

    features: NDArray[np.float16]
    labels: NDArray[np.int64]

    def rows(self, pick: Any) -> Tensor:
        """Some of them in float32."""
        return torch.from_numpy(self.features[pick]).float()


@dataclass(slots=True)
class Fitted:
    """The network of the best epoch. `curve`: training loss and held-out macro-F1 of every epoch; `confusion` of it."""

    network: Network
    epoch: int
    curve: list[tuple[float, float]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Job:
    """Everything a training depends on besides its checkpoint."""

    train: Labelled
    held_out: Labelled
    seed: int
    checkpoint: Path
    epochs: int = EPOCHS


def fit(job: Job, report: Callable[[int, str], None]) -> Fitted:
    """Train, or go on training; the network as of the epoch with the best macro-F1 on held-out rounds."""
    state = _State(job)
    while state.epoch < job.epochs:
        loss = state.step_epoch()
        score = macro_f1(confusion(state.network, job.held_out))
        state.end_epoch(loss, score)
        report(state.epoch, f"loss {loss:.3f}  macro-F1 {score:.3f}")
    state.network.load_state_dict(state.best)
    return Fitted(state.network.eval(), state.best_epoch, state.curve)


class _State:
    """A training in progress; picks up from the job's checkpoint when it is of the same rounds."""

    def __init__(self, job: Job) -> None:
        self.job = job
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(job.seed)
            self.network = Network(job.train.features.shape[1])
        standardise(self.network, job.train)
        self.weights = class_weights(job.train.labels)
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=RATE, weight_decay=DECAY)
        self.epoch, self.best_epoch, self.curve = 0, 0, list[tuple[float, float]]()
        self.best = _copied(self.network)
        if job.checkpoint.exists():
            self._load()

    def step_epoch(self) -> float:
        """One pass over the training rounds in an order of its own; mean loss."""
        job, n = self.job, len(self.job.train.labels)
        order = np.random.default_rng((job.seed, self.epoch)).permutation(n)
        n_batches = math.ceil(n / BATCH)
        labels, total = torch.from_numpy(job.train.labels), 0.0
        self.network.train()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(job.seed * 1_000_003 + self.epoch)  # for dropout, which takes no generator
            for number in range(n_batches):
                pick = order[number * BATCH : (number + 1) * BATCH]
                progress = (self.epoch + number / n_batches) / job.epochs
                for group in self.optimizer.param_groups:
                    group["lr"] = RATE * 0.5 * (1 + math.cos(math.pi * progress))
                loss = F.cross_entropy(self.network(job.train.rows(pick)), labels[pick], self.weights)
                self.optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                self.optimizer.step()
                total += loss.item() * len(pick)
        return total / n

    def end_epoch(self, loss: float, score: float) -> None:
        """Note the epoch, keep it if it is the best so far, write the checkpoint."""
        self.epoch += 1
        if not self.curve or score > max(score for _, score in self.curve):
            self.best, self.best_epoch = _copied(self.network), self.epoch
        self.curve.append((loss, score))
        state = {
            "n": len(self.job.train.labels), "epochs": self.job.epochs, "epoch": self.epoch,
            "network": self.network.state_dict(), "optimizer": self.optimizer.state_dict(), "best": self.best,
            "best_epoch": self.best_epoch, "curve": self.curve,
        }  # fmt: skip
        save_whole(state, self.job.checkpoint)

    def _load(self) -> None:
        state: dict[str, Any] = torch.load(self.job.checkpoint, weights_only=True)
        if (state["n"], state["epochs"]) != (len(self.job.train.labels), self.job.epochs):
            return  # more rounds were asked for since
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.epoch, self.best, self.best_epoch = state["epoch"], state["best"], state["best_epoch"]
        self.curve = [(loss, score) for loss, score in state["curve"]]


def _copied(network: Network) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}


def standardise(network: Network, data: Labelled) -> None:
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
    """`clip(N / (3 N_c), 0.5, 5)`."""
    counts = np.bincount(labels, minlength=len(CLASSES))
    shares = len(labels) / (len(CLASSES) * np.maximum(counts, 1))
    return torch.from_numpy(np.clip(shares, 0.5, 5.0)).float()


@torch.inference_mode()
def predicted(network: Network, data: Labelled) -> NDArray[np.float64]:
    """Probabilities `[n, 3]`."""
    network.eval()
    parts = [network(data.rows(slice(k, k + _ROWS))).softmax(-1) for k in range(0, len(data.labels), _ROWS)]
    found: NDArray[np.float64] = torch.cat(parts).double().numpy()
    return found


def confusion(network: Network, data: Labelled) -> NDArray[np.int64]:
    """`[true, predicted]` counts."""
    return table(data.labels, predicted(network, data).argmax(-1))


def table(true: NDArray[np.int64], guess: NDArray[np.int64]) -> NDArray[np.int64]:
    """`[true, predicted]` counts of two lists of classes."""
    size = len(CLASSES)
    return np.bincount(true * size + guess, minlength=size * size).reshape(size, size)


def macro_f1(counts: NDArray[np.int64]) -> float:
    """Mean F1 over the classes that occur, among the truth or the predictions."""
    right, seen = np.diag(counts), counts.sum(0) + counts.sum(1)
    return float(np.mean(2 * right[seen > 0] / seen[seen > 0]))
