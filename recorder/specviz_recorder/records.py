"""What hooks tell the writer: requests, rounds and the drafted tokens in them."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RunCard:
    """Who decodes, and by what rule. `rule`: one of `specviz_recorder.rules.RULES`."""

    engine: str
    version: str
    rule: str
    setting: str
    method: str
    target: str
    draft: str | None = None
    text: Callable[[int], str] = lambda token: ""


@dataclass(frozen=True, slots=True)
class ServedRequest:
    """A request as the engine takes it on. The text ends behind `most` tokens, or with one of `stops`."""

    id: str
    prompt: list[int]
    temperature: float | None = None
    most: int | None = None
    stops: frozenset[int] = frozenset()


@dataclass(slots=True)
class DraftToken:
    """`parent`: index in the round's draft, -1 right behind the text. `interval`: in the row that the target drew from
    with `u`; `threshold`: what u had to lie below, where it is not told by p and q. Null: not known."""

    token: int
    parent: int
    q: float | None = None
    p: float | None = None
    u: float | None = None
    interval: tuple[float, float] | None = None
    threshold: float | None = None


@dataclass(slots=True)
class ServedRound:
    """`path`: indices of the kept drafted tokens, root to leaf. `tokens`: theirs, and the one that closed the round.

    `root`: the last token before it, where the engine says so. `p`: of the closing token. `t`: monotonic nanoseconds.
    """

    request: str
    t: int
    draft: list[DraftToken] = field(default_factory=list)
    path: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    root: int | None = None
    p: float | None = None
