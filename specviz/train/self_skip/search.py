"""The search for a skip set: bounded, seeded, and a function of what was tried before (specbound.md 14.5).

The source searches 2L yes-or-no choices by Bayesian optimisation. Here: sublayers are ranked by the harm that leaving
out each one alone does, for the time it saves; the sets of the first k are tried; from the best of them goes a local
search that flips one choice or swaps two, and is kicked when it is stuck. Every trial is written down, and the search
asks nothing else: begun again it finds its answers there and goes on where it stopped.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from specviz.errors import SpecvizError
from specviz.methods.self_skip.spec import SkipSet
from specviz.train.common.files import keep, kept

KICK = 3  # choices flipped at once when nothing better is near
Choice = tuple[str, int]  # ("a" or "m", layer)


@dataclass(slots=True)
class Trials:
    """What was tried: cost by set, in the order of trying, and the seconds it took. `path`: where it is kept."""

    path: Path
    cost: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0

    @classmethod
    def at(cls, path: Path) -> "Trials":
        """Those written there, if any."""
        if not path.exists():
            return cls(path)
        found = kept(path)
        try:
            return cls(path, {str(name): float(cost) for name, cost in found["cost"].items()}, float(found["seconds"]))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise SpecvizError(f"{path} is no book of trials; remove it, or give another --work folder") from error

    def save(self) -> None:
        """For a search that goes on."""
        keep(self.path, {"seconds": self.seconds, "cost": self.cost})

    def best(self, n: int = 1) -> list[str]:
        return sorted(self.cost, key=lambda name: (self.cost[name], name))[:n]


def choices(n_layers: int) -> list[Choice]:
    """All sublayers of layers 1 to `n_layers`."""
    return [(kind, layer) for layer in range(1, n_layers + 1) for kind in "am"]


def set_of(chosen: Sequence[Choice] | frozenset[Choice]) -> SkipSet:
    return SkipSet(*(frozenset(layer for kind, layer in chosen if kind == each) for each in "am"))


def ranked(harm: Mapping[Choice, float], saves: Mapping[str, float]) -> list[Choice]:
    """Sublayers by the harm of leaving each out alone, for the time it saves."""
    return sorted(harm, key=lambda choice: (harm[choice] / saves[choice[0]], choice))


def search(
    order: Sequence[Choice], cost: Callable[[SkipSet], float], more: Callable[[], bool], seed: int
) -> frozenset[Choice]:
    """The cheapest set found while `more()`. `cost` is asked for a set at most once by the caller's own book."""
    rng, best, least = np.random.default_rng(seed), frozenset[Choice](), float("inf")
    for k in range(0, len(order), max(1, len(order) // 12)):
        if not more():
            return best
        if (found := cost(set_of(order[:k]))) < least:
            best, least = frozenset(order[:k]), found
    at, here = best, least
    stuck = 0
    while more():
        near = _flipped(at, order, 1 + int(rng.integers(2)), rng)
        if (found := cost(set_of(near))) < here:
            at, here, stuck = near, found, 0
        else:
            stuck += 1
        if here < least:
            best, least = at, here
        if stuck >= len(order):
            at, stuck = _flipped(best, order, KICK, rng), 0
            here = cost(set_of(at))
    return best


def _flipped(at: frozenset[Choice], order: Sequence[Choice], n: int, rng: Any) -> frozenset[Choice]:
    return at ^ frozenset(order[k] for k in rng.choice(len(order), n, replace=False))
