"""What sublayers cost on this machine, and what leaving out each of them alone does to the target's words."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import msgspec
import torch

from specviz.cost.ledger import Clock
from specviz.engine.model.adapter import Model, ModelAdapter
from specviz.engine.model.rows import Rows, Tensor
from specviz.methods.self_skip import drafter
from specviz.methods.self_skip.model import Borrowed, SkippedModel, silenced
from specviz.methods.self_skip.spec import SkipSet
from specviz.train.common.decoding import Decoded, Prompts, decode
from specviz.train.self_skip.search import Choice, choices, set_of

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
        """For a file."""
        return asdict(self)

    @classmethod
    def of(cls, given: dict[str, Any]) -> "SublayerCosts":
        """Read what `as_dict` gave."""
        return msgspec.convert(given, cls)


@dataclass(frozen=True, slots=True)
class SkipSetPricer:
    """Prices sets by decoding prompts with them, default knobs."""

    target: ModelAdapter
    costs: SublayerCosts
    prompts: list[list[int]]

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
        """What a token costs with a set, in nanoseconds."""
        found = self.decoded(skips, n_new)
        return found.predicted_ns / found.tokens


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
    rows = Rows(target, cache)
    rows.add_line(tokens)
    rows.climb(target.n_layers)
    cache.follow(tokens)

    def once() -> None:
        rows = Rows(model, Borrowed(cache))
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
    found = {}
    for choice in choices(target.n_layers):
        with silenced(target, set_of([choice])):
            other = target.model(ids, use_cache=False).logits[..., : target.vocab].argmax(-1)
        found[choice] = float((other != best).double().mean())
    return found
