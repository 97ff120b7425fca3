"""A core that follows a script, for whatever follows a live run."""

from collections.abc import Iterable

from specviz import events as ev
from specviz.commands import Command


class Script:
    """A live source under the test's control: `play(..)` queues events, `commands` is what the front-end asked for."""

    silence: str | None = None

    def __init__(self) -> None:
        self.live, self.ended, self.closed = True, False, False
        self.commands: list[Command] = []
        self._waiting: list[ev.Event] = []

    def play(self, events: Iterable[ev.Event]) -> None:
        """Have these come with the next poll."""
        self._waiting += events

    def die(self) -> None:
        """The process goes."""
        self.live, self.ended = False, True

    def poll(self) -> list[ev.Event]:
        events, self._waiting = self._waiting, []
        return events

    def send(self, command: Command) -> None:
        self.commands.append(command)

    def close(self) -> None:
        self.closed = True
