"""What a picture is made of. Every painter paints these in their order; colours are opaque, `#RRGGBB`.

Lengths are CSS pixels, y grows downwards, text stands on its baseline.
"""

from dataclasses import dataclass, field
from typing import Literal

Anchor = Literal["start", "middle", "end"]


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle with round corners. `dash`: lengths of stroke and gap."""

    x: float
    y: float
    w: float
    h: float
    r: float = 0.0
    fill: str | None = None
    stroke: str | None = None
    width: float = 1.0
    dash: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Bend:
    """A cubic curve through its first and last point."""

    points: tuple[tuple[float, float], tuple[float, float], tuple[float, float], tuple[float, float]]
    stroke: str
    width: float = 1.0


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a line of text in one look. `under`, `struck`: the colour of a line below or through it."""

    text: str
    fill: str
    bold: bool = False
    under: str | None = None
    struck: str | None = None


@dataclass(frozen=True, slots=True)
class TextLine:
    """One line of text: pieces that follow each other, from, around or up to `x`."""

    x: float
    y: float
    pieces: tuple[Piece, ...]
    size: float
    mono: bool = False
    anchor: Anchor = "start"


Shape = Box | Bend | TextLine


@dataclass(frozen=True, slots=True)
class Picture:
    """`title` and `words` are for who cannot see it."""

    width: float
    height: float
    ground: str
    title: str
    words: str
    shapes: list[Shape] = field(default_factory=list)
