"""The seam between what runs and what looks. Live is replay of a trace that still grows, through this protocol."""

from typing import Protocol

from specviz.commands import Command
from specviz.errors import SpecvizError
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
        """Lets go of file or process. Calling it again does nothing."""
        ...


class NoSource:
    """Before anything was opened or loaded. `refusal`: what to do first."""

    live, ended, silence = False, True, None

    def __init__(self, refusal: str) -> None:
        self.refusal = refusal

    def poll(self) -> list[Event]:
        return []

    def send(self, command: Command) -> None:
        """Always refused."""
        raise SpecvizError(self.refusal)

    def close(self) -> None:
        pass
