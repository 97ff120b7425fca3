"""All checks of two models."""

from specviz.check.findings import PairFinding, Severity
from specviz.check.layers import check_layers
from specviz.check.side import ModelSide
from specviz.check.weights import check_weights
from specviz.check.words import check_words

_ORDER: tuple[Severity, ...] = ("error", "warning", "note")


def check_pair(target: ModelSide, draft: ModelSide) -> list[PairFinding]:
    """What was found, the gravest first. Raises ModelError where a file cannot be read."""
    found = [*check_words(target, draft), *check_layers(target, draft), *check_weights(target, draft)]
    return sorted(found, key=lambda each: _ORDER.index(each.severity))
