"""The other views of screen *Layers* as text: the staircase with how cells came about, the ledger, the curves."""

from rich.text import Text

from specviz.text import clip, pad
from specviz.view.panels.exits.model import Column, GateCurve, HeatMap, Layers, Ledger, Stairs
from specviz.view.panels.exits.sweeps import SweepLine, Sweeps, calls_text
from specviz.view.words import palette
from specviz.view.words.numbers import number, percent, prob
from specviz_tui.common.paint import CURSOR, FAINT, PLAIN, STRONG, Painter, bar, wrapped

TOKEN = 12


def sentence(words: str, width: int, style: object = PLAIN) -> list[Text]:
    """A sentence in lines, a space before each."""
    return [Text(f" {line}", style=style) for line in wrapped(words, width - 2)]  # type: ignore[arg-type]


# Staircase ------------------------------------------------------------------------------------------------------------


def staircase(found: Layers, index: int, painter: Painter, width: int) -> Text:
    """Left: layers x rows by how each cell was computed. Right: how deep every row stood after each climb."""
    heat, stairs = found.heat, found.stairs
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
    return Text("\n").join([*lines, *sentence(stairs.words, width), *_legend(painter, width)])


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


def _depths(stairs: Stairs, layer: int, cells: int, painter: Painter) -> Text:
    """A column a climb; in it a mark for each row that has passed the layer: the older, the further left."""
    line = Text(no_wrap=True)
    for step in stairs.steps:
        passed = sum(depth >= layer for depth in step.depths)
        text = (
            ("▇" * passed).ljust(len(step.depths), "·") if len(step.depths) < cells else f"{passed}/{len(step.depths)}"
        )
        line.append(pad(text, max(cells, 5)), style=painter.kind("own") if passed else FAINT)
    return line


def _under(stairs: Stairs, mine: list[Column], cells: int) -> Text:
    """Where each row stopped, below both pictures."""
    line = Text("     ", no_wrap=True)
    for column in mine:
        line.append(pad(column.glyph + (f"⇥{column.exit_layer}" if column.exit_layer else ""), cells), style=FAINT)
    line.append("   ")
    for step in stairs.steps:
        line.append(pad(f"row {step.row}" if cells > 5 else f"{step.row}", max(cells, 5)), style=FAINT)
    return line


# Ledger ---------------------------------------------------------------------------------------------------------------


def ledger(found: Ledger, extra: str, painter: Painter, width: int) -> Text:
    """Paid, earned and net of every climb, then the round in both currencies."""
    if found.missing:
        return Text("\n").join(sentence(found.missing, width, FAINT))
    most = max((max(entry.paid, entry.earned) for entry in found.entries), default=1)
    cells = max(4, min(14, (width - 66) // 2))
    head = f"   {'row':<{TOKEN}} {'paid':>5} {'':<{cells}} {'earned':>6} {'':<{cells}} {'net':>4}"
    lines = [Text(head, style=FAINT)]
    for entry in found.entries:
        line = Text(no_wrap=True).append(f" {entry.glyph} ", style=painter.tint(entry.mark))
        line.append(pad(entry.shown, TOKEN)).append(f" {entry.paid:>5} ")
        line.append(bar(entry.paid / most, cells), style=painter.tint("recovered"))
        line.append(f" {entry.earned:>6} ").append(bar(entry.earned / most, cells), style=painter.tint("bonus"))
        net = "bonus" if entry.net > 0 else "rejected" if entry.net < 0 else "untested"
        line.append(f" {entry.net_text:>4}", style=painter.tint(net) + STRONG)  # type: ignore[arg-type]
        line.append(f"  {entry.what}", style=FAINT)
        line.truncate(width, overflow="ellipsis")
        lines.append(line)
    total = f"   {'round':<{TOKEN}} {found.paid:>5} {'':<{cells}} {found.earned:>6} {'':<{cells}} {found.net:>+4}"
    lines.append(Text(total.replace("-", "−"), style=STRONG))
    for words in (found.calls, found.cells, found.words, extra):
        lines += sentence(words, width) if words else []
    return Text("\n").join(lines)


# Curves ---------------------------------------------------------------------------------------------------------------


def curves(gates: GateCurve | None, sweeps: Sweeps | None, oracle: str, painter: Painter, width: int) -> Text:
    """What the test asks of each layer, then what other thresholds would have done."""
    lines = _gates(gates, painter, width) if gates is not None else []
    lines.append(Text(""))
    if sweeps is None or sweeps.missing:
        lines += sentence(sweeps.missing or "" if sweeps else "", width, FAINT)
    else:
        for line in sweeps.lines:
            lines += [*_swept(line, painter, width)]
        lines += sentence(f"{sweeps.words}; held: {sweeps.own}", width, FAINT)
    lines += sentence(oracle, width) if oracle else []
    return Text("\n").join(lines)


def _gates(gates: GateCurve, painter: Painter, width: int) -> list[Text]:
    cells = max(6, min(24, width - 56))
    head = f" {'layer':<6} {'T':>5}  {'raw confidence asked':<{cells + 6}} {'of rows seen':>12}  tests stops wrong"
    lines = [Text(head, style=FAINT)]
    for gate in reversed(gates.layers):
        style = STRONG if gate.tested else FAINT
        line = Text(no_wrap=True).append(f" L{gate.layer:<5} {number(gate.temp):>5}  ", style=style)
        line.append(f"{prob(gate.one_rival):>5} ", style=style)
        line.append(bar(gate.one_rival, cells), style=painter.tint("exit") if gate.tested else FAINT)
        counts = f"{gate.n_tests:>5} {gate.n_stops:>5} {gate.n_wrong:>5}" if gate.n_tests else ""
        line.append(f" {prob(gate.raw_thr) if gate.n_tests else '':>12}  {counts}", style=style)
        lines.append(line)
    return [*lines, *sentence(gates.words, width)]


def _swept(line: SweepLine, painter: Painter, width: int) -> list[Text]:
    """A table of some of the points; ▶ the run's own, ★ the best."""
    head = f"   {line.symbol:>4}  {'tokens/round':>12}  {'exits':>6}  {'layer':>5}  {'wrong':>6}  layer calls/token"
    lines = [Text(head, style=FAINT)]
    for point in line.few(7):
        sign = "▶" if point.own else " "
        text = (
            f" {sign} {number(point.value):>4}  {point.tokens_per_round:>12.2f}  {percent(point.exit_rate):>6}  "
            f"{number(point.mean_layer, 1):>5}  {percent(point.wrong_rate):>6}  {calls_text(point.calls)}"
        )
        row = Text(text, style=STRONG if point.own or point.best else PLAIN, no_wrap=True)
        row.append(f"  {palette.STYLES['bonus'].glyph} fewest" if point.best else "", style=painter.tint("bonus"))
        lines.append(row)
    return lines
