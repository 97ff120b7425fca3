"""Layers x rows in cells: confidence in bands, exits, what another threshold would do.

The rows of the round on screen are wide, with their tokens and numbers; those of earlier rounds take one cell each,
oldest left. Layers count from the bottom; when they do not all fit, the window holds the one under the cursor.
"""

from dataclasses import dataclass

from rich.style import Style
from rich.text import Text

from specviz.text import clip, pad
from specviz.view.panels.exits.model import Column, ExitCell, HeatMap
from specviz.view.words import palette
from specviz.view.words.numbers import prob
from specviz_tui.common.paint import CURSOR, FAINT, PLAIN, STRONG, Painter

LABEL, LEAST, MOST = 5, 3, 10  # cells of `L12`, of a wide column
EXIT = palette.STYLES["exit"].glyph


@dataclass(frozen=True, slots=True)
class MapColumn:
    """Cells `[x0, x1)` of a line belong to this column of the map."""

    x0: int
    x1: int
    column: int


@dataclass(frozen=True, slots=True)
class _Plan:
    """Which columns are drawn, how wide those of the present round are, and which layers."""

    first: int  # narrow ones from here
    wide: int  # those from here on are wide
    cells: int
    layers: tuple[int, ...]


def _plan(heat: HeatMap, index: int, width: int, height: int) -> _Plan:
    """As many rows of the present round as fit, then older ones for what is left."""
    mine = sum(column.index == index for column in heat.columns)
    room = width - LABEL - 1
    cells = max(LEAST, min(MOST, room // max(1, mine)))
    wide = len(heat.columns) - min(mine, max(1, room // cells))
    if heat.column is not None and heat.columns[heat.column].index == index:
        wide = min(wide, heat.column)
    older, left = wide, room - (len(heat.columns) - wide) * cells - 1
    while older and mine and left >= 1 + (heat.columns[older - 1].row == 0):
        older -= 1
        left -= 1 + (heat.columns[older].row == 0)
    return _Plan(older, wide, cells, _window(heat, height))


def _window(heat: HeatMap, height: int) -> tuple[int, ...]:
    """The layers drawn, from the top."""
    n = heat.n_layers
    if n <= height:
        return tuple(range(n, 0, -1))
    top = min(n, max(height, heat.layer + height // 2))
    return tuple(range(top, top - height, -1))


def drawn(
    heat: HeatMap, index: int, painter: Painter, width: int, height: int
) -> tuple[Text, list[MapColumn], tuple[int, ...]]:
    """Tokens, one line a layer, fates; which cells belong to which column, which line to which layer."""
    plans = _plan(heat, index, width, height - 2)
    columns = range(plans.first, len(heat.columns))
    spots, x = [], LABEL
    for k in columns:
        x += _bar(heat, plans, k)
        cells = 1 if k < plans.wide else plans.cells
        spots.append(MapColumn(x, x + cells, k))
        x += cells
    lines = [_tokens(heat, plans, painter)]
    lines += [_layer(heat, layer, plans, painter) for layer in plans.layers]
    lines.append(_fates(heat, plans, painter))
    for line in lines:
        line.truncate(width)
    return Text("\n").join(lines), spots, plans.layers


def _tokens(heat: HeatMap, plans: _Plan, painter: Painter) -> Text:
    """The token of every wide column, over its cells."""
    line = Text(" " * LABEL, no_wrap=True)
    narrow = sum(1 + (heat.columns[k].row == 0) for k in range(plans.first, plans.wide))
    line.append(pad("earlier rounds" if narrow > 15 else "", narrow), style=FAINT)
    for k in range(plans.wide, len(heat.columns)):
        column = heat.columns[k]
        style = painter.tint(column.mark) + (CURSOR if k == heat.column else PLAIN)
        line.append("│" if _bar(heat, plans, k) else "", style=FAINT)
        line.append(pad(clip(column.shown, plans.cells - 1), plans.cells - 1), style=style).append(" ")
    return line


def _bar(heat: HeatMap, plans: _Plan, k: int) -> bool:
    """Whether a round begins with this column, so that a bar stands before it: not before the very first thing."""
    return heat.columns[k].row == 0 and (k < plans.wide or plans.first < plans.wide)


def _layer(heat: HeatMap, layer: int, plans: _Plan, painter: Painter) -> Text:
    mark = "▸" if layer == heat.layer else " "
    style = STRONG if layer in heat.tested else FAINT
    line = Text(no_wrap=True).append(f"{mark}L{layer:<{LABEL - 2}}", style=style)
    for k in range(plans.first, len(heat.columns)):
        column, here = heat.columns[k], k == heat.column and layer == heat.layer
        cell, would = column.cells[layer - 1], heat.would[k] == layer
        line.append("│" if _bar(heat, plans, k) else "", style=FAINT)
        if k < plans.wide:
            line.append(*_narrow(cell, would, here, painter))
        else:
            _wide(line, column, cell, would, here, plans.cells, painter)
    return line


def _narrow(cell: ExitCell, would: bool, here: bool, painter: Painter) -> tuple[str, Style]:
    glyph, style = _sign(cell, would, painter)
    return glyph, style + (CURSOR if here else PLAIN)


def _sign(cell: ExitCell, would: bool, painter: Painter) -> tuple[str, Style]:
    """One cell: exit, would exit, band, or how it was computed when no head was asked."""
    if cell.took:
        return EXIT, painter.mark("exit") + STRONG
    if would:
        return palette.WOULD.glyph, painter.style(palette.WOULD)
    if cell.band is not None:
        style = painter.band(cell.band)
        return palette.BANDS[cell.band].glyph, style if cell.source == "test" else style + FAINT
    return ("·" if cell.kind else " "), FAINT


def _wide(line: Text, column: Column, cell: ExitCell, would: bool, here: bool, cells: int, painter: Painter) -> None:
    """Band, confidence and, at an exit, its sign; a watched value is faint and in brackets."""
    cursor = CURSOR if here else PLAIN
    if cell.band is None:
        glyph, style = _sign(cell, would, painter)
        line.append(pad(f" {glyph}" if glyph.strip() else "", cells - 1), style=style + cursor).append(" ")
        return
    style = painter.band(cell.band) + (PLAIN if cell.source == "test" else FAINT)
    sign, sign_style = _sign(cell, would, painter) if cell.took or would else ("", PLAIN)
    room = cells - 2 - len(sign)
    value = prob(cell.conf) if room >= 3 else ""
    if cell.source != "test" and room >= len(value) + 2:
        value = f"({value})"
    line.append(palette.BANDS[cell.band].glyph, style=style + cursor).append(value, style=style + cursor)
    line.append(sign, style=sign_style + cursor)
    line.append(" " * (cells - 1 - len(value) - len(sign)))


def _fates(heat: HeatMap, plans: _Plan, painter: Painter) -> Text:
    """What became of every row, below it."""
    line = Text(no_wrap=True).append("fate ".ljust(LABEL), style=FAINT)
    for k in range(plans.first, len(heat.columns)):
        column = heat.columns[k]
        style = painter.tint(column.mark)
        line.append("│" if _bar(heat, plans, k) else "", style=FAINT)
        if k < plans.wide:
            line.append(column.glyph, style=style)
            continue
        wrong = " wrong" if column.wrong else ""
        line.append(pad(clip(f"{column.glyph}{wrong}", plans.cells - 1), plans.cells), style=style)
    return line
