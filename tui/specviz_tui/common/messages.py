"""What widgets tell the screen. A widget never acts on the run itself."""

from dataclasses import dataclass
from enum import Enum

from textual.message import Message


@dataclass
class NodePicked(Message):
    """A node of the tree, or a token of the text, was clicked."""

    node: int


@dataclass
class Moved(Message):
    """An arrow in the tree: left, right, up, down."""

    direction: str


class Keep(Enum):
    """Stands for what is to stay as it is."""

    KEEP = 0


KEEP = Keep.KEEP


@dataclass
class Asked(Message):
    """What a panel wants shown: another round (`index` over the run), the draft tree in its place, another node.

    `hold`: the view holds still, as it does for a node.
    """

    node: int | Keep | None = KEEP
    index: int | None = None
    tree: bool = False
    hold: bool = False


@dataclass
class SeekAsked(Message):
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
class OpenAsked(Message):
    """Another trace, or a core, is to be opened."""


@dataclass
class Left(Message):
    """Focus goes back to the tree."""
