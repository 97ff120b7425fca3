"""What widgets tell the screen. A widget never acts on the run itself."""

from dataclasses import dataclass

from textual.message import Message


@dataclass
class NodePicked(Message):
    """A node of the tree, or a token of the text, was clicked."""

    node: int


@dataclass
class Moved(Message):
    """An arrow in the tree: left, right, up, down."""

    direction: str


@dataclass
class CellMoved(Message):
    """An arrow on the map of layers and rows."""

    direction: str


@dataclass
class CellPicked(Message):
    """A cell of the map was clicked: its column there, and its layer."""

    column: int
    layer: int


@dataclass
class BlockMoved(Message):
    """An arrow on the lanes."""

    direction: str


@dataclass
class BlockPicked(Message):
    """A block of the lanes was clicked: its place in the chart."""

    number: int


@dataclass
class ClockAsked(Message):
    """The lanes on the other clock."""


@dataclass
class RankAsked(Message):
    """Anything asked on screen Ranks."""


@dataclass
class RankMoved(RankAsked):
    """An arrow on screen Ranks, in one of its parts."""

    direction: str
    part: str


@dataclass
class RankFiltered(RankAsked):
    """Another filter of what is counted: `path`, `block` or `slot`."""

    what: str


@dataclass
class RankEntered(RankAsked):
    """Enter on screen Ranks, in one of its parts."""

    part: str


@dataclass
class RankPicked(RankAsked):
    """A cell of the table was clicked: predicted and true bucket."""

    pred: int
    true: int


@dataclass
class Seek(Message):
    """The round with this index over the whole run (click or drag on the time line)."""

    index: int


@dataclass
class Pressed(Message):
    """A button of the transport line; `action` is an action of the screen."""

    action: str


@dataclass
class KnobStepped(Message):
    """An arrow on a knob: up or down from the value it is on its way to."""

    name: str
    step: int


@dataclass
class KnobCommand(Message):
    """`apply`, `undo` or `reset` (of `name`)."""

    what: str
    name: str | None = None


@dataclass
class KnobTyping(Message):
    """The value of a knob is to be typed."""

    name: str


@dataclass
class Left(Message):
    """Focus goes back to the tree."""
