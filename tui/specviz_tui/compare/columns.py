"""Two texts of one prompt in two columns, or below each other where it is narrow: each line holds the same positions of
both, a bar begins a round, `≠` stands where a line differs."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from specviz.text import clip
from specviz.view.compare.aligned import Aligned, RunLane
from specviz_tui.common.paint import CURSOR, FAINT, STRONG, Painter

SIDE_BY_SIDE = 100  # cells from which on there is room for two columns
_GUTTER = 6  # cells of the position
_BETWEEN = 3


def _column_cells(cells: int) -> int:
    """Of one column of text."""
    return (cells - _GUTTER - _BETWEEN) // 2 if cells >= SIDE_BY_SIDE else cells - _GUTTER - _BETWEEN


def columns(text: Aligned, cells: int, painter: Painter) -> list[Text]:
    """Every position of one or two lanes. A token wider than a column is cut."""
    wide, room = cells >= SIDE_BY_SIDE, _column_cells(cells)
    begins = [{block.first for block in lane.rounds} for lane in text.lanes]
    out = []
    for positions in _lines(text, begins, room):
        unlike = len(text.lanes) > 1 and any(_parted(text, at) for at in positions)
        sign = Text(" ≠ " if unlike else " ┃ ", style=STRONG if unlike else FAINT)
        number = Text(f"{positions[0] + 1:>{_GUTTER - 1}} ", style=FAINT)
        parts = [
            _stretch(text, lane, begin, positions, room, painter)
            for lane, begin in zip(text.lanes, begins, strict=True)
        ]
        if wide:
            parts[0].pad_right(max(0, room - parts[0].cell_len))
            out.append(Text(no_wrap=True).append_text(number).append_text(sign.join(parts)))
            continue
        for k, (lane, part) in enumerate(zip(text.lanes, parts, strict=True)):
            head = number if k == 0 else Text(" " * _GUTTER)
            letter = Text(f"{lane.letter}{'≠' if unlike else ' '} ", style=STRONG if unlike else FAINT)
            out.append(Text(no_wrap=True).append_text(head).append_text(letter).append_text(part))
    return out


def differ(text: Aligned, position: int) -> bool:
    """Whether the lanes write different tokens there, or one has ended and another goes on; texts that are not on
    record do not differ."""
    if not text.known:
        return False
    return len({lane.tokens[position].shown if position < len(lane.tokens) else None for lane in text.lanes}) > 1


def _parted(text: Aligned, at: int) -> bool:
    """Whether both lanes have a token there and they are not the same: one that is still written is no difference."""
    return all(at < len(lane.tokens) for lane in text.lanes) and differ(text, at)


def _lines(text: Aligned, begins: Sequence[set[int]], room: int) -> list[range]:
    """The positions of each line: as many as fit into the column of every lane."""
    out, first = [], 0
    used = [0] * len(text.lanes)
    for at in range(text.n_positions):
        needed = [_width(lane, begin, at) for lane, begin in zip(text.lanes, begins, strict=True)]
        if at > first and any(u + n > room for u, n in zip(used, needed, strict=True)):
            out.append(range(first, at))
            first, used = at, [0] * len(used)
        used = [u + n for u, n in zip(used, needed, strict=True)]
    return [*out, range(first, text.n_positions)] if text.n_positions else []


def _width(lane: RunLane, begins: set[int], at: int) -> int:
    return cell_len(lane.tokens[at].shown) + (at in begins) if at < len(lane.tokens) else 0


def _stretch(text: Aligned, lane: RunLane, begins: set[int], positions: range, room: int, painter: Painter) -> Text:
    """One line of one lane, each token in the colour of what became of it; the first that differs stands out."""
    line = Text(no_wrap=True)
    for at in positions:
        if at >= len(lane.tokens):
            break
        if at in begins:
            line.append("│", style=FAINT)
        token, unlike = lane.tokens[at], _parted(text, at)
        lit = CURSOR if unlike and at == text.n_same else STRONG if unlike else Style()
        line.append(clip(token.shown, room - 1), style=painter.tint(token.mark) + lit)
    return line
