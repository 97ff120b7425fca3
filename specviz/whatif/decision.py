"""What comes of a round that is decided again, beside what it was."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from specviz.probability.draft import ROOT
from specviz.verifiers.lossy import RowComparison
from specviz.whatif.recorded import UNKNOWN_TOKEN

Status = Literal["accepted", "rejected", "untested"]


@dataclass(frozen=True, slots=True)
class TestAgain:
    """A test that would be made. `threshold` None: not on record, though it is known on which side of `u` it lies."""

    __test__ = False

    node: int
    u: float
    threshold: float | None
    passed: bool


@dataclass(frozen=True, slots=True)
class RoundAgain:
    """How the round would go. Nodes have their numbers of the trace.

    `closing`: the token that would end it; None: a token that the record does not name. `tokens`: all that would be
    committed, UNKNOWN_TOKEN for that one; `other`: it is none that the recorded text goes on with. `kind`: "none" when
    nothing is drawn behind the draft. `carries`: how many rounds the rule then takes to write the rest of its block, a
    token each and nothing drafted.

    Of a rule that is read and not run: `compared`, what decided about a node; `moved`, by how much the laws of its
    tokens are off the target's, summed (total variation), None where that is not told, for the reason `unmoved`.
    """

    accepted: tuple[int, ...]
    marks: Mapping[int, Status]
    tests: tuple[TestAgain, ...]
    tokens: tuple[int, ...]
    kind: Literal["recovered", "bonus", "none"]
    other: bool = False
    carries: int = 0
    compared: Mapping[int, RowComparison] = field(default_factory=dict)
    moved: float | None = None
    unmoved: str = ""

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
    """A round decided again: `now`, or None and the reason `why` it cannot be told. `was`: as recorded, in the same
    terms."""

    q: int
    r: int
    index: int
    n: int
    verifier: str
    was: RoundAgain
    deepest: int  # levels of the draft: no rule keeps more tokens
    now: RoundAgain | None = None
    why: str = ""
    gone: tuple[int, ...] = ()  # drafted nodes that a cut left out
    follows: tuple[int, ...] = ()  # what the recorded text goes on with, this round's tokens first

    @property
    def kept(self) -> int | None:
        """How many drafted tokens would be kept; None where that cannot be told."""
        return None if self.now is None else len(self.now.accepted)

    @property
    def parting(self) -> Parting | None:
        """Where the text would part; None where nothing can be told."""
        if self.now is None:
            return None
        for place, (token, was) in enumerate(zip(self.now.tokens, self.follows, strict=False)):
            if token != was:
                return Parting(self.n + place, token != UNKNOWN_TOKEN or self.now.other)
        return Parting(None)

    @property
    def changed(self) -> bool:
        """Whether any token's verdict would change, as far as the record can tell."""
        return self.now is not None and any(self.was.marks[node] != mark for node, mark in self.now.marks.items())
