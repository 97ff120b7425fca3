"""The words a frame is made of: marks, phases, states and the ids of the two nodes that were not drafted."""

from enum import IntEnum
from typing import Literal

ROOT, CLOSING = -1, -2  # node ids of the root and of the token a round closes with

Mark = Literal[
    "root",
    "drafted",
    "testing",
    "accepted",
    "rejected",
    "recovered",
    "bonus",
    "plain",
    "untested",
    "pruned",
    "exit",
    "prompt",
]
StateName = Literal["idle", "loading", "live", "paused", "replay", "ended", "lag", "silent", "error", "core_lost"]
ValueName = Literal["q", "p", "p/q", "u", "rank"]
VALUE_MODES: tuple[ValueName, ...] = ("q", "p", "p/q", "u", "rank")
LinkShape = Literal["line", "tee", "branch", "corner", "bar"]  # ─── ─┬─ ├─ └─ │


class Phase(IntEnum):
    """The six phases of a round, in order."""

    ROOT = 1
    DRAFT = 2
    VERIFY = 3
    ACCEPT = 4
    CLOSE = 5
    COMMIT = 6


PHASE_WORDS: dict[Phase, str] = {
    Phase.ROOT: "ROOT", Phase.DRAFT: "DRAFT", Phase.VERIFY: "VERIFY", Phase.ACCEPT: "ACCEPT/REJECT",
    Phase.CLOSE: "RESAMPLE/BONUS", Phase.COMMIT: "COMMIT",
}  # fmt: skip
