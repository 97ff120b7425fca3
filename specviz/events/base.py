"""Fields that every event has, and how numbers are rounded for writing."""

import inspect
import math
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, get_type_hints

import msgspec
from msgspec import Meta

SCHEMA = "specviz.trace"
VERSION = (1, 2)  # major.minor; same major is readable, a newer major is refused
ZERO = -1e9  # the log of probability 0: JSON has no -inf

Level = Literal["none", "summary", "full"]
LEVELS: dict[str, int] = {"none": 0, "summary": 1, "full": 2}

# What a number in a record may be. A trace is input like any other: views and metrics loop over depths, rows, layers,
# widths and add up counts and times in 64 bits, so what is beyond reason is refused where a line becomes a record.
# What depends on other records (a position on the length of the text) is checked in `specviz.trace.check`.
FAR = 4096  # tokens that a draft may reach ahead of the text, rows of a round, layers of a model
Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Id = Annotated[int, Meta(ge=-1, le=2**31 - 1)]  # of a token or a node; -1: none, the root
Position = Annotated[int, Meta(ge=-1, le=2**24)]  # in a text, and its length
Depth = Annotated[int, Meta(ge=0, le=FAR)]  # and rows, layers, widths, ranks of a tree
Rank = Annotated[int, Meta(ge=0, le=2**24)]  # in a vocabulary
PerRound = Annotated[int, Meta(ge=0, le=2**16)]  # tokens, calls and cells of one round
Ns = Annotated[int, Meta(ge=0, le=2**53)]  # a duration: 104 days
Moment = Annotated[int, Meta(ge=0, le=2**60)]  # of a monotonic clock, nanoseconds: 36 years
Prob = Annotated[float, Meta(ge=0, le=1.000001)]  # with room for rounding, as below
LogProb = Annotated[float, Meta(ge=-1e9, le=0.001)]
Real = Annotated[float, Meta(ge=-1e9, le=1e9)]
Positive = Annotated[float, Meta(gt=0, le=1e9)]
Top = list[tuple[Id, LogProb]]  # [[token id, log probability], ..]


class Event(msgspec.Struct, kw_only=True, tag_field="ev", gc=False):
    """Fields of every line: running number, monotonic nanoseconds, query, round.

    Plain data that never refers back to itself, so the collector need not look at the many of a long run.
    """

    # What a kind says of itself, for the recorder: the lowest level at which it is written (`full` adds fields to some
    # besides), and whether it is part of a round, so that it may wait for the round's end before it goes to disk.
    written_at: ClassVar[Level] = "none"
    inside_round: ClassVar[bool] = False

    i: Annotated[int, Meta(ge=-1, le=2**53)] = -1
    t: Moment = 0
    q: Annotated[int, Meta(ge=0, le=2**20)] = 0
    r: Count = 0


class SummaryRecord(Event, kw_only=True):
    """A part of a round that is written from level `summary` on."""

    written_at: ClassVar[Level] = "summary"
    inside_round: ClassVar[bool] = True


class FullRecord(Event, kw_only=True):
    """A part of a round that is written at level `full` alone."""

    written_at: ClassVar[Level] = "full"
    inside_round: ClassVar[bool] = True


def handlers(owner: type) -> dict[type[Event], Callable[..., Any]]:
    """The methods of a class that take one kind of record each, by that kind: what `event` is annotated with."""
    methods = [method for method in vars(owner).values() if inspect.isfunction(method)]
    kinds = {get_type_hints(method).get("event", Event): method for method in methods}
    return {kind: method for kind, method in kinds.items() if kind is not Event}


def log6(prob: float) -> float:
    """Natural log rounded to 6 significant digits; probability 0 is -1e9."""
    return six(math.log(prob)) if prob > 0 else ZERO


def six(value: float) -> float:
    """Rounded to 6 significant digits; -inf is -1e9."""
    return float(f"{value:.6g}") if math.isfinite(value) else ZERO


def prob(log: float | None) -> float | None:
    """The probability of a `log*` field."""
    return None if log is None else 0.0 if log <= ZERO else math.exp(log)
