"""What the files of target and draft say, before anything runs (`specviz check`)."""

from specviz.check.findings import PairFinding, Severity
from specviz.judge.finding import Certainty, EvidencePlace, Finding
from specviz.judge.registry import detector
from specviz.text import running

_CERTAIN: dict[Severity, Certainty] = {"error": "sure", "warning": "likely", "note": "cannot tell"}


@detector(PairFinding, 5)
def pair_checked(seen: PairFinding) -> Finding:
    """A finding of the check; what is worth knowing and no fault by itself cannot be told from files."""
    certainty = _CERTAIN[seen.severity]
    return Finding(
        "pair_checked",
        seen.fault,
        seen.code.replace("-", " "),
        f"{running(seen.what)}.",
        certainty,
        next_step=f"{running(seen.fix)}.",
        decides="" if certainty == "sure" else "A recorded run of the two: how much is kept at position 1.",
        evidence=(EvidencePlace(0, seen.code, kind="tensor"),),
    )
