"""What comes of a round that is decided again: the ways it may go, beside what it was."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from specviz.probability.draft import ROOT
from specviz.whatif.recorded import UNKNOWN_TOKEN

Status = Literal["accepted", "rejected", "untested"]


@dataclass(frozen=True, slots=True)
class TestAgain:
    """A test that would be made. `low`, `high`: between what its threshold lies, equal where that is on record."""

    __test__ = False

    node: int
    u: float
    low: float
    high: float
    passed: bool


@dataclass(frozen=True, slots=True)
class RoundAgain:
    """One way the round would go. Nodes have their numbers of the trace.

    `closing`: the token that would end it; None: a token that the record does not name. `tokens`: all that would be
    committed, UNKNOWN_TOKEN for that one; `may_close` holds every token it may be, `never` some that it is not. `kind`:
    "none" when nothing is drawn behind the draft. `carries`: how many rounds the rule then takes to write the rest of
    its block, a token each and nothing drafted. `more`: how many tokens at most may be kept besides, of nodes that
    would have taken the place of those cut off.
    """

    accepted: tuple[int, ...]
    marks: Mapping[int, Status]
    tests: tuple[TestAgain, ...]
    tokens: tuple[int, ...]
    kind: Literal["recovered", "bonus", "none"]
    may_close: tuple[int, ...] = ()
    never: tuple[int, ...] = ()
    carries: int = 0
    more: int = 0

    @property
    def closing(self) -> int | None:
        """The token behind the accepted ones."""
        token = self.tokens[-1] if len(self.tokens) > len(self.accepted) else UNKNOWN_TOKEN
        return None if token == UNKNOWN_TOKEN else token

    @property
    def stop(self) -> int:
        return self.accepted[-1] if self.accepted else ROOT


@dataclass(frozen=True, slots=True)
class Parting:
    """Where the text would not be the recorded one any more. `sure`: at that place; else there or behind it, or never.

    `pos` None: in this round it would not part.
    """

    pos: int | None
    sure: bool = True


@dataclass(frozen=True, slots=True)
class Decision:
    """A round decided again: all `ways` it may go by what is on record, the likeliest reading of which is one.

    `why`: none are told, for this reason. `was`: what was recorded, in the same terms.
    """

    q: int
    r: int
    index: int
    n: int
    verifier: str
    was: RoundAgain
    deepest: int  # levels of the draft: no rule keeps more tokens
    ways: tuple[RoundAgain, ...] = ()
    why: str = ""
    gone: tuple[int, ...] = ()  # drafted nodes that a cut left out
    follows: tuple[int, ...] = ()  # what the recorded text goes on with, this round's tokens first

    @property
    def told(self) -> bool:
        """Whether every node's fate is known."""
        return bool(self.ways) and all(way.marks == self.ways[0].marks and not way.more for way in self.ways)

    @property
    def kept(self) -> tuple[int, int] | None:
        """The fewest and the most drafted tokens that would be kept; None where nothing can be told."""
        counts = [(len(way.accepted), len(way.accepted) + way.more) for way in self.ways]
        return (min(low for low, _ in counts), max(high for _, high in counts)) if counts else None

    @property
    def parting(self) -> Parting | None:
        """Where the text would part; None where nothing can be told."""
        if not self.ways:
            return None
        found = [_parting(way, self.n, self.follows) for way in self.ways]
        if all(part == found[0] for part in found):
            return found[0]
        places = [part.pos for part in found if part.pos is not None]
        return Parting(min(places), False)

    @property
    def changed(self) -> bool:
        """Whether any token would meet another fate, as far as that is told."""
        return self.told and any(self.was.marks[node] != mark for node, mark in self.ways[0].marks.items())


def _parting(way: RoundAgain, n: int, follows: tuple[int, ...]) -> Parting:
    for place, (token, was) in enumerate(zip(way.tokens, follows, strict=False)):
        if token == UNKNOWN_TOKEN:
            named = UNKNOWN_TOKEN not in way.may_close and was not in way.may_close
            return Parting(n + place, was in way.never or named)
        if token != was:
            return Parting(n + place)
    return Parting(None)
