"""Line filters for terminals without colour or without Unicode. They see every painted cell, scrollbars and dialogs
too."""

from collections.abc import Iterator
from functools import lru_cache

from rich.cells import cell_len
from rich.color import Color as RichColor
from rich.color_triplet import ColorTriplet
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

from specviz.text import SPACE, SPACE_ASCII, SPACE_PLAIN
from specviz.view.words import palette
from specviz.view.words.palette import Rgb, legible
from specviz_tui.common.paint import BARS_KEY

# A sign and the ASCII character that stands for it, pair by pair.
_PAIRS = """
─- ━- │| ┃| ┏+ ┓+ ┗+ ┛+ ╭+ ╮+ ╰+ ╯+ ┌+ ┐+ └` ┘+ ├+ ┤+ ┬+ ┴+ ┼+ ▏] ▕[ ▎- ▍= ▌= ▋= ▊# ▉# █# ▂. ▃:
▄- ▅= ▆+ ▇* ▔- …~ ⚑! →> ←< ↑^ ↓v ⇐< ⇒> ×x −- –- —- ±~ ≥> ≤< ∞8 ∅0 ⏎$ ⟨< ⟩> “" ”" ‘' ’' •* ◆% ◀< ▐|
«< »> ◂< ●@ ·. ○o ┄. ░. ▒% ‹< ›> ÷/ ΣS ΠP ⊕& ⊘! ⊗X ┝+ ┕` ⇢~ ╳X ▸> ▣d ▤v ▥b ◇h ◎> ‖| ▴^ ⌊[ ⌋] γg αa εe
τt φf λl ρr µu
"""
_FURNITURE = {"\xa0": " ", "\u2009": " ", **{pair[0]: pair[1] for pair in _PAIRS.split()}}
_MARKS = {style.glyph: style.ascii for style in palette.STYLES.values()}
_STATES = {glyph: ascii.ljust(cell_len(glyph)) for glyph, ascii, _ in palette.STATES.values()}
_TABLE = str.maketrans({**_FURNITURE, **_STATES, **_MARKS, SPACE: SPACE_ASCII})
_LOWEST = "_"  # bar of a sparkline, or edge of a box, in ASCII
_CORNER = "▊"  # of a box whose lower edge is made of `▁`: that of a field to type in


class NoColour(LineFilter):
    """NO_COLOR to the letter: no colour code is sent; bold, dim, underline and reverse stay and carry the meaning."""

    _plain = Style.from_color(RichColor.default(), RichColor.default())

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments with the terminal's own two colours."""
        plain = self._plain
        return [Segment(text, plain if style is None else style + plain, control) for text, style, control in segments]


class Legible(LineFilter):
    """Text at least 4.5 : 1 on what is behind it, in every theme: dimmed hints, muted titles and marks alike.

    Here and not in each style, because a theme brings its own grounds, and dim is a blend with them. Lines, bars and
    blocks are no text and stay. What is reversed has the same contrast either way round.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments, those too faint in a stronger tone of the same colour."""
        ground = background.rich_color.triplet
        return [self._legible(segment, ground) for segment in segments]

    def _legible(self, segment: Segment, ground: ColorTriplet | None) -> Segment:
        text, style, control = segment
        if style is None or style.color is None or style.color.triplet is None or not is_text(text):
            return segment
        behind = style.bgcolor.triplet if style.bgcolor is not None and style.bgcolor.triplet is not None else ground
        if behind is None:
            return segment
        better = legible(tuple(style.color.triplet), tuple(behind))
        return segment if better == style.color.triplet else Segment(text, _toned(style, better), control)


@lru_cache(4096)
def _toned(style: Style, colour: Rgb) -> Style:
    return style + Style.from_color(RichColor.from_rgb(*colour))


@lru_cache(4096)
def is_text(text: str) -> bool:
    """Whether there is anything to read: more than spaces, lines, bars and blocks."""
    return any(not c.isspace() and not "\u2500" <= c <= "\u259f" for c in text)


class AsciiOnly(LineFilter):
    """Every cell as one ASCII character, so that no column moves."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments, in ASCII, of the same width."""
        spelled = _spelled(segments, SPACE_ASCII, _LOWEST)
        return [Segment(_ascii(text), style, control) for text, style, control in spelled]


class Blanks(LineFilter):
    """Where the font of a terminal draws `▁` as an underscore: another sign for a space."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments, of the same width."""
        return list(_spelled(segments, SPACE_PLAIN, SPACE))


def _spelled(segments: list[Segment], space: str, other: str) -> Iterator[Segment]:
    """`▁` as `space` where it stands for one, as `other` in a sparkline and in the lower edge of a box."""
    edged = False  # the segment before ends in the corner of a box
    for segment in segments:
        text, style, control = segment
        if SPACE in text:
            drawn = edged or (style is not None and BARS_KEY in style.meta)
            segment = Segment(text.replace(SPACE, other if drawn else space), style, control)
        edged = text.endswith(_CORNER)
        yield segment


def _ascii(text: str) -> str:
    if text.isascii():
        return text
    return "".join(c if c.isascii() else "?" * cell_len(c) for c in text.translate(_TABLE))
