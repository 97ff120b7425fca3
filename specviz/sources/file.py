"""`TraceFile`: a trace as a source, finished or still being recorded by somebody else; the same code path for both."""

from pathlib import Path

from specviz.commands import Command
from specviz.errors import SpecvizError
from specviz.events import Event
from specviz.trace import Trace


class TraceFile:
    """Follows a file. A trace cut off without an `end` has ended as soon as no recorder holds it any more."""

    live, silence = False, None

    def __init__(self, path: Path | str, check: bool = False) -> None:
        self.trace = Trace(path, check)
        self.ended = False

    def poll(self) -> list[Event]:
        """The records completed since the last call."""
        growing = self.trace.growing  # asked first: what is written before the recorder lets go must still be read
        events = self.trace.poll()
        self.ended = self.trace.end is not None or not growing
        return events

    def send(self, command: Command) -> None:
        """Refused: a file takes no commands."""
        name = command.__struct_config__.tag
        raise SpecvizError(
            f"cannot '{name}': {self.trace.path} is a recording; start a run to change one ('specviz tui')"
        )

    def close(self) -> None:
        """Lets go of the file."""
        self.trace.close()
