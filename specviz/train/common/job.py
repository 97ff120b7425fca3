"""Training until a budget is spent: the loop of every trainer, whatever a step of it is.

A checkpoint is one file, written beside its final name and moved over it, so a kill at any moment leaves the old one or
the new one. It is written every so often, when the budget is spent and when somebody interrupts, always between steps.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import torch

from specviz.train.common.stopping import held

SAVE_EVERY_S = 60.0


class Report(Protocol):
    """Where a run tells how it is going."""

    def __call__(self, progress: float, loss: float, tokens_per_s: float) -> None:
        """Called after every step."""


class Spent(Protocol):
    """What a run keeps count of."""

    seconds: float


class Running(Protocol):
    """A run that knows how far it is, how to take a step and how to write its checkpoint."""

    @property
    def ledger(self) -> Spent: ...
    @property
    def progress(self) -> float: ...
    def advance(self) -> tuple[float, float]:
        """One step; its loss, and how many tokens it read."""

    def note(self) -> None:
        """Called when a step is over and paid for."""

    def save(self) -> None: ...


def alone(seconds: float, ended: bool) -> tuple[float, bool]:
    """Of a process that trains by itself: what it spent, and whether it is to end, is so."""
    return seconds, ended


def run_out(
    run: Running,
    report: Report,
    stop: Callable[[], bool] = lambda: False,
    together: Callable[[float, bool], tuple[float, bool]] = alone,
) -> None:
    """Step until the budget is spent. `stop` ends early, with a checkpoint to go on from, and so does an interruption.

    `together` makes several processes agree on the time spent and on ending.
    """
    saved_at = time.monotonic()
    with held() as interrupted:
        ended = False
        while run.progress < 1.0 and not ended:
            began = time.monotonic()
            loss, n_tokens = run.advance()
            took = time.monotonic() - began
            run.ledger.seconds, ended = together(run.ledger.seconds + took, interrupted() or stop())
            report(run.progress, loss, n_tokens / took)
            run.note()
            if time.monotonic() - saved_at > SAVE_EVERY_S:
                run.save()
                saved_at = time.monotonic()
        run.save()


def save_whole(state: dict[str, Any], path: Path) -> None:
    """Write a checkpoint beside its name and move it there: a kill at any moment leaves the old one or the new one."""
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    os.replace(partial, path)
