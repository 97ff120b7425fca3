"""Verifiers: one file each with a `VERIFIER`, found by looking at this folder. Array-agnostic, no torch."""

from functools import cache

from specviz.probability.plan import Verifier
from specviz.registry import discover, pick


@cache
def all_verifiers() -> dict[str, Verifier]:
    """Every verifier by name, those that are other names of a rule among them; sorted."""
    rules = discover(__name__, Verifier).values()
    return dict(sorted((verifier.name, verifier) for rule in rules for verifier in (rule, *rule.other_names())))


def get_verifier(name: str) -> Verifier:
    """The verifier of that name. Raises SpecvizError with the nearest name."""
    return pick("verifier", name, all_verifiers())
