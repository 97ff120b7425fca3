"""Screen *Lanes* as text: lanes in cells (a column is a stretch of time on one clock), and the parts below the chart.

Where several blocks fall into one cell the last that works wins over idling; what was rolled back is hatched in every
lane. The arrow row below leads from a target's pass back to what it voided.
"""

from dataclasses import dataclass

from rich.style import Style
from rich.text import Text

from specviz.text import clip
from specviz.view.panels.lanes.model import Chart, LaneBlock, LanesModel
from specviz.view.words import palette
from specviz.view.words.numbers import seconds
from specviz_tui.common.blocks import painted
from specviz_tui.common.paint import CURSOR, FAINT, PLAIN, STRONG, Painter, facts, sentence


def block(model: LanesModel, painter: Painter, width: int) -> Text:
    """The sentence on the block under the cursor, then its numbers."""
    block_view = model.block
    if block_view is None:
        return Text("nothing has happened yet", style=FAINT)
    title = Text(block_view.title, style=painter.tint(block_view.mark) + STRONG)
    return Text("\n").join([title, *sentence(block_view.words, width), Text(""), *facts(block_view.rows, width)])


def over_run(model: LanesModel, painter: Painter, width: int) -> Text:
    """The run on this clock, then the classifier."""
    return Text("\n").join([*facts(model.summary, width), Text(""), painted(model.hrad, painter, width)])


LABEL, NOTE, BRANCHES = 15, 27, 6  # cells of a lane's name and of its text; most branch lanes

Cells = list[tuple[str, Style]]


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """The stretch of time that is drawn, and how long a cell is."""

    t0: float
    t1: float
    cells: int

    @property
    def step(self) -> float:
        """Seconds of a cell."""
        return (self.t1 - self.t0) / self.cells or 1e-9

    def span(self, block: LaneBlock) -> tuple[int, int]:
        """Cells `[x0, x1)` of a block, at least one; outside the window it may lie beyond either end."""
        x0 = int((block.t0 - self.t0) / self.step + 1e-6)
        return x0, max(x0 + 1, int((block.t1 - self.t0) / self.step + 0.5))

    def cell(self, t: float) -> int:
        return max(0, min(self.cells - 1, int((t - self.t0) / self.step)))


def window(chart: Chart, rounds: int, width: int) -> TimeWindow:
    """The last `rounds` rounds of the chart, and in any case the block under the cursor."""
    spans = chart.rounds[-rounds:]
    t0, t1 = (spans[0].t0, spans[-1].t1) if spans else (chart.t0, chart.t1)
    if chart.cursor is not None:
        chosen = chart.blocks[chart.cursor]
        t0, t1 = min(t0, chosen.t0), max(t1, chosen.t1)
    note = NOTE if width >= 100 else 0
    return TimeWindow(t0, max(t1, t0 + 1e-9), max(10, width - LABEL - note - 2))


def drawn(chart: Chart, rounds: int, painter: Painter, width: int) -> tuple[Text, TimeWindow, list[str]]:
    """The lanes, the rounds below them and the last arrow; which lane stands in which line."""
    seen = window(chart, rounds, width)
    keys = [lane.key for lane in chart.lanes]
    branches = [key for key in keys if key.startswith("branch")]
    shown = [key for key in keys if key not in branches[BRANCHES:]]
    lines = [_lane(chart, key, seen, painter, width) for key in shown]
    if len(branches) > BRANCHES:
        lines.append(Text(f"{'':<{LABEL}}  and {len(branches) - BRANCHES} branches more", style=FAINT))
        shown.append("")
    lines.append(_rounds(chart, seen))
    lines += _arrow(chart, seen, painter)
    return Text("\n").join(lines), seen, shown


