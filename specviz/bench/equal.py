"""Were the texts equal where equality is promised, and if not, how close was the call?

Temperature 0: everybody writes the target's greedy text. Sampled: our verifiers that keep tokens write the text of
`ar` under the same seed, and recording moves no token. Two passes of different width round differently, so near a tie
of the two highest logits even greedy texts may part: the margin there tells rounding from a mistake.
"""

from collections.abc import Callable, Sequence

import msgspec

from specviz.bench.arms import Sample, Tokens, of_arm

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
        found = [
            _divergence(key, at, mine[key].tokens, other[key].tokens, prompts, margin)
            for key, at in pairs
            if at is not None
        ]
        worst = max(found, key=lambda d: d.margin, default=None)
        out.append(
            Equality(arm=name, reference=reference, n_equal=len(keys) - len(found), n=len(keys), worst=worst)
        )  # fmt: skip
    return out


def _divergence(
    key: tuple[int, int], at: int, mine: Tokens, other: Tokens, prompts: Sequence[Tokens], margin: Margin
) -> Divergence:
    return Divergence(
        prompt=key[0], repeat=key[1], position=at, token=mine[at] if at < len(mine) else None,
        reference_token=other[at] if at < len(other) else None, margin=margin([*prompts[key[0]], *other[:at]]),
    )  # fmt: skip
