"""Being interrupted between two steps, never inside one: half a step must not reach a checkpoint."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

AGAIN_S = 1.0


@contextmanager
def held() -> Iterator[Callable[[], bool]]:
    """Note the first SIGINT or SIGTERM instead of obeying it; the function given tells whether one came.

    It is delivered to whoever handled it before when the block is left, by which time the block has saved what it
    holds. A second one is obeyed at once, unless it is the same one again: a launcher passes on what its processes
    have from the terminal already.
    """
    came: list[int] = []
    first = 0.0

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal first
        came.append(number)
        if len(came) == 1:
            first = time.monotonic()
        elif time.monotonic() - first >= AGAIN_S:
            _obey(before, number)

    try:
        before = {number: signal.signal(number, note) for number in _heeded()}
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


def _heeded() -> list[signal.Signals]:
    """Those that are not ignored, as SIGINT is by what a shell starts in the background."""
    return [each for each in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(each) is not signal.SIG_IGN]


def _obey(before: dict[signal.Signals, Any], number: int) -> None:
    signal.signal(number, before[signal.Signals(number)])
    signal.raise_signal(number)
