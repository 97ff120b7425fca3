"""What stays on a server when the core goes on: runs that others followed, and a conversation as a page lays it out."""

from dataclasses import dataclass

from specviz.commands import Command
from specviz.errors import SpecvizError
from specviz.events import Event
from specviz.runlog.spool import EventSpool
from specviz.sources.conversation import ChatMessage


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run that another one followed: its id and its events."""

    run: str
    events: EventSpool


class PastSource:
    """A run that another one followed, as a `Source`."""

    live, silence = False, None

    def __init__(self, events: list[Event]) -> None:
        self._events, self.ended = events, False

    def poll(self) -> list[Event]:
        events, self._events, self.ended = self._events, [], True
        return events

    def send(self, command: Command) -> None:
        raise SpecvizError("this run is over: start another on the live stage")

    def close(self) -> None:
        """It holds nothing."""


@dataclass(frozen=True, slots=True)
class ChatView:
    """What stands above the newest answer and what waits below it. `shown`: the newest run is an answer of it.

    `blank`: that answer has not begun.
    """

    above: tuple[ChatMessage, ...] = ()
    below: str = ""
    blank: bool = False
    shown: bool = False
    lost: bool = False  # the core has gone

    @property
    def key(self) -> str:
        """Another one: the page is laid out in another way."""
        return f"{len(self.above)} {bool(self.below)} {self.shown} {self.lost}"
