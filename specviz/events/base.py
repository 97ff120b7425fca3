"""What every record has, and how numbers are written (contract.md 1 and 4)."""

import math
from typing import Literal

import msgspec

SCHEMA = "specviz.trace"
VERSION = (1, 2)  # major.minor; same major is readable, a newer major is refused
ZERO = -1e9  # the log of probability 0: JSON has no -inf

Level = Literal["none", "summary", "full"]
LEVELS: dict[str, int] = {"none": 0, "summary": 1, "full": 2}
Top = list[tuple[int, float]]  # [[token id, log probability], ..]


class Event(msgspec.Struct, kw_only=True, tag_field="ev", gc=False):
    """Fields of every line: running number, monotonic nanoseconds, query, round.

    Plain data that never refers back to itself, so the collector need not look at the many of a long run.
    """

    i: int = -1
    t: int = 0
    q: int = 0
    r: int = 0


def log6(prob: float) -> float:
    """Natural log rounded to 6 significant digits; probability 0 is -1e9."""
    return six(math.log(prob)) if prob > 0 else ZERO


def six(value: float) -> float:
    """Rounded to 6 significant digits; -inf is -1e9."""
    return float(f"{value:.6g}") if math.isfinite(value) else ZERO


def prob(log: float | None) -> float | None:
    """The probability of a `log*` field."""
    return None if log is None else 0.0 if log <= ZERO else math.exp(log)
