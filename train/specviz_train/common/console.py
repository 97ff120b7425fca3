"""What the person who started a training run sees: a bar in a terminal, a line a minute in a log, on standard error."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import rich.console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from specviz_train.common.optim import Budget

LOG_EVERY_S = 60.0


class StepReport(Protocol):
    """Where a run tells how it is going."""

    def __call__(self, progress: float, loss: float, tokens_per_s: float) -> None:
        """Called after every step."""


class Console:
    """Narration of a training run. `quiet`: say nothing, as processes but the first do."""

    def __init__(self, quiet: bool = False) -> None:
        self._console = rich.console.Console(file=sys.stderr, highlight=False, quiet=quiet)

    def say(self, text: str) -> None:
        """Print one line of narration."""
        self._console.print(text, soft_wrap=True)

    @contextmanager
    def bar(self, name: str, budget: Budget) -> Iterator[StepReport]:
        """Show progress with loss, tokens a second and time left; call what is given after every step."""
        mean_loss = mean_speed = 0.0
        with self._shown(name, 1.0, TimeElapsedColumn()) as show:

            def report(progress: float, loss: float, tokens_per_s: float) -> None:
                nonlocal mean_loss, mean_speed
                mean_loss = 0.98 * mean_loss + 0.02 * loss if mean_loss else loss
                mean_speed = 0.98 * mean_speed + 0.02 * tokens_per_s if mean_speed else tokens_per_s
                left = (budget.seconds or 0.0) * (1 - progress)
                now = f"loss {mean_loss:.3f}  {mean_speed:,.0f} tokens/s  {left / 60:.1f} min left"
                show(progress, now, f"{name} {progress:.1%} {now}")

            yield report

    @contextmanager
    def count(self, name: str, total: int, unit: str) -> Iterator[Callable[[int, str], None]]:
        """Show a count; call what is given with how many there are now, and a remark."""
        counted = TextColumn("{task.completed:,.0f} of {task.total:,.0f} " + unit)
        with self._shown(name, total, counted, TimeRemainingColumn()) as show:
            yield lambda done, now: show(min(done, total), now, f"{name} {done:,} of {total:,} {unit}  {now}")

    @contextmanager
    def ticks(self, name: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
        """Show a count; call what is given with how many more are done."""
        with self.count(name, total, unit) as report:
            done = 0

            def tick(n: int = 1) -> None:
                nonlocal done
                done += n
                report(done, "")

            yield tick

    @contextmanager
    def _shown(self, name: str, total: float, *columns: ProgressColumn) -> Iterator[Callable[[float, str, str], None]]:
        """A bar that takes how much is done, the words beside it, and the line for a log."""
        ends = (TextColumn("{task.description:8}"), BarColumn()), TextColumn("{task.fields[now]}")
        with Progress(*ends[0], *columns, ends[1], console=self._console) as bar:
            task, logged_at = bar.add_task(name, total=total, now=""), time.monotonic()

            def show(done: float, now: str, line: str) -> None:
                nonlocal logged_at
                bar.update(task, completed=done, now=now)
                if not self._console.is_terminal and time.monotonic() - logged_at > LOG_EVERY_S:
                    self.say(line)
                    logged_at = time.monotonic()

            yield show
