"""What a recorder wrote, read as specviz reads it."""

from pathlib import Path

from specviz.runlog.fold import Run, fold
from specviz.trace import read_events
from specviz.trace.check import Checker


def read(path: Path) -> Run:
    """The run, with every rule on what records may say checked."""
    events, checker = list(read_events(path)), Checker(path)
    for line, event in enumerate(events, 1):
        checker.take(event, line)
    return fold(events)