def _lane(chart: Chart, key: str, seen: TimeWindow, painter: Painter, width: int) -> Text:
    lane = next(lane for lane in chart.lanes if lane.key == key)
    cells: Cells = [(" ", PLAIN)] * seen.cells
    mine = [block for block in chart.blocks if block.lane == key]
    for block in sorted(mine, key=lambda block: block.kind != "idle"):
        _put(
            cells,
            block,
            seen,
            painter,
            block.at == (chart.blocks[chart.cursor].at if chart.cursor is not None else None),
        )
    name = f"  {lane.label}" if lane.branch else f"{lane.label} {lane.device}"
    line = Text(f" {clip(name, LABEL - 2):<{LABEL - 2}}│", style=PLAIN if not lane.branch else FAINT, no_wrap=True)
    for char, style in cells:
        line.append(char, style=style)
    line.append("│", style=FAINT)
    if width >= 100:
        line.append(f" {clip(lane.text, NOTE - 2)}", style=FAINT)
    return line


def _put(cells: Cells, block: LaneBlock, seen: TimeWindow, painter: Painter, here: bool) -> None:
    style = palette.VOID if block.void else palette.BLOCKS[block.kind]
    look = painter.style(style) + (CURSOR if here else FAINT if block.open else PLAIN)
    x0, x1 = seen.span(block)
    tail = block.kind == "draft" and not block.open and 0 < block.useful < 1  # what was kept comes first
    kept = x0 + max(1, round((x1 - x0) * block.useful)) if tail else x1
    void = painter.style(palette.VOID) + (CURSOR if here else PLAIN)
    for x in range(max(0, x0), min(len(cells), x1)):
        cells[x] = (style.glyph, look) if x < kept else (palette.VOID.glyph, void)


def _rounds(chart: Chart, seen: TimeWindow) -> Text:
    """`├─ r35 ────┤` under every round."""
    cells = [" "] * seen.cells
    for span in chart.rounds:
        if span.t1 <= seen.t0:
            continue
        x0, x1 = seen.cell(span.t0), seen.cell(span.t1 - seen.step / 2)
        room = x1 - x0 + 1
        name = f" r{span.round} " if room > 7 else f"r{span.round}"
        text = name[:room] if room < 4 else "├" + (name + "─" * room)[: room - 2] + "┤"
        cells[x0 : x1 + 1] = list(text.ljust(room))[:room]
    return Text(f" {'rounds':<{LABEL - 2}} {''.join(cells)}", style=FAINT, no_wrap=True)


def _arrow(chart: Chart, seen: TimeWindow, painter: Painter) -> list[Text]:
    """From the pass of the last round that voided something back to the cells it voids."""
    known = [arrow for arrow in chart.arrows if chart.blocks[arrow.source].t1 > seen.t0]
    if not known:
        return []
    arrow = known[-1]
    cells = [" "] * seen.cells
    end = seen.cell(chart.blocks[arrow.source].t1 - seen.step / 2)
    places = [seen.cell((chart.blocks[k].t0 + chart.blocks[k].t1) / 2) for k in arrow.targets]
    low, high = min([end, *places]), max([end, *places])
    cells[low : high + 1] = "─" * (high - low + 1)
    for place in places:
        cells[place] = "▴"
    cells[end] = "╯" if end == high else "┴"
    line = Text(f" {'invalid':<{LABEL - 2}} ", style=FAINT, no_wrap=True)
    return [line.append("".join(cells), style=painter.style(palette.VOID))]


def legend(seen: TimeWindow, painter: Painter) -> Text:
    """`1 cell = 2 ms · ▣ draft ▤ verify ..`."""
    line = Text(f"Lanes · 1 cell = {seconds(seen.step)} · ", style=STRONG)
    for kind in ("draft", "verify", "branch", "idle"):
        style = palette.BLOCKS[kind]
        line.append(style.glyph, style=painter.style(style)).append(f" {style.word}  ")
    return line.append(palette.VOID.glyph, style=painter.style(palette.VOID)).append(f" {palette.VOID.word}")
