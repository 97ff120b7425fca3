"""Line filters for terminals without colour or without Unicode. They see every painted cell, scrollbars and dialogs
too."""

from rich.cells import cell_len
from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

from specviz.view import palette

_FURNITURE = {
    "─": "-", "━": "-", "│": "|", "┃": "|", "┏": "+", "┓": "+", "┗": "+", "┛": "+", "╭": "+",
    "╮": "+", "╰": "+", "╯": "+", "┌": "+", "┐": "+", "└": "`",
    "┘": "+", "├": "+", "┤": "+", "┬": "+", "┴": "+", "┼": "+", "▏": "]", "▕": "[", "▎": "-", "▍": "=", "▌": "=",
    "▋": "=", "▊": "#", "▉": "#", "█": "#", "▁": "_", "▂": ".", "▃": ":", "▄": "-", "▅": "=", "▆": "+", "▇": "*",
    "▔": "-", "…": "~", "⚑": "!", "→": ">", "←": "<", "↑": "^", "↓": "v", "⇐": "<", "⇒": ">", "×": "x", "−": "-",
    "–": "-", "—": "-", "±": "~", "≥": ">", "≤": "<", "∞": "8", "∅": "0", "⏎": "$", "⟨": "<", "⟩": ">", "“": "\"",
    "”": "\"", "‘": "'", "’": "'", "•": "*", "◆": "%", "◀": "<", "▐": "|", "⏮": "<", "⏭": ">", "●": "@", "·": ".",
    "○": "o", "┄": ".", "░": ".", "▒": "%", "‹": "<", "›": ">", "÷": "/", "Σ": "S", "Π": "P",
    "⊕": "&", "⊘": "!", "┝": "+", "┕": "`",
    "⇢": "~", "╳": "X", "▸": ">", "▣": "d", "▤": "v", "▥": "b", "◇": "h", "‖": "|", "▴": "^", "⌊": "[", "⌋": "]",
    "γ": "g", "α": "a", "ε": "e", "τ": "t", "φ": "f", "λ": "l", "ρ": "r", "µ": "u", "\xa0": " ", "\u2009": " ",
}  # fmt: skip
_MARKS = {style.glyph: style.ascii for style in palette.STYLES.values()}
_STATES = {glyph: ascii.ljust(cell_len(glyph)) for glyph, ascii, _ in palette.STATES.values()}
_TABLE = str.maketrans({**_FURNITURE, **_STATES, **_MARKS})


class NoColour(LineFilter):
    """NO_COLOR to the letter: no colour code is sent; bold, dim, underline and reverse stay and carry the meaning."""

    _plain = Style.from_color(RichColor.default(), RichColor.default())

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments with the terminal's own two colours."""
        plain = self._plain
        return [Segment(text, plain if style is None else style + plain, control) for text, style, control in segments]


class AsciiOnly(LineFilter):
    """Every cell as one ASCII character, so that no column moves."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments, in ASCII, of the same width."""
        return [Segment(_ascii(text), style, control) for text, style, control in segments]


def _ascii(text: str) -> str:
    if text.isascii():
        return text
    return "".join(c if c.isascii() else "?" * cell_len(c) for c in text.translate(_TABLE))
