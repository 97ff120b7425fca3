"""The views of screen *Layers* as text: the staircase with how cells came about, the ledger, the curves, the cell."""

from rich.text import Text

from specviz.numerals import UNKNOWN
from specviz.text import clip, pad
from specviz.view.blocks import Words, twin
from specviz.view.panels.exits.model import BANDS, CellInfo, Column, HeatMap, LayersModel, PendingStairs
from specviz.view.panels.exits.sweeps import few
from specviz.view.words import palette
from specviz_tui.common.blocks import paint, painted, titled
from specviz_tui.common.paint import CURSOR, FAINT, PLAIN, STRONG, Painter, fitted, indented, joined

# Staircase ------------------------------------------------------------------------------------------------------------


def staircase(model: LayersModel, index: int, painter: Painter, width: int) -> Text:
    """Left: layers x rows by how each cell was computed. Right: how deep every row stood after each climb."""
    heat, stairs = model.heat, model.stairs
    mine = [column for column in heat.columns if column.index == index] if heat else []
    if heat is None or stairs is None or not mine:
        return Text(" no row has climbed yet", style=FAINT)
    layers = range(heat.n_layers, 0, -1)
    cells = max(3, min(9, (width - 6) // (2 * len(mine)) - 1))
    head = Text("     ", no_wrap=True)
    for column in mine:
        head.append(pad(clip(column.shown, cells - 1), cells), style=painter.tint(column.mark))
    lines = [head.append("   rows that passed, climb by climb", style=FAINT)]
    for layer in layers:
        line = _kinds(heat, mine, layer, cells, painter)
        lines.append(line.append("   ").append_text(_depths(stairs, layer, cells, painter)))
    lines.append(_under(stairs, mine, cells))
    lines += [*indented(stairs.words, width), *_legend(painter, width), Text(""), *paint(stairs.table, painter, width)]
    return Text("\n").join(lines)


def _legend(painter: Painter, width: int) -> list[Text]:
    """What the letters mean, in as many lines as it takes."""
    lines = [Text(no_wrap=True)]
    for kind in palette.KINDS.values():
        part = Text(f" {kind.glyph} ", style=painter.style(kind)).append(f"{kind.word}  ", style=FAINT)
        if lines[-1].cell_len + part.cell_len > width:
            lines.append(Text(no_wrap=True))
        lines[-1].append_text(part)
    return lines


def _kinds(heat: HeatMap, mine: list[Column], layer: int, cells: int, painter: Painter) -> Text:
    line = Text(no_wrap=True).append(f" L{layer:<3}", style=STRONG if layer in heat.tested else FAINT)
    for column in mine:
        cell = column.cells[layer - 1]
        here = (
            CURSOR if heat.column is not None and heat.columns[heat.column] is column and layer == heat.layer else PLAIN
        )
        if cell.kind is None:
            line.append(pad("", cells))
            continue
        lost = FAINT if column.status == "rejected" else PLAIN
        sign = palette.KINDS[cell.kind].glyph + (palette.STYLES["exit"].glyph if cell.took else "")
        sign += f"{cell.width}" if cells > 4 and (cell.width or 1) > 1 else ""
        sign = sign if column.status != "rejected" else sign + palette.STYLES["rejected"].glyph
        line.append(clip(sign, cells - 1), style=painter.kind(cell.kind) + lost + here)
        line.append(" " * (cells - len(clip(sign, cells - 1))))
    return line


def _depths(stairs: PendingStairs, layer: int, cells: int, painter: Painter) -> Text:
    """A column a climb; in it a mark for each row that has passed the layer: the older, the further left."""
    line = Text(no_wrap=True)
    for step in stairs.steps:
        passed = sum(depth >= layer for depth in step.depths)
        text = (
            ("▇" * passed).ljust(len(step.depths), "·") if len(step.depths) < cells else f"{passed}/{len(step.depths)}"
        )
        line.append(pad(text, max(cells, 5)), style=painter.kind("own") if passed else FAINT)
    return line


def _under(stairs: PendingStairs, mine: list[Column], cells: int) -> Text:
    """Where each row stopped, below both pictures."""
    line = Text("     ", no_wrap=True)
    for column in mine:
        line.append(pad(column.glyph + (f"⇥{column.exit_layer}" if column.exit_layer else ""), cells), style=FAINT)
    line.append("   ")
    for step in stairs.steps:
        line.append(pad(f"row {step.row}" if cells > 5 else f"{step.row}", max(cells, 5)), style=FAINT)
    return line


# Ledger and curves ----------------------------------------------------------------------------------------------------


def ledger(layers: LayersModel, painter: Painter, width: int) -> Text:
    """Paid, earned and net of every climb, then the round in both currencies and in time."""
    if layers.ledger is None:
        return Text("")
    time = [Words(f"Time: {layers.timing}.")] if layers.timing else []
    table = Words(layers.ledger.missing) if layers.ledger.missing else twin(layers.ledger)
    return painted([table, Words(layers.ledger.words), *time], painter, width)


def curves(layers: LayersModel, painter: Painter, width: int) -> Text:
    """What the test asks of each layer, then what other thresholds would have done."""
    gates = [] if layers.gates is None else [twin(layers.gates)]
    swept = [few(twin(chart), 7) for chart in layers.sweeps]
    return painted([*gates, *swept, Words(layers.swept), Words(layers.oracle)], painter, width)


# Under the map, and the cell ----------------------------------------------------------------------------------------


def below(model: LayersModel, heat: HeatMap, painter: Painter, width: int) -> list[Text]:
    """Legend, numbers, the round's ledger and time, what other thresholds would have done; the cell in words."""
    parts = [
        (k, Text(palette.BANDS[k].glyph, style=painter.band(k)).append(f" {BANDS[k][1]}", style=FAINT))
        for k in range(len(BANDS))
    ]
    exits = Text(palette.STYLES["exit"].glyph, style=painter.mark("exit")).append(" exited", style=FAINT)
    what = Text(heat.what_text[:1], style=painter.style(palette.WOULD)).append(heat.what_text[1:], style=FAINT)
    lines = [fitted([(9, t) for _, t in parts] + [(1, exits), (2, what)], width - 1, "  ")]
    lines = [Text(" ", no_wrap=True).append_text(line) for line in lines]
    numbers = model.numbers.rows if model.numbers is not None else ()
    known = [Text(f"{m.label} ", style=FAINT).append(m.value, style=STRONG) for m in numbers if m.value != UNKNOWN]
    if known:
        lines.append(Text(" ", no_wrap=True).append_text(joined(known, width - 2)))
    lines += indented(model.calls, width) if model.calls else []
    lines += indented(f"round {model.timing}", width) if model.timing else []
    for chart in model.sweeps[:1]:
        lines += indented(chart.words, width)
    lines += indented(heat.words, width, FAINT)
    lines += indented(heat.note, width, FAINT) if heat.note else []
    return lines


def cell(info: CellInfo | None, painter: Painter, width: int) -> Text:
    """The inspector: what happened in words, numbers, and the way over the layers."""
    if info is None:
        return Text("no row has climbed yet", style=FAINT)
    heads = Text("\n").join(titled(info.heads, painter, width))
    return painted([Words(info.words), info.facts], painter, width).append("\n\n").append_text(heads)
