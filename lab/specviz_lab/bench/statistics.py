"""Medians with spread, ratios paired by prompt, and whether texts were equal where equality is promised.

A paired ratio of two arms: at every prompt the median over repeats of `seconds a token of the base / seconds a token
of the arm`, both of the same turn, so that what slows the machine slows both; then the geometric mean over prompts
with Student's 95 % interval on the logarithms. Above 1 the arm is faster. Prompts are the units, because repeats of
one prompt are no new evidence on others.

Temperature 0: everybody writes the target's greedy text. Sampled: our verifiers that keep tokens write the text of
`ar` under the same seed, and recording moves no token. Two passes of different width round differently, so near a tie
of the two highest logits even greedy texts may part: the margin there tells rounding from a mistake.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np

from specviz.metrics.differences import student
from specviz_lab.bench.measure import Sample, Tokens, of_arm


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Median and quartiles of `n` values."""

    median: float
    low: float
    high: float
    n: int


class PairedRatio(msgspec.Struct, frozen=True, kw_only=True):
    """How many times faster than `base` an arm is, over `n` prompts; no interval for fewer than two.

    `cpu`: the same of processor time, which neighbours on a busy machine disturb less; None where it was not taken.
    """

    arm: str
    base: str
    value: float
    interval: tuple[float, float] | None
    n: int
    cpu: float | None = None
    cpu_interval: tuple[float, float] | None = None

    @property
    def cost(self) -> float:
        """The same as added time: .02 is 2 % slower than the base."""
        return 1 / self.value - 1


def spread(values: Sequence[float]) -> Spread | None:
    """Median and quartiles; None of nothing."""
    if not values:
        return None
    low, middle, high = (float(v) for v in np.percentile(np.asarray(values, dtype=float), (25, 50, 75)))
    return Spread(median=middle, low=low, high=high, n=len(values))


Times = Mapping[tuple[int, int], float]  # (prompt, repeat) -> seconds a token


def paired(arm: str, base: str, mine: Times, other: Times) -> PairedRatio | None:
    """The paired ratio of two arms over the turns both were measured in; None without any."""
    by_prompt: dict[int, list[float]] = {}
    for key in sorted(mine.keys() & other.keys()):
        by_prompt.setdefault(key[0], []).append(other[key] / mine[key])
    if not by_prompt:
        return None
    logs = np.log([float(np.median(ratios)) for ratios in by_prompt.values()])
    n, centre = len(logs), float(logs.mean())
    interval = None
    if n > 1:
        half = student(n - 1) * float(logs.std(ddof=1)) / math.sqrt(n)
        interval = math.exp(centre - half), math.exp(centre + half)
    return PairedRatio(arm=arm, base=base, value=math.exp(centre), interval=interval, n=n)


Margin = Callable[[Tokens], float]  # text -> difference of the two highest logits after it


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """The first place where two texts part. `margin`: logit of the highest minus second highest token there."""

    prompt: int
    repeat: int
    position: int
    token: int | None
    reference_token: int | None
    margin: float


class Equality(msgspec.Struct, frozen=True, kw_only=True):
    """How many runs of an arm wrote the reference's tokens, and the parting with the largest margin."""

    arm: str
    reference: str
    n_equal: int
    n: int
    worst: Divergence | None = None


def first_difference(mine: Tokens, other: Tokens) -> int | None:
    """Index of the first token that differs, or where the shorter text ends; None when they are equal."""
    for place, (a, b) in enumerate(zip(mine, other, strict=False)):
        if a != b:
            return place
    return None if len(mine) == len(other) else min(len(mine), len(other))


def check_equal(
    names: Sequence[str],
    references: Sequence[str | None],
    samples: Sequence[Sample],
    prompts: Sequence[Tokens],
    margin: Margin,
) -> list[Equality]:
    """One entry for every arm with a reference among the arms measured."""
    out = []
    for index, (name, reference) in enumerate(zip(names, references, strict=True)):
        if reference is None or reference == name or reference not in names:
            continue
        mine, other = of_arm(samples, index), of_arm(samples, names.index(reference))
        keys = sorted(mine.keys() & other.keys())
        pairs = [(key, first_difference(mine[key].tokens, other[key].tokens)) for key in keys]
        partings = [
            _divergence(key, at, mine[key].tokens, other[key].tokens, prompts, margin)
            for key, at in pairs
            if at is not None
        ]
        worst = max(partings, key=lambda d: d.margin, default=None)
        out.append(Equality(arm=name, reference=reference, n_equal=len(keys) - len(partings), n=len(keys), worst=worst))
    return out


def _divergence(
    key: tuple[int, int], at: int, mine: Tokens, other: Tokens, prompts: Sequence[Tokens], margin: Margin
) -> Divergence:
    return Divergence(
        prompt=key[0],
        repeat=key[1],
        position=at,
        token=mine[at] if at < len(mine) else None,
        reference_token=other[at] if at < len(other) else None,
        margin=margin([*prompts[key[0]], *other[:at]]),
    )
