"""All checks of two models."""

from specviz.check.findings import PairFinding, Severity
from specviz.check.known import check_known
from specviz.check.layers import check_layers
from specviz.check.serve import ServeCommand, check_serve
from specviz.check.side import ModelSide
from specviz.check.weights import check_weights
from specviz.check.words import check_words

_ORDER: tuple[Severity, ...] = ("error", "warning", "note")


def check_pair(target: ModelSide, draft: ModelSide, command: ServeCommand | None = None) -> list[PairFinding]:
    """What was found, the gravest first; `command`: how they are served. Raises ModelError where a file cannot be
    read."""
    findings = [
        *check_words(target, draft),
        *check_layers(target, draft),
        *check_known(target, draft, command),
        *check_weights(target, draft),
        *(check_serve(target, draft, command) if command is not None else ()),
    ]
    return sorted(findings, key=lambda finding: _ORDER.index(finding.severity))
