"""How marks and bars become Rich text here: one painter for all widgets, made from the palette of the view.

The front-end picks no colour and no glyph of its own: what stands for a verdict comes from
`specviz.view.words.palette`, what is only furniture (borders, hints) from the theme of the style sheet."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual.app import App

from specviz.runlog.run import Mark
from specviz.view.frame.parts import WhyRow
from specviz.view.words import palette
from specviz.view.words.palette import CellKind

THEMES = ("textual-dark", "textual-light", "nord", "solarized-light")
EIGHTHS = " ▎▎▍▌▋▊▉"  # one eighth would look like the end of a track
FAINT = Style(dim=True)
STRONG = Style(bold=True)
PLAIN = Style()
CURSOR = Style(reverse=True)
BARS_KEY = "bars"
BARRED = Style(meta={BARS_KEY: True})  # of a sparkline: its lowest bar is no sign for a space


@dataclass(frozen=True, slots=True)
class Painter:
    """Marks on a dark or light ground, or without colour."""

    dark: bool = True
    no_color: bool = False
    sixteen: bool = False  # colours are all the terminal has

    def mark(self, mark: Mark) -> Style:
        return _mark_style(mark, self.dark, self.no_color, self.sixteen)

    def tint(self, mark: Mark) -> Style:
        """The colour of a mark without underline or reverse, for text beside the token."""
        style = self.mark(mark)
        return Style(color=style.color, bold=style.bold, dim=style.dim)

    def band(self, band: int | None) -> Style:
        """The style of a band of confidence; faint where nothing was asked."""
        return FAINT if band is None else _style(palette.BANDS[band], self.dark, self.no_color)

    def kind(self, kind: CellKind | None) -> Style:
        """The style of how a cell was computed."""
        return FAINT if kind is None else _style(palette.KINDS[kind], self.dark, self.no_color)

    def style(self, style: palette.Style) -> Style:
        """Any style of the palette."""
        return _style(style, self.dark, self.no_color)


def next_theme(app: App[Any]) -> None:
    """Another theme of the few that are offered, round and round."""
    at = THEMES.index(app.theme) if app.theme in THEMES else -1
    app.theme = THEMES[(at + 1) % len(THEMES)]


def painter_of(app: App[object]) -> Painter:
    return Painter(app.current_theme.dark, app.no_color, sixteen_colours(app))


def sixteen_colours(app: App[Any]) -> bool:
    """Whether the terminal has 16 colours, to which every other is rounded."""
    return app.console.color_system in ("standard", "windows")


@lru_cache(64)
def _mark_style(mark: Mark, dark: bool, no_color: bool, sixteen: bool) -> Style:
    return Style.parse(palette.rich_style(mark, dark, no_color, sixteen) or "none")


@lru_cache(64)
def _style(style: palette.Style, dark: bool, no_color: bool) -> Style:
    return Style.parse(palette.rich(style, dark, no_color) or "none")


def bar(fill: float | None, cells: int) -> str:
    """A horizontal bar of exactly `cells` cells; something above nothing always shows."""
    if fill is None:
        return " " * cells
    eighths = round(min(max(fill, 0.0), 1.0) * cells * 8)
    if fill > 0:
        eighths = max(eighths, 1)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (EIGHTHS[rest] if rest else "")).ljust(cells)


def track(fill: float | None, cells: int) -> str:
    """A slider: `▕███─────▏`, or `▕        ▏` when the range has no end."""
    if fill is None:
        return "▕" + "·" * cells + "▏"
    full = round(min(max(fill, 0.0), 1.0) * cells)
    return "▕" + "█" * full + "─" * (cells - full) + "▏"


def spread(left: Text, right: Text, cells: int) -> Text:
    """`left` and `right` at the two ends of a line; the left one is clipped when they meet.

    What does not fit at all on the right keeps half of the line: a word that is cut says that there is more.
    """
    if right.cell_len >= cells:
        right = _clipped(right, cells // 2)
    room = cells - right.cell_len
    line = _clipped(left, room - (1 if right.cell_len else 0))
    line.append(" " * (cells - line.cell_len - right.cell_len))
    return line.append_text(right)


def _clipped(text: Text, cells: int) -> Text:
    out = text.copy()
    out.truncate(max(cells, 0), overflow="ellipsis")
    return out


def joined(parts: list[Text], cells: int, gap: str = "   ") -> Text:
    """The parts in a line; from the first that does not fit on, they are left out."""
    line = Text(no_wrap=True)
    for part in parts:
        if line.cell_len + (len(gap) if line else 0) + part.cell_len > cells:
            break
        line.append(gap if line else "").append_text(part)
    return line


def fitted(parts: list[tuple[int, Text]], cells: int, gap: str = "   ") -> Text:
    """`(rank, part)` in the order they stand; the parts of the highest rank go until the rest fits."""
    kept = [(rank, part) for rank, part in parts if part.cell_len]
    while len(kept) > 1 and sum(part.cell_len + len(gap) for _, part in kept) - len(gap) > cells:
        kept.remove(max(kept, key=lambda item: item[0]))
    return joined([part for _, part in kept], cells, gap)


def wrapped(words: str, cells: int) -> list[str]:
    """The words in lines of at most so many cells, broken at spaces."""
    lines: list[str] = []
    for word in words.split():
        if lines and cell_len(lines[-1]) + 1 + cell_len(word) <= cells:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def sentence(words: str, cells: int, style: Style = PLAIN) -> list[Text]:
    return [Text(line, style=style) for line in wrapped(words, cells)]


def indented(words: str, cells: int, style: Style = PLAIN) -> list[Text]:
    """A sentence in lines, a space before each."""
    return [Text(f" {line}", style=style) for line in wrapped(words, cells - 2)]


def facts(rows: Sequence[WhyRow], cells: int) -> list[Text]:
    """`label  value  note`, a line each."""
    label = max((len(row.label) for row in rows), default=0)
    lines = []
    for row in rows:
        line = Text(no_wrap=True).append(f"{row.label:<{label}}  ", style=FAINT).append(row.value, style=STRONG)
        line.append(f"  {row.note}" if row.note else "", style=FAINT)
        line.truncate(cells, overflow="ellipsis")
        lines.append(line)
    return lines
