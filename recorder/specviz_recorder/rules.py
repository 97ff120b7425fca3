"""The rules that the engines' settings stand for, as specviz names them."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ServedRule:
    """`tests`: by u < threshold; else the target draws. `ratio`: the threshold is p/q. `point_mass`: q counts as 1."""

    verifier: str
    promise: str
    how: str
    mode: str = "sampled"
    tests: bool = True
    ratio: bool = False
    point_mass: bool = False
    traits: dict[str, Any] = field(default_factory=dict)

    def threshold(self, p: float | None, q: float | None) -> float | None:
        """What u had to lie below, where the rule and the numbers say so. Without q the draft was a point mass."""
        if not self.ratio or p is None:
            return None
        if self.point_mass or q is None:
            return min(1.0, p)
        return min(1.0, p / q) if q > 0 else None


# Of the verifiers by these names in specviz, which may not be installed beside the engine.
_TOKENWISE = {"replays_as": "tokenwise", "page": "docs/papers/speculative-sampling.md"}
_BACKWARD = {
    "direction": "backward",
    "letter": "w",
    "same_rule_as": "hsd",
    "replays_as": "hsd",
    "page": "docs/papers/hsd.md",
}
RULES = {
    "p/q": ServedRule(
        "tokenwise",
        "same law",
        "kept if u < p/q, for tokens drawn from q",
        ratio=True,
        traits=_TOKENWISE,
    ),
    "one-hot": ServedRule(
        "tokenwise",
        "same law",
        "kept if u < p: q counts as 1 at the drafted token",
        "argmax",
        ratio=True,
        point_mass=True,
        traits=_TOKENWISE,
    ),
    "block": ServedRule(
        "blockwise", "same law", "the longest prefix whose joint test passes is kept", traits=_BACKWARD
    ),
    "exact match": ServedRule(
        "walk",
        "same law",
        "kept if the target's own sample is the same token",
        "argmax",
        tests=False,
        point_mass=True,
        traits={"draws": True},
    ),
    "target only": ServedRule(
        "walk",
        "same law",
        "kept with chance p, both thresholds at 1",
        "argmax",
        tests=False,
        point_mass=True,
        traits={"draws": True},
    ),
    "thresholds": ServedRule(
        "", "lossy", "kept with a chance above p, by a threshold below 1", "argmax", point_mass=True
    ),
    "fly": ServedRule(
        "", "lossy", "kept where the lossless test passes, and where the target is unsure and goes on as drafted"
    ),
    "argmax": ServedRule(
        "",
        "changed",
        "kept if it is the target's likeliest token, at any temperature",
        "argmax",
        tests=False,
        point_mass=True,
    ),
    "coin": ServedRule("", "invalid", "a coin decides: acceptance is made up, and the text is no text of the model"),
}
