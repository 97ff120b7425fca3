"""What readers of files have in common: a trace that begins when something was found, at the file's own times."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from specviz.trace import Writer


class Imported:
    """A trace under way, with the clock of what is read: `now`, in nanoseconds."""

    def __init__(self, path: Path | str, **header: Any) -> None:
        self.now = 0
        self.trace = Writer(path, clock=lambda: self.now, **header)


Opened = Callable[[Any], Imported]  # begins the trace, once the reader (which has a `header`) knows what it is of
