"""Screen *Lanes* as text: lanes in cells (a column is a stretch of time on one clock), and the parts below the chart.

Where several blocks fall into one cell the last that works wins over idling; what was rolled back is hatched in every
lane. The arrow row below leads from a target's pass back to what it voided.
"""

from dataclasses import dataclass

from rich.style import Style
from rich.text import Text

from specviz.numerals import number, percent, prob
from specviz.text import clip, pad
from specviz.view.panels.lanes.model import Chart, ClassifierView, LaneBlock, LanesModel
from specviz.view.words import palette
from specviz.view.words.labels import BRANCH_MASS
from specviz.view.words.numbers import seconds
from specviz.view.words.palette import glyph
from specviz_tui.common.paint import CURSOR, FAINT, PLAIN, STRONG, Painter, bar, facts, sentence

TOKEN = 11
IN_BRANCH = "No bound here: in a branch nothing stops drafting; its tokens are cut once the branch has survived."
NO_BOUND = "This method drafts on however unsure the draft model is."
NO_HRAD = "No classifier in this method: specbranch asks one how far to draft."


def steps(model: LanesModel, painter: Painter, width: int) -> Text:
    """A line a drafted token: fate, token, bar of its confidence with the bound as a bar line, and the comparison."""
    if not model.steps:
        return Text("\n").join(sentence(model.steps_missing, width, FAINT))
    cells = max(4, min(20, width - TOKEN - 24))
    lines = []
    for step in model.steps:
        line = Text(no_wrap=True).append(f"{glyph(step.mark)} ", style=painter.tint(step.mark))
        line.append(pad(clip(step.shown, TOKEN), TOKEN), style=STRONG if step.stopped else PLAIN)
        line.append(f"{'' if step.branch is None else f'b{step.branch}':<3}", style=FAINT)
        track = list(bar(step.conf, cells))
        if step.bound is not None:
            track[min(cells - 1, int(step.bound * cells))] = "┃"
        line.append("".join(track), style=painter.tint("rejected" if step.stopped else "drafted"))
        line.append(f" {step.text}", style=STRONG if step.stopped else FAINT)
        entropy = "" if step.entropy is None else f"entropy {number(step.entropy)}"
        _where_it_fits(line, width, step.fate, f"position {step.pos}", entropy)
        lines.append(line)
        lines[-1].truncate(width, overflow="ellipsis")
    if model.steps and all(step.bound is None for step in model.steps):
        lines += sentence(IN_BRANCH if model.steps[0].branch is not None else NO_BOUND, width, FAINT)
    return Text("\n").join(lines)


def _where_it_fits(line: Text, width: int, *words: str) -> None:
    """Add what a wide window has room for, the first words first."""
    for word in filter(None, words):
        if line.cell_len + len(word) + 2 <= width:
            line.append(f"  {word}", style=FAINT)


def fan(model: LanesModel, painter: Painter, width: int) -> Text:
    """k and why, then a line a branch: q of its first token, the tokens behind, ▶ the one that survived."""
    fan_view = model.fan
    if fan_view is None:
        return Text("\n").join(sentence(model.fan_missing, width, FAINT))
    lines = [Text(fan_view.k_text, style=STRONG)]
    if fan_view.mass is not None:
        line = Text(f"{BRANCH_MASS} ", style=FAINT).append(percent(fan_view.mass), style=STRONG).append(" ")
        lines.append(line.append(bar(fan_view.mass, max(4, min(16, width - 22))), style=painter.tint("bonus")))
    for branch in fan_view.branches:
        line = Text(no_wrap=True).append("▶" if branch.survivor else " ", style=painter.tint("accepted"))
        line.append(f"b{branch.branch} {glyph(branch.mark)} ", style=painter.tint(branch.mark))
        line.append(pad(clip(branch.shown, TOKEN), TOKEN), style=STRONG if branch.survivor else PLAIN)
        line.append(f" q {prob(branch.q):<4} ", style=FAINT).append(bar(branch.q, 5), style=painter.tint("drafted"))
        for token in branch.tokens:
            line.append(f" {token.shown}", style=painter.tint(token.mark))
        _where_it_fits(line, width, *dict.fromkeys((branch.fate, *(token.fate for token in branch.tokens))))
        line.truncate(width, overflow="ellipsis")
        lines.append(line)
    lines += sentence(fan_view.words, width)
    lines += sentence(fan_view.memory, width, FAINT) if fan_view.memory else []
    return Text("\n").join(lines)


def block(model: LanesModel, painter: Painter, width: int) -> Text:
    """The sentence on the block under the cursor, then its numbers."""
    block_view = model.block
    if block_view is None:
        return Text("nothing has happened yet", style=FAINT)
    title = Text(block_view.title, style=painter.tint(block_view.mark) + STRONG)
    return Text("\n").join([title, *sentence(block_view.words, width), Text(""), *facts(block_view.rows, width)])


def _hrad(view: ClassifierView | None, painter: Painter, width: int) -> Text:
    """Probabilities of the three answers, and how often the classifier was right."""
    if view is None:
        return Text("\n").join(sentence(NO_HRAD, width, FAINT))
    lines = []
    for call in view.calls:
        lines.append(Text(f"{call.stage}: s = {call.s}, {call.words} ({call.source})", style=STRONG))
        for s, chance in enumerate(call.probs or ()):
            line = Text(f"  s {s} {prob(chance):>4} ", style=STRONG if s == call.s else FAINT, no_wrap=True)
            lines.append(line.append(bar(chance, max(4, min(20, width - 12))), style=painter.tint("exit")))
    if view.confusion is not None:
        lines.append(Text("said ↓ true →     0     1     2   precision", style=FAINT))
        for predicted, row in enumerate(view.confusion):
            total = sum(row)
            cells = "".join(f"{count:>6}" for count in row)
            lines.append(
                Text(
                    f"  s {predicted}        {cells}   {percent(row[predicted] / total) if total else '—'}",
                    no_wrap=True,
                )
            )
    return Text("\n").join([*lines, *sentence(view.words, width, FAINT)])


def over_run(model: LanesModel, painter: Painter, width: int) -> Text:
    """The run on this clock, then the classifier."""
    return Text("\n").join([*facts(model.summary, width), Text(""), _hrad(model.hrad, painter, width)])


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
