"""Training until a budget is spent: the loop of every trainer, whatever a step of it is.

A checkpoint is one file, written beside its final name and moved over it, so a kill at any moment leaves the old one or
the new one. It is written every so often, when the budget is spent and when somebody interrupts, always between steps.

What the person who started a training run sees: a bar in a terminal, a line a minute in a log.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import rich.console
import torch
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from specviz.train.common.optim import Budget
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


LOG_EVERY_S = 60.0


class Console:
    """Narration of a training run, on standard error."""

    def __init__(self, quiet: bool = False) -> None:
        """Write to standard error, where narration belongs. `quiet`: say nothing, as processes but the first do."""
        self._console = rich.console.Console(file=sys.stderr, highlight=False, quiet=quiet)

    def say(self, text: str) -> None:
        """One line of narration."""
        self._console.print(text, soft_wrap=True)

    @contextmanager
    def bar(self, name: str, budget: Budget) -> Iterator[Report]:
        """A progress bar with loss, tokens a second and time left, as a function to call after every step."""
        columns = (
            TextColumn("{task.description:8}"),
            BarColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[now]}"),
        )
        with Progress(*columns, console=self._console) as bar:
            task = bar.add_task(name, total=1.0, now="")
            logged_at, mean_loss, mean_speed = time.monotonic(), 0.0, 0.0

            def report(progress: float, loss: float, tokens_per_s: float) -> None:
                nonlocal logged_at, mean_loss, mean_speed
                mean_loss = 0.98 * mean_loss + 0.02 * loss if mean_loss else loss
                mean_speed = 0.98 * mean_speed + 0.02 * tokens_per_s if mean_speed else tokens_per_s
                left = (budget.seconds or 0.0) * (1 - progress)
                now = f"loss {mean_loss:.3f}  {mean_speed:,.0f} tokens/s  {left / 60:.1f} min left"
                bar.update(task, completed=progress, now=now)
                if not self._console.is_terminal and time.monotonic() - logged_at > LOG_EVERY_S:
                    self.say(f"{name} {progress:.1%} {now}")
                    logged_at = time.monotonic()

            yield report

    @contextmanager
    def count(self, name: str, total: int, unit: str) -> Iterator[Callable[[int, str], None]]:
        """A bar that counts: a function to call with how many there are now, and a remark."""
        columns = (
            TextColumn("{task.description:8}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f} of {task.total:,.0f} " + unit),
            TimeRemainingColumn(),
            TextColumn("{task.fields[now]}"),
        )
        with Progress(*columns, console=self._console) as bar:
            task = bar.add_task(name, total=total, now="")
            logged_at = time.monotonic()

            def report(done: int, remark: str) -> None:
                nonlocal logged_at
                bar.update(task, completed=min(done, total), now=remark)
                if not self._console.is_terminal and time.monotonic() - logged_at > LOG_EVERY_S:
                    self.say(f"{name} {done:,} of {total:,} {unit}  {remark}")
                    logged_at = time.monotonic()

            yield report

    @contextmanager
    def ticks(self, name: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
        """A bar that counts by itself: a function to call with how many more are done."""
        with self.count(name, total, unit) as report:
            done = 0

            def tick(n: int = 1) -> None:
                nonlocal done
                done += n
                report(done, "")

            yield tick
