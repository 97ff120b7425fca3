"""Blocks of the view as text: each kind is painted here, once, whatever panel it stands in."""

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from specviz.numerals import UNKNOWN, number
from specviz.text import clip, pad
from specviz.view.blocks import (
    Block,
    Cell,
    Facts,
    Heat,
    Plot,
    PlotCurve,
    Square,
    TableBlock,
    Words,
    interval,
    value_text,
)
from specviz.view.frame.parts import WhyRow
from specviz.view.words.numbers import BARS
from specviz_tui.common.paint import CURSOR, FAINT, PLAIN, STRONG, Painter, bar, indented, wrapped

WIDEST_BAR, LEAST_BAR = 44, 3
WIDEST_TEXT = 24  # cells of a name in a table
HEIGHT, COLUMN = 7, 3  # lines of a plot, cells of a place
SIGNS = "◆○△"  # of the second curve of a plot and those behind it
SEGMENTS = "█▒░"  # of what is stacked
LEGEND = "█ lower bound  ▒ 95 % interval"
LABEL, SQUARE, SHADE = 10, 10, 3  # cells of a row's name, of a square and of its shade
FIRST = 1  # lines of a heat map above its first row


def painted(blocks: Iterable[Block], painter: Painter, cells: int, titles: bool = False) -> Text:
    """Blocks below each other, a line between them; below their titles, where nothing else says them."""
    lines: list[Text] = []
    for block in blocks:
        with_title = titles and not isinstance(block, Words | Facts)
        lines += [Text("")] if lines else []
        lines += titled(block, painter, cells) if with_title else paint(block, painter, cells)  # type: ignore[arg-type]
    return Text("\n").join(lines)


def paint(block: Block, painter: Painter, cells: int) -> list[Text]:
    """One block, without its title."""
    if isinstance(block, Words):
        return indented(block.text, cells, STRONG if block.strong else PLAIN)
    if isinstance(block, Facts):
        return [line for row in _facts(block, painter, cells) for line in row]
    if block.missing:
        return indented(block.missing, cells, FAINT)
    if isinstance(block, TableBlock):
        return _table(block, painter, cells)
    if isinstance(block, Heat):
        return [*heat(block, painter, cells), *indented(block.words, cells)]
    if block.stacked:
        return _stacked(block, painter, cells)
    if all(curve.look != "bar" for curve in block.curves):
        return _plot(block, painter, cells)
    return _bars(block, painter, cells)


def titled(block: Plot | TableBlock | Heat, painter: Painter, cells: int) -> list[Text]:
    """A block below its title and what it means."""
    head = ": ".join(filter(None, (block.title, block.help)))
    return [*(indented(head, cells, FAINT) if head else []), *paint(block, painter, cells)]


def cursor_line(block: TableBlock) -> int:
    """The line of the table's cursor among those of `paint`."""
    return 1 + (block.cursor or 0)


# Facts --------------------------------------------------------------------------------------------------------------


def _facts(block: Facts, painter: Painter, cells: int) -> Iterable[list[Text]]:
    """`label  value  what it means`; what it means below where there is no room for all of it."""
    label = max((cell_len(row.label) for row in block.rows), default=0)
    value = max((cell_len(row.value) for row in block.rows), default=0)
    for row in block.rows:
        yield _fact(row, label, value, painter, cells)


def _fact(row: WhyRow, label: int, value: int, painter: Painter, cells: int) -> list[Text]:
    line = Text(f" {pad(row.label, label)}  ", style=FAINT, no_wrap=True).append(pad(row.value, value), style=STRONG)
    if row.bar is not None:
        line.append("  ").append(bar(row.bar, 8), style=painter.tint("drafted"))
    if not row.note or line.cell_len + 2 + cell_len(row.note) <= cells:
        return [line.append(f"  {row.note}" if row.note else "", style=FAINT)]
    line.truncate(cells, overflow="ellipsis")
    return [line, *(Text(f"  {text}", style=FAINT) for text in wrapped(row.note, cells - 3))]


# Tables -------------------------------------------------------------------------------------------------------------


