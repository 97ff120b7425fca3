"""Verifiers: one file each with a `VERIFIER`, found by looking at this folder. Array-agnostic, no torch."""

from functools import cache

from specviz.errors import SpecvizError
from specviz.probability.plan import Verifier
from specviz.registry import discover, pick


@cache
def all_verifiers() -> dict[str, Verifier]:
    """Every verifier by name, those that are other names of a rule among them; sorted."""
    rules = discover(__name__, Verifier).values()
    return dict(sorted((verifier.name, verifier) for rule in rules for verifier in (rule, *rule.other_names())))


def get_verifier(name: str) -> Verifier:
    """The verifier of that name. Raises SpecvizError with the nearest name, or with who runs it."""
    from specviz.verifiers.lossy import lossy_rules  # which is built on rules of this package

    if (lossy := lossy_rules().get(name)) is not None:
        raise SpecvizError(
            f"{name} ({lossy.engine}) is not lossless and not run here: what it would keep says "
            f"specviz whatif TRACE --verifier {name}"
        )
    return pick("verifier", name, all_verifiers())
