"""The seam between what runs and what looks. Live is replay of a trace that still grows, through this protocol."""

from typing import Protocol

from specviz.commands import Command
from specviz.events import Event


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

    def poll(self) -> list[Event]:
        """Everything new since the last call."""
        ...

    def send(self, command: Command) -> None:
        """Hands a command to the core. Raises SpecvizError where there is none."""
        ...

    def close(self) -> None:
        """Lets go of file or process. Calling it again does nothing."""
        ...