def _table(block: TableBlock, painter: Painter, cells: int) -> list[Text]:
    """Columns as wide as they must be; bars share what room is left; what is on the right of the screen is cut off."""
    columns = range(len(block.heads))
    right = [all(_is_number(row[k]) for row in block.rows) for k in columns]
    texts = [min(WIDEST_TEXT, max([0, *(cell_len(row[k].text) for row in block.rows)])) for k in columns]
    filled = [any(row[k].fill is not None for row in block.rows) for k in columns]
    room = cells - 1 - sum(max(text, cell_len(head)) + 2 for text, head in zip(texts, block.heads, strict=True))
    room = max(LEAST_BAR, min(16, room // max(1, sum(filled)))) if any(filled) else 0
    widths = [
        max(text + ((room + 1) if fill else 0), cell_len(head))
        for text, fill, head in zip(texts, filled, block.heads, strict=True)
    ]
    head = Text(" ", style=FAINT, no_wrap=True)
    for k in columns:
        head.append(_aligned(block.heads[k], widths[k], right[k] and not filled[k])).append("  ")
    lines = [head]
    for at, row in enumerate(block.rows):
        line = Text(" ", no_wrap=True)
        for k, cell in enumerate(row):
            text = _aligned(clip(cell.text, texts[k]), texts[k], right[k])
            line.append(text, style=_look(cell, painter, at == block.cursor and k == 0))
            if filled[k]:
                line.append(" ").append(bar(cell.fill, room), style=painter.tint(cell.mark or "accepted"))
            line.append(" " * (widths[k] - texts[k] - (room + 1 if filled[k] else 0) + 2))
        lines.append(line)
    for line in lines:
        line.rstrip()
        line.truncate(cells, overflow="ellipsis")
    return [*lines, *indented(block.words, cells, FAINT)]


def _is_number(cell: Cell) -> bool:
    return isinstance(cell.value, int | float) or cell.text in ("", UNKNOWN)


def _look(cell: Cell, painter: Painter, cursor: bool) -> Style:
    if cursor:
        return CURSOR
    return painter.tint(cell.mark) if cell.mark is not None and cell.fill is None else PLAIN


def _aligned(text: str, cells: int, right: bool) -> str:
    return " " * (cells - cell_len(text)) + text if right else pad(text, cells)


# Charts -------------------------------------------------------------------------------------------------------------


def _bars(block: Plot, painter: Painter, cells: int) -> list[Text]:
    """A line a place: of every curve its value, and a bar as long as it; of one curve alone how many it rests on."""
    names = [str(x) for x in block.xs]
    label = min(WIDEST_TEXT, max(map(cell_len, names)))
    texts = [[value_text(block, curve, at) for at in range(len(names))] for curve in block.curves]
    widest = [max(cell_len(text) for text in column) for column in texts]
    several = len(block.curves) > 1
    label = max(label, min(cell_len(block.axis), WIDEST_TEXT // 2)) if several else label
    heads = [curve.name if several else "" for curve in block.curves]
    behind = [*block.notes, *(f"n {n}" for curve in block.curves for n in curve.ns if not several), ""]
    rest = cells - label - 5 - sum(max(width, 1) + 3 for width in widest) - max(map(cell_len, behind))
    room = max(LEAST_BAR, min(WIDEST_BAR, rest // len(block.curves)))
    lines = []
    if several:
        head = Text(f" {clip(block.axis, label):<{label}}  ", style=FAINT, no_wrap=True)
        for name, width in zip(heads, widest, strict=True):
            head.append(pad(clip(name, width + room + 1), width + room + 1)).append("  ")
        lines.append(head)
    tops = _tops(block)
    for at, name in enumerate(names):
        line = Text(f" {_aligned(clip(name, label), label, not block.flat)}  ", no_wrap=True)
        for k, curve in enumerate(block.curves):
            line.append(_aligned(texts[k][at], widest[k], block.flat or several)).append(" ")
            mark = curve.marks[at] if curve.marks else curve.mark
            line.append(_interval_bar(curve, at, tops[k], room), style=painter.tint(mark)).append("  ")
            if not several and curve.ns:
                line.append(f"n {curve.ns[at]}", style=FAINT)
        line.append(block.notes[at] if block.notes else "", style=FAINT)
        line.rstrip()
        lines.append(line)
    for line in lines:
        line.truncate(cells, overflow="ellipsis")
    return lines


def _tops(block: Plot) -> list[float]:
    """What a full bar of every curve stands for: 1 for shares, else the most of all curves."""
    if block.unit in ("share", "percent"):
        return [1.0] * len(block.curves)
    most = max((y for curve in block.curves for y in curve.ys if y is not None), default=1.0) or 1.0
    return [most] * len(block.curves)


def _interval_bar(curve: PlotCurve, at: int, top: float, cells: int) -> str:
    y, (low, high) = curve.ys[at], interval(curve, at)
    if y is None:
        return " " * cells
    return interval_bar(y / top, None if low is None else low / top, None if high is None else high / top, cells)


def interval_bar(value: float, low: float | None, high: float | None, cells: int) -> str:
    """A bar up to the lower end of the interval, shaded on to the upper one; exactly `cells` wide."""
    if low is None or high is None:
        return bar(value, cells)
    full, upto = round(min(max(low, 0.0), 1.0) * cells), round(min(max(high, 0.0), 1.0) * cells)
    if value > 0 and not upto:
        upto = 1
    return ("█" * full + "▒" * (upto - full)).ljust(cells)


def _stacked(block: Plot, painter: Painter, cells: int) -> list[Text]:
    """A bar a place, a segment a curve, told apart by their shade as well; the numbers behind."""
    names = [str(x) for x in block.xs]
    label = min(WIDEST_TEXT, max(map(cell_len, names)))
    numbers = [" · ".join(value_text(block, curve, at) for curve in block.curves) for at in range(len(names))]
    room = max(LEAST_BAR, min(WIDEST_BAR, cells - label - 6 - max(map(cell_len, numbers))))
    most = max(sum(curve.ys[at] or 0.0 for curve in block.curves) for at in range(len(names))) or 1.0
    legend = Text(" ", style=FAINT, no_wrap=True)
    for k, curve in enumerate(block.curves):
        legend.append(SEGMENTS[k % len(SEGMENTS)], style=painter.tint(curve.mark)).append(f" {curve.name}  ")
    lines = [legend]
    for at, name in enumerate(names):
        line = Text(f" {pad(clip(name, label), label)}  ", no_wrap=True)
        for k, curve in enumerate(block.curves):
            y = curve.ys[at] or 0.0
            long = max(1, round(y / most * room)) if y else 0  # something above nothing always shows
            line.append(SEGMENTS[k % len(SEGMENTS)] * long, style=painter.tint(curve.mark))
        note = f"  {block.notes[at]}" if block.notes else ""
        line.append(f"  {numbers[at]}{note}", style=FAINT)
        lines.append(line)
    for line in lines:
        line.truncate(cells, overflow="ellipsis")
    return lines


def _plot(block: Plot, painter: Painter, cells: int) -> list[Text]:
    """The first curve as columns in eighths of a line, from 0, so that one twice as high is twice as much; · where its
    interval ends. The other curves are signs at their height."""
    first, *others = block.curves
    shown = range(min(len(block.xs), max(2, (cells - 7) // COLUMN)))
    ends = [y for curve in block.curves for y in (*curve.ys, *curve.highs) if y is not None]
    top = max(ends, default=1.0) or 1.0
    out = []
    for level in range(HEIGHT - 1, -1, -1):
        text = number(top * (level + 1) / HEIGHT, 0 if top >= 10 else 2) if level in (HEIGHT - 1, HEIGHT // 2) else ""
        line = Text(f"{text:>5} ", style=FAINT, no_wrap=True)
        for at in shown:
            line.append(*_spot(block, first, others, at, level, top, painter)).append(" " * (COLUMN - 2))
        out.append(line)
    signed = {at for at, _, _ in block.signs}
    foot = Text(f"{clip(block.axis, 5):>5} ", style=FAINT, no_wrap=True)
    for at in shown:
        foot.append(f"{clip(str(block.xs[at]), COLUMN - 1):<{COLUMN}}", style=STRONG if at in signed else FAINT)
    legend = Text(f"{'':>6}", style=FAINT, no_wrap=True)
    for _, word, mark in block.signs:
        legend.append("██", style=painter.tint(mark)).append(f" {word}  ", style=FAINT)
    for k, curve in enumerate(others):
        legend.append(SIGNS[k % len(SIGNS)], style=painter.tint(curve.mark)).append(f" {curve.name}  ", style=FAINT)
    legend.append(f"██ {first.name}" if not block.signs else "", style=FAINT)
    legend.append("  ·· 95 %" if first.highs else "", style=FAINT).truncate(cells)
    return [*out, foot, legend]


def _spot(
    block: Plot, first: PlotCurve, others: Sequence[PlotCurve], at: int, level: int, top: float, painter: Painter
) -> tuple[str, Style]:
    """Two cells of a place on one line of the plot."""
    for k, curve in enumerate(others):
        y = curve.ys[at]
        if y is not None and int(min(y / top, 0.999) * HEIGHT) == level:
            return f"{SIGNS[k % len(SIGNS)]} ", painter.tint(curve.mark) + STRONG
    y, high = first.ys[at], interval(first, at)[1]
    full = (y or 0.0) / top * HEIGHT - level
    mark = next((mark for place, _, mark in block.signs if place == at), first.marks[at] if first.marks else "untested")
    if full >= 1:
        return "██", painter.tint(mark)
    if full > 0.06:
        return BARS[min(7, int(full * 8))] * 2, painter.tint(mark)
    return ("··", FAINT) if high is not None and int(min(high / top, 0.999) * HEIGHT) == level else ("  ", FAINT)


# Heat maps ----------------------------------------------------------------------------------------------------------


def heat(block: Heat, painter: Painter, cells: int) -> list[Text]:
    """A line a row: the text of every square, its sign, and how full it is; then what is said of the row."""
    right = [max(map(cell_len, (name, *(texts[k] for texts in block.right)))) for k, name in enumerate(block.heads)]
    head = Text(f" {'':<{LABEL}}", style=FAINT, no_wrap=True)
    for name in block.columns:
        head.append(f"{name:>6}".ljust(SQUARE))
    for name, width in zip(block.heads, right, strict=True):
        head.append(f" {name:>{width}}")
    lines = [head]
    for at, name in enumerate(block.rows):
        line = Text(f" {pad(clip(name, LABEL), LABEL)}", style=FAINT, no_wrap=True)
        for k, square in enumerate(block.squares[at]):
            line.append_text(_square(square, block.cursor == (at, k), painter))
        for text, width in zip(block.right[at] if block.right else (), right, strict=False):
            line.append(f" {text:>{width}}", style=PLAIN)
        lines.append(line)
    for name, *texts in block.foot:
        line = Text(f" {pad(clip(name, LABEL), LABEL)}", style=FAINT, no_wrap=True)
        for text in texts:
            line.append(f"{text:>6}".ljust(SQUARE))
        lines.append(line)
    for line in lines:
        line.rstrip()
        line.truncate(cells, overflow="ellipsis")
    return lines


def _square(square: Square, cursor: bool, painter: Painter) -> Text:
    look = (painter.tint(square.mark) if square.mark and square.share else FAINT) + (CURSOR if cursor else PLAIN)
    text = Text(f"{square.text:>6}", style=look, no_wrap=True).append(square.sign or " ", style=look)
    shade = painter.tint(square.mark) if square.mark else FAINT
    return text.append(bar(square.share, SHADE), style=shade)


def square_at(block: Heat, x: int, y: int) -> tuple[int, int] | None:
    """The row and column of a heat map at a place of its text."""
    row, column = y - FIRST, (x - LABEL - 1) // SQUARE
    inside = row in range(len(block.rows)) and column in range(len(block.columns)) and x > LABEL
    return (row, column) if inside else None
