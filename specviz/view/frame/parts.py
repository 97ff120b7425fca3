"""The parts of a `Frame` beside the tree: the why panel, counts, knobs, numbers and the time line."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from specviz.runlog.rounds import Points, RoundPoint
from specviz.runlog.run import Mark


class WhyRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of numbers in the why panel. `bar` 0..1."""

    label: str
    value: str
    bar: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Remark:
    """What a panel adds to the reasons of a node: rows of numbers, then a sentence."""

    rows: tuple[WhyRow, ...] = ()
    words: str = ""


class ResidualEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A token of the row the closing token was drawn from."""

    shown: str
    prob: float
    text: str
    drawn: bool = False
    drafted: bool = False
    p: float | None = None
    q: float | None = None


class Residual(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was left to draw from after a rejection (or the plain row of a bonus)."""

    title: str  # "Residual max(0, p − q): mass .38"
    entries: tuple[ResidualEntry, ...]
    note: str = ""


class Flip(msgspec.Struct, frozen=True, omit_defaults=True):
    """The smallest change of u that changes the verdict. The decision only: the text after it may differ."""

    text: str
    lo: float
    hi: float
    caveat: str = ""


class Why(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a node is what it is. Before its test is shown, `words` says what will decide."""

    node: int
    title: str  # 'n14 "▁mat"'
    mark: Mark
    glyph: str
    headline: str  # "REJECTED · depth 3 · test 3 of 4"
    rule: str = ""
    rows: tuple[WhyRow, ...] = ()
    words: str = ""
    residual: Residual | None = None
    cost: str | None = None
    flip: Flip | None = None
    otherwise: str | None = None  # the nearest other change, for a node without a draw of its own
    rank: str | None = None
    decided: bool = True  # whether the verdict may be shown at this phase

    @property
    def what_flips(self) -> str:
        """The smallest change that would have decided otherwise, with its caveat; "" where none is known."""
        if self.flip is None:
            return self.otherwise or ""
        return f"{self.flip.text} ({self.flip.caveat})" if self.flip.caveat else self.flip.text


class Counts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The line under the tree."""

    text: str  # "12 drafted · tested 4: ✓2 ✗2 · never tested 8 · recovered ↻1"
    closing: Mark | None = None


KnobMoves = Literal["slide", "number", "switch", "choice", ""]


class KnobItem(msgspec.Struct, frozen=True, omit_defaults=True):
    """A knob of the bar. `staged`: chosen, not sent; `sent`: sent, not yet acknowledged; else None.

    `moves`: how it is moved in a browser, by `step` from `lo` to `hi`; "": not there.
    """

    name: str
    label: str  # the symbol where it is a Greek one, else the name: "γ", "top_p"
    kind: str
    value: Any
    text: str
    help: str
    applies: Literal["R", "Q", "X"]
    applies_text: str  # "next round"
    fill: float | None = None  # place in its range of the value asked for, else of the one in force, 0..1
    moves: KnobMoves = ""
    lo: float | None = None
    hi: float | None = None
    step: float = 1
    choices: tuple[str, ...] = ()
    default: Any = None
    changes_text: bool = False  # it changes the text's law (T) or is lossy (L)
    staged: Any = None
    staged_text: str | None = None
    sent: Any = None
    sent_text: str | None = None
    disabled: str | None = None  # the reason, or None
    idle: bool = False  # it does nothing with the others as they are
    since: str = ""  # the round that the newest change of it took effect in, "r11"


@dataclass(frozen=True, slots=True)
class KnobBar:
    """All knobs, and the last change."""

    items: tuple[KnobItem, ...]
    last: str  # "last r29: w_max 4→3", "" when nothing
    mixed: bool = False  # sampling changed within the run
    absent: tuple[tuple[str, str], ...] = ()  # well-known knobs that this method lacks, each with the reason

    @property
    def pending(self) -> str:
        """What was chosen or sent and is not in force yet: "pending d_max 5→6", "" when nothing."""
        staged = [f"{i.label} {i.sent_text or i.text}→{i.staged_text}" for i in self.items if i.staged is not None]
        sent = [f"{i.label} {i.text}→{i.sent_text} (sent, next round)" for i in self.items if i.sent is not None]
        begins = "next run:" if all(item.applies_text == "next run" for item in self.items) else "pending"
        return "  ".join(filter(None, (f"{begins} {', '.join(staged)}" if staged else "", ", ".join(sent))))


class Metric(msgspec.Struct, frozen=True, omit_defaults=True):
    """A number of `specviz.metrics` with its interval. `name` is the contract's, `label` the short one on screen."""

    name: str
    label: str
    value: float | None
    text: str
    interval: tuple[float, float] | None = None  # 95 %
    help: str = ""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Every round, and where we are. The points are shared between frames as long as no round comes."""

    points: Sequence[RoundPoint]
    index: int
    bars: str  # one sparkline character per round
    label: str  # "r37/37"

    @property
    def marked(self) -> Iterable[RoundPoint]:
        """The points with a marker."""
        points = self.points
        return points.marked() if isinstance(points, Points) else (point for point in points if point.markers)


@dataclass(frozen=True, slots=True)
class Series:
    """Numbers over positions, depths or counts, with 95 % intervals where there are any; columns of one length."""

    name: str
    label: str
    xs: tuple[int, ...]
    values: tuple[float, ...]
    lows: tuple[float | None, ...]
    highs: tuple[float | None, ...]
    ns: tuple[int, ...]
    missing: str | None = None  # why it is empty
