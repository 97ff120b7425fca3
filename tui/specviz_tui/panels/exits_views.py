"""The views of screen *Layers* as text: the staircase with how cells came about, the ledger, the curves, the cell."""

from rich.text import Text

from specviz.text import clip, pad
from specviz.view.panels.exits.model import BANDS, CellInfo, Column, GateCurve, HeatMap, LayersModel, PendingStairs
from specviz.view.panels.exits.sweeps import SweepLine, Sweeps, calls_text
from specviz.view.words import palette
from specviz.view.words.numbers import number, percent, prob
from specviz_tui.common.paint import CURSOR, FAINT, PLAIN, STRONG, Painter, bar, fitted, indented, joined, wrapped

TOKEN = 12


# Staircase ------------------------------------------------------------------------------------------------------------


def staircase(found: LayersModel, index: int, painter: Painter, width: int) -> Text:
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
    return Text("\n").join([*lines, *indented(stairs.words, width), *_legend(painter, width)])


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


# Ledger ---------------------------------------------------------------------------------------------------------------


def ledger(layers: LayersModel, painter: Painter, width: int) -> Text:
    """Paid, earned and net of every climb, then the round in both currencies and in time."""
    found = layers.ledger
    if found is None:
        return Text("")
    if found.missing:
        return Text("\n").join(indented(found.missing, width, FAINT))
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
    time = f"Time: {layers.timing.text}." if layers.timing else ""
    for words in (found.calls, found.cells, found.words, time):
        lines += indented(words, width) if words else []
    return Text("\n").join(lines)


# Curves ---------------------------------------------------------------------------------------------------------------


def curves(gates: GateCurve | None, sweeps: Sweeps | None, oracle: str, painter: Painter, width: int) -> Text:
    """What the test asks of each layer, then what other thresholds would have done."""
    lines = _gates(gates, painter, width) if gates is not None else []
    lines.append(Text(""))
    if sweeps is None or sweeps.missing:
        lines += indented(sweeps.missing or "" if sweeps else "", width, FAINT)
    else:
        for line in sweeps.lines:
            lines += [*_swept(line, painter, width)]
        lines += indented(f"{sweeps.words}; held: {sweeps.own}", width, FAINT)
    lines += indented(oracle, width) if oracle else []
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
    return [*lines, *indented(gates.words, width)]


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


# Under the map, and the cell ----------------------------------------------------------------------------------------


def below(found: LayersModel, heat: HeatMap, painter: Painter, width: int) -> list[Text]:
    """Legend, numbers, the round's ledger and time, what other thresholds would have done; the cell in words."""
    parts = [
        (k, Text(palette.BANDS[k].glyph, style=painter.band(k)).append(f" {BANDS[k][1]}", style=FAINT))
        for k in range(len(BANDS))
    ]
    exits = Text(palette.STYLES["exit"].glyph, style=painter.mark("exit")).append(" exited", style=FAINT)
    what = Text(heat.what_text[:1], style=painter.style(palette.WOULD)).append(heat.what_text[1:], style=FAINT)
    lines = [fitted([(9, t) for _, t in parts] + [(1, exits), (2, what)], width - 1, "  ")]
    lines = [Text(" ", no_wrap=True).append_text(line) for line in lines]
    known = [
        Text(f"{m.label} ", style=FAINT).append(m.text, style=STRONG) for m in found.numbers if m.value is not None
    ]
    if known:
        lines.append(Text(" ", no_wrap=True).append_text(joined(known, width - 2)))
    if found.ledger is not None and not found.ledger.missing:
        lines += indented(found.ledger.calls, width)
    if found.timing is not None:
        lines += indented(f"round {found.timing.text}", width)
    lines += _sweep_line(found, width)
    lines += indented(heat.words, width, FAINT)
    lines += indented(heat.note, width, FAINT) if heat.note else []
    return lines


def _sweep_line(found: LayersModel, width: int) -> list[Text]:
    """`wrong at τ  .70 → 8 %   ▶.80 → 3 %`."""
    line = found.sweeps.line("tau") if found.sweeps and not found.sweeps.missing else None
    if line is None:
        return []
    parts = []
    for point in line.few(5):
        text = f"{'▶' if point.own else ''}{number(point.value)} → {percent(point.wrong_rate)}"
        parts.append(Text(text, style=STRONG if point.own else PLAIN))
    head = Text(f" wrong at {line.symbol}  ", style=FAINT, no_wrap=True)
    return [head.append_text(joined(parts, width - head.cell_len - 1))]


def cell(found: CellInfo | None, painter: Painter, width: int) -> Text:
    """The inspector: numbers, the way over the layers, and what happened in words."""
    if found is None:
        return Text("no row has climbed yet", style=FAINT)
    label = max(len(row.label) for row in found.rows)
    lines = []
    for row in found.rows:
        line = Text(no_wrap=True).append(f"{row.label:<{label}}  ", style=FAINT).append(row.value, style=STRONG)
        if row.bar is not None:
            room = min(10, width - line.cell_len - len(row.note) - 2)
            line.append(" ").append(bar(row.bar, room).rstrip() if room > 2 else "", style=painter.tint("exit"))
        note = [f" {row.note}"] if line.cell_len + len(row.note) < width else []
        line.append("".join(note), style=FAINT)
        lines.append(line)
        if row.note and not note:
            lines += [Text(f"  {part}", style=FAINT) for part in wrapped(row.note, width - 2)]
    lines += [Text(""), *[Text(line) for line in wrapped(found.words, width)]]
    if found.trace:
        lines.append(Text(""))
        lines.append(Text(f"conf over layers 1 to {len(found.trace[0].value)}", style=FAINT))
        token = min(12, max(len(row.label) for row in found.trace))
        for row in found.trace:
            line = Text(no_wrap=True).append(f"{row.label[:token]:<{token}} ", style=PLAIN)
            line.append(row.value, style=painter.tint("accepted" if row.note else "rejected"))
            lines.append(line.append(f" {row.note}", style=FAINT))
    return Text("\n").join(lines)
