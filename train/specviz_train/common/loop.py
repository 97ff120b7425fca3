"""Training until a budget is spent: the one loop of all trainers, over what each of them calls a step.

A checkpoint is one file, moved over the old one when it is whole. It is written every so often, when the budget is
spent and when somebody interrupts, always between two steps. A step draws what it needs by its own number, so a run
that was interrupted goes on with the very same steps; a finished run is a checkpoint whose progress is 1.
"""

import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from specviz.errors import SpecvizError
from specviz_train.common.console import StepReport
from specviz_train.common.files import save_checkpoint
from specviz_train.common.optim import Budget
from specviz_train.common.workers import Workers

SAVE_EVERY_S = 60.0
AGAIN_S = 1.0  # a second interruption within it is the first one, passed on by a launcher
N_CURVE_POINTS = 40
Point = tuple[float, ...]
Rated = Sequence[tuple[torch.optim.Optimizer, float]]  # optimisers, each with its peak learning rate


@dataclass(slots=True)
class TrainingLedger:
    """What has been spent: steps, seconds, tokens (or places) learnt from; and the curve, one point a fortieth."""

    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0
    curve: list[Point] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step shows (the loss first), the tokens it learnt from, and those it read where they are more."""

    shown: Point
    n_tokens: int
    n_read: int | None = None


class Objective(ABC):
    """What a run trains: weights, what moves them, and how a step is made."""

    optimizers: Rated

    @abstractmethod
    def step(self, number: int, progress: float) -> StepResult:
        """Move the weights once; everything drawn is keyed by `number`, `progress` is the share of the budget spent."""

    def points(self, ledger: TrainingLedger, shown: Point, due: int) -> list[Point]:
        """New points of the curve, `due` fortieths after the last one; `shown` is the mean over the steps since."""
        return [(ledger.steps, *shown)]

    @abstractmethod
    def weights(self) -> dict[str, Any]:
        """What a checkpoint holds besides optimisers and ledger."""

    @abstractmethod
    def load(self, state: dict[str, Any]) -> bool:
        """Take over a checkpoint; False, with nothing taken, where it is of other data and the run begins anew."""


class Loop:
    """A training in progress; picks up from its checkpoint when there is one. Raises SpecvizError for one of another.

    `workers`: the processes that train together; they agree on time and end, and the first of them saves.
    """

    def __init__(self, objective: Objective, budget: Budget, checkpoint: Path, workers: Workers | None = None) -> None:
        self.objective, self.budget, self.checkpoint = objective, budget, checkpoint
        self.workers, self.ledger = workers or Workers(), TrainingLedger()
        self._recent: list[Point] = []
        if checkpoint.exists():
            self._load()

    @property
    def progress(self) -> float:
        """The share of the budget spent."""
        return self.budget.progress(self.ledger.seconds, self.ledger.steps)

    def finish(self, report: StepReport, stop: Callable[[], bool] = lambda: False) -> TrainingLedger:
        """Step until the budget is spent; `stop` ends early with a checkpoint to go on from, as interruptions do."""
        saved_at = time.monotonic()
        with held() as interrupted:
            ended = False
            while self.progress < 1.0 and not ended:
                began = time.monotonic()
                done = self.advance()
                took = time.monotonic() - began
                spent = self.ledger.seconds + took
                self.ledger.seconds, ended = self.workers.together(spent, interrupted() or stop())
                report(self.progress, done.shown[0], (done.n_read or done.n_tokens) / took)
                self._note()
                if time.monotonic() - saved_at > SAVE_EVERY_S:
                    self.save()
                    saved_at = time.monotonic()
            self.save()
        return self.ledger

    def advance(self) -> StepResult:
        done = self.objective.step(self.ledger.steps, self.progress)
        self.ledger.steps += 1
        self.ledger.tokens += done.n_tokens
        self._recent.append(done.shown)
        return done

    def _note(self) -> None:
        """Add to the curve each time another fortieth of the budget is spent; what that takes is spent, too."""
        due = int(self.progress * N_CURVE_POINTS) - len(self.ledger.curve)
        if due > 0:
            began = time.monotonic()
            means = tuple(sum(values) / len(self._recent) for values in zip(*self._recent, strict=True))
            self.ledger.curve += self.objective.points(self.ledger, means, due)
            self._recent.clear()
            if self.workers.count == 1:  # several must agree on the time spent, and do so after a step alone
                self.ledger.seconds += time.monotonic() - began

    def save(self) -> None:
        """Write the checkpoint, in the main process alone."""
        if self.workers.main:
            optimizers = [optimizer.state_dict() for optimizer, _ in self.objective.optimizers]
            state = {**self.objective.weights(), "optimizers": optimizers, "ledger": asdict(self.ledger)}
            save_checkpoint(state, self.checkpoint)

    def _load(self) -> None:
        try:
            state = torch.load(self.checkpoint, map_location="cpu", weights_only=True)
            if not self.objective.load(state):
                return
            saved = state["optimizers"] if "optimizers" in state else [state["optimizer"]]
            for (optimizer, _), optimizer_state in zip(self.objective.optimizers, saved, strict=True):
                optimizer.load_state_dict(optimizer_state)
            self.ledger = _ledger(state)
        except (OSError, EOFError, RuntimeError, KeyError, TypeError, ValueError) as error:
            why = " ".join(str(error).split())[:120]
            raise SpecvizError(
                f"cannot go on from {self.checkpoint}: {why}; remove it, or give another --work"
            ) from error


def _ledger(state: dict[str, Any]) -> TrainingLedger:
    """The ledger of a checkpoint. Drafters called their tokens pairs, and H-RAD kept its epochs beside, once."""
    if "ledger" not in state:
        return TrainingLedger(steps=state["epoch"], curve=[tuple(point) for point in state["curve"]])
    fields = dict(state["ledger"])
    fields["tokens"] = fields.pop("pairs", None) or fields.get("tokens", 0)
    return TrainingLedger(**fields)


def move(optimizers: Rated, share: float) -> None:
    """Move weights by their gradients, at `share` of the peak rates, and forget the gradients."""
    for optimizer, rate in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = rate * share
        optimizer.step()
        optimizer.zero_grad()


@contextmanager
def held() -> Iterator[Callable[[], bool]]:
    """Note the first SIGINT or SIGTERM instead of obeying it; the function given tells whether one came.

    Half a step must not reach a checkpoint. The signal is delivered to whoever handled it before when the block is
    left, by which time the block has saved. A second one is obeyed at once, unless it is the same again (`AGAIN_S`).
    """
    came: list[int] = []
    first = 0.0

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal first
        came.append(number)
        if len(came) == 1:
            first = time.monotonic()
        elif time.monotonic() - first >= AGAIN_S:
            signal.signal(number, before[signal.Signals(number)])
            signal.raise_signal(number)

    # Not those that are ignored, as SIGINT is by what a shell starts in the background.
    heeded: Iterable[signal.Signals] = (
        caught for caught in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(caught) is not signal.SIG_IGN
    )
    try:
        before = {number: signal.signal(number, note) for number in heeded}
    except ValueError:  # not the main thread: whoever runs us there handles signals
        yield lambda: False
        return
    try:
        yield lambda: bool(came)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        signal.raise_signal(came[0])
