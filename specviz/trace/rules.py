"""The rules by which engines keep drafted tokens, each as the verifier here that it stands for, and what it promises.

The name of a setting hides the rule, and the rule decides the acceptance: with the same pair and the same prompt, exact
match of an argmax draft and the test u < p/q keep very different shares.
"""

from dataclasses import dataclass

from specviz.errors import SpecvizError, suggestion
from specviz.events import Promise
from specviz.names import Mode
from specviz.traits import CAPPED, TOKENWISE, VerifierTraits

_PLAIN, _DRAWS = VerifierTraits(), VerifierTraits(draws=True)
_TESTS = VerifierTraits(replays_as=TOKENWISE, page="docs/papers/speculative-sampling.md")
_JOINTLY = VerifierTraits(
    direction="backward", letter="w", same_rule_as="hsd", replays_as=CAPPED, page="docs/papers/hsd.md"
)


@dataclass(frozen=True, slots=True)
class RuleInForce:
    """`verifier`: the one here that decides alike, "" where none does. `mode`: how drafted tokens are chosen."""

    name: str
    verifier: str
    promise: Promise
    how: str
    mode: Mode = "sampled"
    point_mass: bool = False  # q is 1 at the drafted token, whatever the draft model gave it
    traits: VerifierTraits = _PLAIN  # of that verifier
    ratio: bool = False  # tests u < p/q, though no verifier here decides alike

    @property
    def tests_by_ratio(self) -> bool:
        """Whether every drafted token is tested on its own, with u < p/q."""
        return self.ratio or self.traits.replays_as == TOKENWISE


_ALL = (
    RuleInForce(
        "exact match", "walk", "same law", "kept if the target's own sample is the same token", "argmax", True, _DRAWS
    ),
    RuleInForce("p/q", "tokenwise", "same law", "kept if u < p/q, for tokens drawn from q", traits=_TESTS),
    RuleInForce(
        "one-hot", "tokenwise", "same law", "kept if u < p: q counts as 1 at the drafted token", "argmax", True, _TESTS
    ),
    RuleInForce(
        "block", "blockwise", "same law", "the longest prefix whose joint test passes is kept", traits=_JOINTLY
    ),
    RuleInForce("target only", "walk", "same law", "kept with chance p, both thresholds at 1", "argmax", True, _DRAWS),
    RuleInForce("thresholds", "", "lossy", "kept with a chance above p, by a threshold below 1", "argmax", True),
    RuleInForce(
        "fly", "", "lossy", "kept where the lossless test passes, and where the target is unsure and goes on as drafted"
    ),
    RuleInForce(
        "argmax", "", "changed", "kept if it is the target's likeliest token, at any temperature", "argmax", True
    ),
    RuleInForce(
        "argmax p/q", "", "changed", "the draft's argmax, kept if u < p/q as if it were drawn", "argmax", ratio=True
    ),
    RuleInForce("coin", "", "invalid", "a coin decides: acceptance is made up, and the text is no text of the model"),
    RuleInForce("ensemble", "", "lossy", "kept if u < 1 - w + w p/q, with a weight w below 1"),
    RuleInForce("unknown", "", "unknown", "nobody said by what rule drafted tokens are kept"),
)
RULES: dict[str, RuleInForce] = {rule.name: rule for rule in _ALL}


@dataclass(frozen=True, slots=True)
class DefaultRule:
    """What an engine does that was not told otherwise. `otherwise`: by which of its settings it may have been."""

    rule: RuleInForce
    otherwise: str

    @property
    def words(self) -> str:
        """In a sentence, without the engine's name."""
        return f"its default is {self.rule.name}, {self.rule.verifier} here: {self.rule.how}; {self.otherwise}"


DEFAULT_RULES = {
    "vLLM": DefaultRule(
        RULES["one-hot"], "the setting draft_sample_method or rejection_sample_method may say otherwise"
    ),
    "llama.cpp": DefaultRule(RULES["exact match"], "draft.probabilistic tests u < p/q instead"),
    "SGLang": DefaultRule(
        RULES["target only"],
        "a threshold below 1.0 changes the law, and on CPU and XPU the likeliest token is taken at any temperature",
    ),
}


def unlike_ours(verifier: str) -> RuleInForce | None:
    """The rule that a header names in place of a verifier, where no verifier here decides alike; else None."""
    rule = RULES.get(verifier)
    return rule if rule is not None and not rule.verifier and rule.name != "unknown" else None


def rule_named(name: str) -> RuleInForce:
    """The rule of that name, or the one that a verifier's name stands for. Raises SpecvizError with the nearest."""
    match = RULES.get(name) or next((rule for rule in _ALL if rule.verifier == name), None)
    if match is None:
        raise SpecvizError(f"no rule '{name}'{suggestion(name, RULES)}; there are {', '.join(RULES)}")
    return match
