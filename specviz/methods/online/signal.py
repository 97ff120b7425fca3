"""How far off the drafter was in a query, and what serving learns from (specblock.md 8.1)."""

import math
from dataclasses import dataclass

SMALLEST = 1e-4


@dataclass(slots=True)
class Signal:
    """Surprise at the tokens that ended rounds, summed over a query."""

    total: float = 0.0
    rejections: int = 0
    rounds: int = 0

    def round(self, probs: "list[float] | tuple[float, ...]" = ()) -> None:
        """A round is over. `probs`: draft probability of the emitted token where the round ended, if it had children.

        0 for a token outside the draft vocabulary.
        """
        self.rounds += 1
        for prob in probs:
            self.rejections += 1
            self.total -= math.log(max(prob, SMALLEST))

    @property
    def per_round(self) -> float:
        """What decisions are made by."""
        return self.total / self.rounds if self.rounds else 0.0


@dataclass(slots=True)
class Anchor:
    """When to give up what was learnt: tau under 95 % of what the anchor had, for five queries on end.

    Whether it was the weights' fault is asked next, in `query`'s caller: texts may simply have become harder.
    """

    tau: float | None = None
    low: int = 0

    def query(self, smoothed_tau: float) -> bool:
        """A query is over; whether the anchor's weights should be looked at now."""
        if self.tau is None:
            self.tau = smoothed_tau
        self.low = self.low + 1 if smoothed_tau < 0.95 * self.tau else 0
        return self.low >= 5

    def accepted(self, smoothed_tau: float) -> None:
        """An update was kept: the anchor follows slowly, in tau as in weights."""
        self.tau = smoothed_tau if self.tau is None else self.tau + 0.01 * (smoothed_tau - self.tau)

    def again(self, smoothed_tau: float) -> None:
        """Count from here: the anchor's weights are in use, or did no better on the same texts."""
        self.tau, self.low = smoothed_tau, 0
