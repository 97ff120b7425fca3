"""`LossyRule`: what keeps a drafted token by more than the target's law, token after token of one chain.

Such a rule asks what the target's row says of a token. What it asks for may not be on record, or may fall upon a bound
in the digits that are: then a `ChainToken` raises, and nothing is said of the round.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from specviz.knobs import Knobs, KnobSpec
from specviz.probability.draft import Draft
from specviz.traits import VerifierTraits
from specviz.verifiers._candidates import misfit


class ChainToken(Protocol):
    """A drafted token, and the target's row that judges it.

    `law`: the row at the run's temperature, one-hot at 0. `likely`: that row too, but at 0 the softmax of the logits.
    """

    @property
    def certain(self) -> bool:
        """Whether the temperature is 0."""

    @property
    def drawn(self) -> bool:
        """Whether the token was drawn from a draft law."""

    def mass(self) -> float:
        """The token's mass in the law."""

    def entropy(self) -> float:
        """Of the law, in nats."""

    def rank(self) -> int:
        """The token's among the likely ones; 1 is the likeliest."""

    def masses(self, n: int) -> tuple[float, ...]:
        """The n largest masses of the likely row."""

    def likely(self, least: float) -> tuple[float, bool]:
        """The token's mass in the likely row, and whether it is that: else it is at most so much, and below `least`."""

    def exact(self) -> "RowComparison":
        """The test of a lossless rule: u against p/q, at temperature 0 whether it is the likeliest token."""

    def reaches(self, value: float, bound: float) -> bool:
        """Whether a value of the record is at least as large as a bound."""


@dataclass(frozen=True, slots=True)
class RowComparison:
    """What decided about a token: `what`, its value, the sign between, the bound."""

    what: str
    value: float
    sign: str
    bound: float
    passed: bool


@dataclass(frozen=True, slots=True)
class Judged:
    """How a chain fares: what decided about its tokens one after another, and how many of them are kept.

    `moved`: by how much the law of every kept token is off the target's, in total variation; None: that takes rows that
    no recording holds, for the reason `why`. `residual`: a stop draws what the draft gave too little, not the row.
    """

    kept: int
    compared: tuple[RowComparison, ...]
    moved: tuple[float, ...] | None
    why: str = ""
    residual: bool = False


@dataclass(frozen=True, slots=True)
class LossyRule:
    """A named rule. `engine`: who offers it."""

    name: str
    engine: str
    help: str
    judge: Callable[[Sequence[ChainToken], Knobs], Judged]
    knobs: tuple[KnobSpec, ...]
    lossless: ClassVar[bool] = False
    carries: ClassVar[bool] = False
    traits: ClassVar[VerifierTraits] = VerifierTraits()

    def refuses(self, draft: Draft) -> str | None:
        """Why a draft does not fit: these judge one chain."""
        if any(len(children) > 1 for children in draft.children.values()):
            return "it judges one chain and the draft has branches"
        return misfit(draft)

    def asked(self, knobs: dict[str, Any]) -> Knobs:
        """Its knobs at these values, others at their defaults, and how many tokens were to be drafted."""
        own = {spec.name: knobs.get(spec.name, spec.default) for spec in self.knobs}
        return Knobs({**own, "gamma": knobs.get("gamma")})


DRAWN = "the draft was drawn, so that takes whole rows of both models"


def one_by_one(places: Sequence[ChainToken], decide: Callable[[ChainToken], RowComparison]) -> Judged:
    """Judge by each token's row alone, until one fails; behind it the target's own row is drawn from."""
    compared: list[RowComparison] = []
    for place in places:
        compared.append(decide(place))
        if not compared[-1].passed:
            break
    kept = sum(test.passed for test in compared)
    if any(place.drawn and not place.certain for place in places):
        return Judged(kept, tuple(compared), None, DRAWN)
    return Judged(kept, tuple(compared), tuple(1 - place.mass() for place in places[:kept]))
