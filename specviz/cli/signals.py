"""Signals that end what a command does in order, with what it had written closed."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from specviz.cli import Terminated


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM ends what runs here as Ctrl-C does, with an exit code of its own."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise Terminated

    try:
        before = signal.signal(signal.SIGTERM, leave)
    except ValueError:  # not the main thread: its owner handles signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
