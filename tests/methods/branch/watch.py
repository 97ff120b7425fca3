"""A sink that keeps what a session tells, and sums over it."""

from typing import Any

from specviz.engine.decode.round import RoundResult
from specviz.events import Event, Level


class Watch:
    """Keeps finished rounds and the complaints about aborted ones."""

    def __init__(self, level: Level = "summary") -> None:
        self.level: Level = level
        self.rounds: list[RoundResult] = []
        self.aborts: list[str] = []

    def prefilled(self, session: Any, dur_ns: int) -> None:
        pass

    def knob(self, event: Event) -> None:
        pass

    def round(self, done: RoundResult) -> None:
        self.rounds.append(done)

    def aborted(self, begun: RoundResult, why: str) -> None:
        self.aborts.append(why)


def facts(done: RoundResult, kind: type[Any]) -> list[Any]:
    """The facts of one kind in a round."""
    return [fact for fact in done.facts if isinstance(fact, kind)]


def fact(done: RoundResult, kind: type[Any]) -> Any:
    """The only fact of a kind, None without."""
    matching = facts(done, kind)
    assert len(matching) <= 1, f"{len(matching)} {kind.__name__} in one round"
    return matching[0] if matching else None
