"""Event records: the interface between the core and everything that looks at it.

Each record is a `msgspec.Struct` with the tag field `ev`; records of one method live in a module of their own.
`decode` and `encode` (`encode_lines` for many) are the only ways between records and lines. Unknown records and unknown
fields are ignored on reading.
"""

from functools import reduce
from operator import or_
from typing import Any

import msgspec

from specviz.events.base import LEVELS, SCHEMA, VERSION, ZERO, Event, Level, Top, log6, prob, six
from specviz.events.branch import (
    BranchToken,
    DraftStep,
    Fork,
    Match,
    MatchTest,
    Posterior,
    Rollback,
    Settle,
    Signal,
    TokenFate,
)
from specviz.events.early_exit import GRID, Calibration, Climb, ExitRound, ExitTable, Gate
from specviz.events.round import Chain, Closing, Commit, Node, Pieces, Prefill, RoundEnd, RoundStart, Span, Verify
from specviz.events.run import (
    At,
    Beat,
    Catalogue,
    End,
    Finding,
    Gap,
    Header,
    Knob,
    MethodInfo,
    Missing,
    ModelInfo,
    Models,
    Note,
    Refused,
    State,
    VerifierInfo,
    Warn,
)
from specviz.events.tree_drafting import Adapt, AdaptArm, AdaptReplay, Block, Expansion, TreeMade, Window

FILE_RECORDS: tuple[type[Event], ...] = (
    Header,
    Prefill,
    RoundStart,
    Pieces,
    Node,
    Verify,
    Chain,
    Closing,
    Commit,
    RoundEnd,
    Span,
    Knob,
    Warn,
    Note,
    Finding,
    End,
    Climb,
    Gate,
    ExitRound,
    ExitTable,
    Calibration,
    Signal,
    DraftStep,
    Fork,
    Match,
    Posterior,
    Settle,
    Rollback,
    Window,
    Block,
    Expansion,
    TreeMade,
    Adapt,
)
WIRE_RECORDS: tuple[type[Event], ...] = (Beat, Catalogue, Gap, Refused, State)

# The records that are not written at every level, by the lowest one that has them.
LEVEL_OF: dict[type[Event], Level] = {kind: kind.written_at for kind in FILE_RECORDS if kind.written_at != "none"}

_RECORDS: Any = reduce(or_, FILE_RECORDS + WIRE_RECORDS)
_decoder: "msgspec.json.Decoder[Event]" = msgspec.json.Decoder(_RECORDS)
_encoder = msgspec.json.Encoder()
NAMES: dict[str, type[Event]] = {t.__struct_config__.tag: t for t in FILE_RECORDS + WIRE_RECORDS}  # type: ignore[misc]


class _Tag(msgspec.Struct):
    ev: str


_tag_decoder = msgspec.json.Decoder(_Tag)


def encode(event: Event) -> bytes:
    """One line without the newline."""
    return _encoder.encode(event)


def encode_lines(events: "list[Event]") -> bytes:
    """Many lines, each with its newline."""
    return _encoder.encode_lines(events)


def decode(line: bytes | str) -> Event | None:
    """The record of a line; None for one this version does not know. Raises msgspec.ValidationError/DecodeError."""
    try:
        return _decoder.decode(line)
    except msgspec.ValidationError:
        if _tag_decoder.decode(line).ev not in NAMES:
            return None
        raise


__all__ = [
    "FILE_RECORDS",
    "GRID",
    "LEVELS",
    "LEVEL_OF",
    "NAMES",
    "SCHEMA",
    "VERSION",
    "WIRE_RECORDS",
    "ZERO",
    "Adapt",
    "AdaptArm",
    "AdaptReplay",
    "At",
    "Beat",
    "Block",
    "BranchToken",
    "Calibration",
    "Catalogue",
    "Chain",
    "Climb",
    "Closing",
    "Commit",
    "DraftStep",
    "End",
    "Event",
    "ExitRound",
    "ExitTable",
    "Expansion",
    "Finding",
    "Fork",
    "Gap",
    "Gate",
    "Header",
    "Knob",
    "Level",
    "Match",
    "MatchTest",
    "MethodInfo",
    "Missing",
    "ModelInfo",
    "Models",
    "Node",
    "Note",
    "Pieces",
    "Posterior",
    "Prefill",
    "Refused",
    "Rollback",
    "RoundEnd",
    "RoundStart",
    "Settle",
    "Signal",
    "Span",
    "State",
    "TokenFate",
    "Top",
    "TreeMade",
    "VerifierInfo",
    "Verify",
    "Warn",
    "Window",
    "decode",
    "encode",
    "encode_lines",
    "log6",
    "prob",
    "six",
]
