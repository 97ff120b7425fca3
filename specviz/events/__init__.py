"""Event records: the interface between the core and everything that looks at it.

Each record is a `msgspec.Struct` with the tag field `ev`; records of one method live in a module of their own.
`decode` and `encode` (`encode_lines` for many) are the only ways between records and lines. Unknown records and unknown
fields are ignored on reading. A kind from elsewhere is handed to `register`; from then on it is read like any other.
"""

import re
from functools import reduce
from operator import or_
from typing import Any, TypeVar

import msgspec

from specviz.errors import SpecvizError
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
from specviz.events.early_exit import GRID, Calibration, ExitRound, ExitTable, Gate, LayerTrace
from specviz.events.outside import Counted, EngineCounts, Known, Outside, Promise, Reported
from specviz.events.round import Chain, Closing, Commit, Node, Pieces, Prefill, RoundEnd, RoundStart, Span, Verify
from specviz.events.run import (
    At,
    Beat,
    Catalogue,
    End,
    FindingRecord,
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
    FindingRecord,
    End,
    LayerTrace,
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
    Reported,
    Counted,
)
WIRE_RECORDS: tuple[type[Event], ...] = (Beat, Catalogue, Gap, Refused, State)

Kind = TypeVar("Kind", bound=Event)


class _Tag(msgspec.Struct):
    ev: str


def _tag(kind: type[Event]) -> str:
    return str(kind.__struct_config__.tag)


def _reader() -> "msgspec.json.Decoder[Event]":
    """The decoder for all event types registered so far."""
    kinds: Any = reduce(or_, NAMES.values())
    return msgspec.json.Decoder(kinds)


NAMES: dict[str, type[Event]] = {_tag(kind): kind for kind in FILE_RECORDS + WIRE_RECORDS}
_decoder = _reader()
_encoder = msgspec.json.Encoder()
_SURROGATE = re.compile("[\ud800-\udfff]")
_tag_decoder = msgspec.json.Decoder(_Tag)


def register(kind: type[Kind]) -> type[Kind]:
    """Have records of a kind that does not lie here read from lines. To be used as a decorator.

    SpecvizError for a tag that another kind has.
    """
    global _decoder
    if NAMES.setdefault(_tag(kind), kind) is not kind:
        raise SpecvizError(f"there is a record '{_tag(kind)}' already; give yours another tag")
    _decoder = _reader()
    return kind


def unregister(kind: type[Event]) -> None:
    """Forget a kind that was brought: its lines are passed over again."""
    global _decoder
    if kind not in FILE_RECORDS + WIRE_RECORDS and NAMES.get(_tag(kind)) is kind:
        del NAMES[_tag(kind)]
        _decoder = _reader()


def file_records() -> tuple[type[Event], ...]:
    """Every kind that may stand in a file, those that were brought last."""
    return tuple(kind for kind in NAMES.values() if kind not in WIRE_RECORDS)


def encode(event: Event) -> bytes:
    """One line without the newline. A lone surrogate, which is no character, becomes U+FFFD."""
    try:
        return _encoder.encode(event)
    except UnicodeEncodeError:
        return _encoder.encode(_with_characters(msgspec.to_builtins(event)))


def encode_lines(events: "list[Event]") -> bytes:
    """Many lines, each with its newline."""
    try:
        return _encoder.encode_lines(events)
    except UnicodeEncodeError:
        return b"".join(encode(event) + b"\n" for event in events)


def _with_characters(value: Any) -> Any:
    if isinstance(value, dict):
        return {_with_characters(key): _with_characters(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_characters(item) for item in value]
    return _SURROGATE.sub("\ufffd", value) if isinstance(value, str) else value


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
    "Closing",
    "Commit",
    "Counted",
    "DraftStep",
    "End",
    "EngineCounts",
    "Event",
    "ExitRound",
    "ExitTable",
    "Expansion",
    "FindingRecord",
    "Fork",
    "Gap",
    "Gate",
    "Header",
    "Knob",
    "Known",
    "LayerTrace",
    "Level",
    "Match",
    "MatchTest",
    "MethodInfo",
    "Missing",
    "ModelInfo",
    "Models",
    "Node",
    "Note",
    "Outside",
    "Pieces",
    "Posterior",
    "Prefill",
    "Promise",
    "Refused",
    "Reported",
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
    "file_records",
    "log6",
    "prob",
    "register",
    "six",
    "unregister",
]
