"""What a check of two models finds, and the faults that people meet, numbered as they stand in the documents."""

from typing import Literal

import msgspec

Severity = Literal["error", "warning", "note"]

# The sixteen faults that engines' users report, in the order of the documents (docs/models.md).
FAULTS = (
    "the drafter reads the wrong layers",
    "acceptance falls off a cliff at one position",
    "the head is random, quantised to death, or not loaded",
    "acceptance decays with the length of the text",
    "the vocabularies differ",
    "prompt or chat template differs",
    "numbers do not mean what they say",
    "exact match at temperature above 0",
    "text differs at temperature 0",
    "state is not rolled back",
    "a grammar or processor works on one side only",
    "accepted, yet slower",
    "a mixture of experts, or a batch, makes verifying dear",
    "the draft length is wrong",
    "nothing is drafted",
    "too good to be true",
)


class PairFinding(msgspec.Struct, frozen=True, kw_only=True):
    """`fault`: 1 to 16, which of `FAULTS` it leads to; `what`: what was seen, values in it; `fix`: what to do."""

    severity: Severity
    code: str
    fault: int
    what: str
    fix: str


def fault_of(finding: PairFinding) -> str:
    """The fault in words."""
    return FAULTS[finding.fault - 1]


def error(code: str, fault: int, what: str, fix: str) -> PairFinding:
    """The pair cannot work."""
    return PairFinding(severity="error", code=code, fault=fault, what=what, fix=fix)


def warning(code: str, fault: int, what: str, fix: str) -> PairFinding:
    """It works, worse than it could."""
    return PairFinding(severity="warning", code=code, fault=fault, what=what, fix=fix)


def note(code: str, fault: int, what: str, fix: str) -> PairFinding:
    """Worth knowing."""
    return PairFinding(severity="note", code=code, fault=fault, what=what, fix=fix)
