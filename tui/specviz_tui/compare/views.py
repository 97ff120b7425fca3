"""Runs side by side as text: what they write, position by position and round by round, and their numbers."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from specviz.text import clip, pad
from specviz.view.compare.aligned import Aligned, RunLane
from specviz.view.compare.build import SideBySide
from specviz.view.compare.figures import CompareRow
from specviz.view.words import palette
from specviz_tui.common.paint import CURSOR, FAINT, STRONG, Painter
from specviz_tui.compare.columns import columns, differ

WIDEST = 14  # cells of a token where tokens stand below each other
_LABEL = 24


def window(text: Aligned, at: int, cells: int) -> range:
    """The positions that fit into a line, the chosen one among them."""
    first, used = max(0, at - 3), 0
    stop = first
    while stop < text.n_positions and used + _width(text, stop) + 1 <= cells:
        used += _width(text, stop) + 1
        stop += 1
    while first > 0 and used + _width(text, first - 1) + 1 <= cells:  # at the end of the text
        first -= 1
        used += _width(text, first) + 1
    return range(first, max(stop, first + 1))


def _width(text: Aligned, position: int) -> int:
    """Cells of the widest token of a position."""
    shown = [lane.tokens[position].shown for lane in text.lanes if position < len(lane.tokens)]
    return min(WIDEST, max((cell_len(token) for token in shown), default=1)) + 1


def next_place(text: Aligned, at: int, by: int, differing: bool) -> int | None:
    """The next position where lanes differ (or agree), in a direction; None where there is none."""
    places = range(at + by, text.n_positions if by > 0 else -1, by)
    return next((place for place in places if differ(text, place) == differing), None)


def lanes(comparison: SideBySide, at: int, cells: int, painter: Painter) -> list[Text]:
    """The texts below each other, aligned by position: a bar begins a round, `≠` stands over what differs."""
    text = comparison.text
    shown = window(text, at, cells - 4)
    out = [_over(text, shown, at)]
    for lane in text.lanes:
        out.append(_lane(text, lane, shown, at, painter))
    return out


def _over(text: Aligned, shown: range, at: int) -> Text:
    line = Text("    ", no_wrap=True)
    for position in shown:
        mark = "≠" if differ(text, position) else "·" if text.known else " "
        style = STRONG if mark == "≠" else FAINT
        line.append(" ").append(pad(mark, _width(text, position)), style=style + CURSOR if position == at else style)
    return line


def _lane(text: Aligned, lane: RunLane, shown: range, at: int, painter: Painter) -> Text:
    line = Text(f" {lane.letter}  ", style=STRONG, no_wrap=True)
    begins = {block.first for block in lane.rounds}
    for position in shown:
        room = _width(text, position)
        line.append("│" if position in begins else " ", style=FAINT)
        if position >= len(lane.tokens):
            line.append(pad("", room))
            continue
        token = lane.tokens[position]
        style = painter.tint(token.mark) + (CURSOR if position == at else Style())
        line.append(clip(token.shown, room - 1), style=style)
        glyph = palette.glyph(token.mark)
        line.append(pad(glyph, room - min(cell_len(token.shown), room - 1)), style=painter.tint(token.mark))
    return line


def here(comparison: SideBySide, at: int) -> Text:
    """`position 17 of 96   A r4   B r6: calls of the target so far 4, 6`."""
    line = Text(f" position {at + 1} of {comparison.text.n_positions}", style=STRONG, no_wrap=True)
    for lane, steps in zip(comparison.text.lanes, comparison.steps, strict=True):
        calls = steps.needed(at + 1)
        place = lane.tokens[at].place if at < len(lane.tokens) else "ended"
        shown_calls = f"{calls} target call{'s' if calls != 1 else ''}" if calls is not None else "—"
        line.append(f"   {lane.letter} ", style=STRONG).append(f"{place}, {shown_calls}", style=FAINT)
    return line


def numbers(rows: Sequence[CompareRow], letters: str, cells: int) -> list[Text]:
    """A table: every number of every run, and below it how far each is from the first."""
    room = max(12, (cells - _LABEL - 2) // max(len(letters), 1))
    out = [Text(" " + " " * _LABEL + "".join(pad(letter, room) for letter in letters), style=STRONG, no_wrap=True)]
    for row in rows:
        line = Text(" " + pad(row.label, _LABEL), no_wrap=True)
        for value in row.values:
            line.append(pad(value.text, room))
        out.append(line)
        if len(letters) == 1:
            continue
        delta = Text(" " + pad("  Δ to A", _LABEL), style=FAINT, no_wrap=True)
        for words, apart in zip(row.differences, row.apart, strict=True):
            delta.append(pad(words, room), style=STRONG if apart else FAINT)
        out.append(delta)
    return out


def heads(comparison: SideBySide, cells: int) -> list[Text]:
    """Which letter is which run, and what it promises."""
    out = []
    for lane in comparison.text.lanes:
        line = Text(f" {lane.letter}  ", style=STRONG, no_wrap=True).append(f"{lane.name}  ")
        line.append(lane.title, style=FAINT).append(f"  {lane.badge}", style=STRONG if lane.tone == "broken" else FAINT)
        line.truncate(cells, overflow="ellipsis")
        out.append(line)
    return out


def settings(comparison: SideBySide, cells: int) -> list[Text]:
    """What the runs were set to otherwise."""
    room = max(12, (cells - _LABEL - 2) // max(len(comparison.text.lanes), 1))
    out = []
    for setting in comparison.differing:
        line = Text(" " + pad(setting.name, _LABEL), style=FAINT, no_wrap=True)
        for value in setting.values:
            line.append(pad(value, room))
        out.append(line)
    return [*out, Text(f" {comparison.n_alike} settings are the same", style=FAINT)]


def whole(comparison: SideBySide, at: int, cells: int, painter: Painter) -> list[Text]:
    """All of it; the texts of one or two runs to their ends, last."""
    letters = "".join(lane.letter for lane in comparison.text.lanes)
    return [
        *heads(comparison, cells),
        Text(""),
        *lanes(comparison, at, cells, painter),
        Text(""),
        here(comparison, at),
        Text(""),
        *numbers(comparison.numbers.rows, letters, cells),
        Text(""),
        *settings(comparison, cells),
        Text(""),
        *(columns(comparison.text, cells, painter) if len(letters) <= 2 else ()),
    ]
