"""The search for a skip set: bounded, seeded, and a function of what was tried before.

The source searches 2L yes-or-no choices by Bayesian optimisation. Here: sublayers are ranked by the harm that leaving
out each one alone does, for the time it saves; the sets of the first k are tried; from the best of them goes a local
search that flips one choice or swaps two, and is kicked when it is stuck. Every trial is written down, and the search
asks nothing else: begun again it finds its answers there and goes on where it stopped.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from specviz.cost.ledger import Clock
from specviz.engine.model.adapter import Model, ModelAdapter
from specviz.engine.model.rows import ForwardBatch, Tensor
from specviz.errors import SpecvizError
from specviz.methods.self_skip import drafter
from specviz.methods.self_skip.model import Borrowed, SkippedModel, silenced
from specviz.methods.self_skip.spec import SkipSet
from specviz_train.common.decoding import Decoded, Prompts, decode
from specviz_train.common.files import keep, kept

LACKING = 10.0  # what a token a round too few adds to the price, in prices
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
        book = kept(path)
        try:
            return cls(path, {str(name): float(cost) for name, cost in book["cost"].items()}, float(book["seconds"]))
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
    return SkipSet(*(frozenset(layer for kind, layer in chosen if kind == sublayer) for sublayer in "am"))


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
        if (price := cost(set_of(order[:k]))) < least:
            best, least = frozenset(order[:k]), price
    at, here = best, least
    stuck = 0
    while more():
        near = _flipped(at, order, 1 + int(rng.integers(2)), rng)
        if (price := cost(set_of(near))) < here:
            at, here, stuck = near, price, 0
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


WIDTHS = (1, 2, 3, 5, 9)
CONTEXT, TURNS = 64, 40


@dataclass(frozen=True, slots=True)
class SublayerCosts:
    """`clock`: the target's passes by width. A draft with nothing left out takes `whole` ns; what leaving out saves."""

    clock: Clock
    whole: float
    attention: float
    mlp: float
    both: float  # besides, where a layer is not run at all

    @property
    def saves(self) -> dict[str, float]:
        """Nanoseconds that a sublayer of a kind costs; never nothing, so that harm can be divided by it."""
        least = 0.01 * self.whole / len(self.clock.widths)
        return {"a": max(self.attention, least), "m": max(self.mlp, least)}

    def step(self, skips: SkipSet) -> float:
        """Nanoseconds of one draft."""
        out = self.attention * len(skips.attention) + self.mlp * len(skips.mlp)
        return max(0.05 * self.whole, self.whole - out - self.both * len(skips.attention & skips.mlp))

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, fields: dict[str, Any]) -> "SublayerCosts":
        """Read what `as_dict` gave."""
        return msgspec.convert(fields, cls)


@dataclass(frozen=True, slots=True)
class SkipSetPricer:
    """Prices sets by decoding prompts with them, default knobs.

    `yields`: tokens a round that are wanted. A set with fewer costs more in proportion, which leads a search to them.
    """

    target: ModelAdapter
    costs: SublayerCosts
    prompts: list[list[int]]
    yields: float = 0.0

    def decoded(self, skips: SkipSet, n_new: int, prompts: Prompts | None = None) -> Decoded:
        """What decoding takes with a set."""
        model, clock = SkippedModel(self.target, skips), self.clock(skips)
        return decode(
            self.target,
            lambda models: drafter.over(models, model, "argmax"),
            "draft_and_verify",
            prompts or self.prompts,
            n_new,
            clock,
        )

    def clock(self, skips: SkipSet) -> Clock:
        """Prices of the target's passes, and of a draft with a set where a head test stands."""
        return replace(self.costs.clock, test_ns=self.costs.step(skips))

    def ns_per_token(self, skips: SkipSet, n_new: int) -> float:
        """What a token costs with a set, in nanoseconds; more than that where a round has too few tokens."""
        decoded = self.decoded(skips, n_new)
        lacking = max(0.0, self.yields - decoded.tokens / decoded.rounds)
        return decoded.predicted_ns / decoded.tokens * (1 + LACKING * lacking)


@torch.inference_mode()
def measure(target: ModelAdapter) -> SublayerCosts:
    """The least of many turns each, in turn about: what other programs take must count for none of them."""
    n = target.n_layers
    all_of, half = frozenset(range(1, n + 1)), frozenset(range(1, n + 1, 2))
    partly = (SkipSet(attention=all_of), SkipSet(mlp=all_of), SkipSet(half, half))
    drafts = [_pass(target, SkippedModel(target, skips), 1) for skips in partly]
    times = _least([*drafts, *(_pass(target, target, width) for width in WIDTHS)])
    no_attention, no_mlp, no_layer, *passes = times
    whole = passes[0]
    attention, mlp = max(0.0, whole - no_attention) / n, max(0.0, whole - no_mlp) / n
    both = max(0.0, (whole - no_layer) / len(half) - attention - mlp)
    clock = Clock(WIDTHS, tuple(ns / n for ns in passes), (0.0,) * len(WIDTHS), whole)
    return SublayerCosts(clock, whole, attention, mlp, both)


def _pass(target: ModelAdapter, model: Model, width: int) -> Callable[[], None]:
    """A pass of `width` rows behind some text, head and read included."""
    cache = target.new_cache(CONTEXT + width)
    tokens = [1 % target.vocab] * CONTEXT
    rows = ForwardBatch(target, cache)
    rows.add_line(tokens)
    rows.climb(target.n_layers)
    cache.follow(tokens)

    def once() -> None:
        rows = ForwardBatch(model, Borrowed(cache))
        rows.add_line([1 % target.vocab] * width)
        rows.take().argmax(-1).tolist()

    return once


def _least(actions: Sequence[Callable[[], None]]) -> list[float]:
    """Nanoseconds of each."""
    took: list[list[int]] = [[] for _ in actions]
    for _ in range(TURNS):
        for action, times in zip(actions, took, strict=True):
            began = time.perf_counter_ns()
            action()
            times.append(time.perf_counter_ns() - began)
    return [float(min(times)) for times in took]


@torch.inference_mode()
def harm(target: ModelAdapter, windows: Tensor) -> dict[Choice, float]:
    """By sublayer: the share of positions of `windows` `[n, length]` where the best token changes without it."""
    ids = windows.to(target.device)
    best = target.model(ids, use_cache=False).logits[..., : target.vocab].argmax(-1)
    shares = {}
    for choice in choices(target.n_layers):
        with silenced(target, set_of([choice])):
            other = target.model(ids, use_cache=False).logits[..., : target.vocab].argmax(-1)
        shares[choice] = float((other != best).double().mean())
    return shares
