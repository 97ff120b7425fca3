"""The seam between what runs and what looks. Live is replay of a trace that still grows, through this protocol."""

from itertools import islice
from pathlib import Path
from typing import Protocol

from specviz.commands import Command
from specviz.errors import SpecvizError
from specviz.events import Event
from specviz.trace import Trace


def unchangeable(path: Path, command: Command) -> SpecvizError:
    """Why a recording takes no command."""
    name = command.__struct_config__.tag
    return SpecvizError(f"cannot '{name}': {path} is a recording; start a run to change one ('specviz tui')")


class Source(Protocol):
    """A stream of events. No call waits for anything."""

    @property
    def live(self) -> bool:
        """Whether commands can be sent."""
        ...

    @property
    def ended(self) -> bool:
        """Whether nothing more can come. A worker between two runs has not ended."""
        ...

    @property
    def silence(self) -> str | None:
        """What to say of a core that lives and does not answer; None for one that does, and where there is none."""
        ...

    def poll(self) -> list[Event]:
        """Everything new since the last call."""
        ...

    def send(self, command: Command) -> None:
        """Hands a command to the core. Raises SpecvizError where there is none."""
        ...

    def close(self) -> None:
        """Close the file or end the process behind the source. Calling it again does nothing."""
        ...


class NoSource:
    """The source before a run is opened or a model loaded. `refusal`: what the user has to do first."""

    live, ended, silence = False, True, None

    def __init__(self, refusal: str) -> None:
        self.refusal = refusal

    def poll(self) -> list[Event]:
        return []

    def send(self, command: Command) -> None:
        raise SpecvizError(self.refusal)

    def close(self) -> None:
        pass


class TraceFile:
    """Follows a file. A trace cut off without an `end` has ended as soon as no recorder holds it any more.

    `at_a_time`: the most records that one `poll` gives, for who does not keep them all; they lift the limit on those.
    """

    live, silence = False, None

    def __init__(self, path: Path | str, check: bool = False, at_a_time: int | None = None) -> None:
        self.trace = Trace(path, check)
        self.ended = False
        self._most = at_a_time

    def poll(self) -> list[Event]:
        """The records completed since the last call."""
        growing = self.trace.growing  # checked first: lines written before the unlock must still be read
        events = self.trace.poll() if self._most is None else list(islice(self.trace.read(), self._most))
        whole = self._most is None or len(events) < self._most
        self.ended = self.trace.end is not None or (whole and not growing)
        return events

    def send(self, command: Command) -> None:
        raise unchangeable(self.trace.path, command)

    def close(self) -> None:
        self.trace.close()
