"""The backward scan as a table, one column a position; beside it the staircase, other rules, the row at the stop."""

from dataclasses import dataclass, replace

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from specviz.text import clip, pad
from specviz.view.blocks import twin
from specviz.view.panels.verification import pictures
from specviz.view.panels.verification.model import RatioStairs, Scan, ScanColumn, ScanRow, VerificationModel
from specviz.view.words.numbers import joint
from specviz_tui.common.blocks import paint, painted
from specviz_tui.common.paint import CURSOR, FAINT, PLAIN, STRONG, Painter, indented, wrapped

TOKEN, LEAST, GAP = 12, 5, 1  # widest token, narrowest column, cells between columns
HELP = 30  # cells below which there is no column that explains the rows
READ = "how to read it"


@dataclass(frozen=True, slots=True)
class _Plan:
    """Cells of the label, of the columns in the window `[first, last)`, and of the explanations."""

    label: int
    columns: tuple[int, ...]
    first: int
    last: int
    help: int


def plan(scan: Scan, width: int) -> _Plan:
    """As many columns as fit; when not all do, the window holds the one that matters now."""
    label = max(len(row.label) for row in scan.rows) + 1
    cells = [max(LEAST, *(min(cell_len(row.cells[k]), TOKEN) for row in scan.rows)) for k in range(len(scan.columns))]
    room = width - label - 2
    first, last = _window([c + GAP for c in cells], _focus(scan), room)
    used = sum(c + GAP for c in cells[first:last])
    widest = max((cell_len(row.help) for row in scan.rows), default=0)
    left = room - used - 3
    whole = last - first == len(cells)
    spread = min(max(0, left - widest) // max(1, len(cells)), 4) if whole else 0
    cells = [c + spread for c in cells]
    left -= spread * (last - first)
    return _Plan(label, tuple(cells), first, last, left if left >= HELP and whole else 0)


def _focus(scan: Scan) -> int:
    """The column that matters: under the cursor, just judged, where the scan stopped; else the last."""
    for wanted in ("cursor", "fresh", "stop"):
        first = next((k for k, column in enumerate(scan.columns) if getattr(column, wanted)), None)
        if first is not None:
            return first
    return len(scan.columns) - 1


def _window(cells: list[int], focus: int, room: int) -> tuple[int, int]:
    first = last = focus
    while True:
        right = last < len(cells) and sum(cells[first : last + 1]) <= room
        last += right
        left = first > 0 and sum(cells[first - 1 : last]) <= room
        first -= left
        if not right and not left:
            return first, max(last, focus + 1)


def table(scan: Scan, painter: Painter, width: int) -> tuple[Text, list[tuple[int, int, int]]]:
    """The lines, and the `(x0, x1, node)` spots of the columns."""
    plans = plan(scan, width)
    lines = [_line(row, scan, plans, painter) for row in scan.rows]
    if scan.note:
        lines.append(Text(f" {scan.note}", style=FAINT))
    x, spots = plans.label + 1, []
    for k in range(plans.first, plans.last):
        spots.append((x, x + plans.columns[k] + GAP, scan.columns[k].node))
        x += plans.columns[k] + GAP
    return Text("\n").join(lines), spots


def _line(row: ScanRow, scan: Scan, plans: _Plan, painter: Painter) -> Text:
    line = Text(no_wrap=True).append(f" {row.label:<{plans.label}}", style=FAINT)
    for k in range(plans.first, plans.last):
        text = clip(row.cells[k], plans.columns[k])
        if row.key == "t":
            text = _numbered(text, k, scan, plans)
        style = _style(row, scan.columns[k], painter)
        line.append(pad(text, plans.columns[k]), style=style).append(" " * GAP, style=PLAIN)
    if plans.help:
        words = READ if row.key == "t" else row.help
        line.append("│ ", style=FAINT).append(clip(words, plans.help), style=FAINT)
    return line


def _numbered(text: str, k: int, scan: Scan, plans: _Plan) -> str:
    """The number of a position; arrows where positions lie outside the window."""
    before = "‹ " if k == plans.first > 0 else ""
    return f"{before}{text}{' ›' if k == plans.last - 1 < len(scan.columns) - 1 else ''}"


def _style(row: ScanRow, column: ScanColumn, painter: Painter) -> Style:
    if row.key == "draft":
        return painter.mark(column.mark) + (CURSOR if column.cursor else PLAIN)
    if row.key == "verdict":
        judged = painter.tint(
            "testing"
            if not column.decided
            else "bonus"  # kept, though its own test would have failed
            if column.alone_failed
            else "accepted"
            if column.stop or column.implied
            else "rejected"
        )
        return judged + STRONG + (CURSOR if column.fresh else PLAIN)
    if row.key == "t":
        return FAINT + (STRONG if column.fresh or column.stop else PLAIN)
    if row.key in ("h", "u") and (column.fresh or column.cursor):
        return STRONG
    return PLAIN


def said(words: str, width: int) -> Text:
    """The sentence, on two lines at least, so that nothing moves when it is short."""
    lines = wrapped(words, width - 2)[:5]
    lines += [""] * (2 - len(lines))
    return Text("\n".join(f" {line}" for line in lines), style=STRONG)


ENTRIES = 5  # tokens of a row; the dashboard shows more


def rules(model: VerificationModel, painter: Painter, width: int) -> Text:
    """Other rules on the same draft, a line each, then what it comes to."""
    comparison = model.comparison
    if comparison is None or comparison.missing:
        return _faint((comparison.missing if comparison else "") or "told when the verdict is on screen", width)
    return painted([pictures.rules_table(comparison)], painter, width)


def closing(model: VerificationModel, painter: Painter, width: int) -> Text:
    """The likeliest tokens of the row and the drawn one: what p and q give them, and what is left."""
    row = model.closing
    if row is None or row.missing:
        return _faint((row.missing if row else "") or "told when the last token is drawn", width)
    shown = tuple(e for k, e in enumerate(row.entries) if k < ENTRIES or e.drawn)
    table = pictures.closing_table(replace(row, entries=shown))
    return Text("\n").join([*indented(row.title, width), *paint(table, painter, width)])


def branches(model: VerificationModel, painter: Painter, width: int) -> Text:
    """One bar a branch: what both laws give, then what the target misses and what the draft has too much of."""
    return painted([pictures.branches_plot(model)], painter, width)


def over_run(model: VerificationModel, painter: Painter, width: int) -> Text:
    """The paired difference to token-wise, then survival: observed beside what is expected of these drafts."""
    table = [twin(model.survival)] if model.survival is not None and model.survival.xs else []
    return painted([*pictures.paired_words(model.paired), *table], painter, width)


def _faint(words: str, width: int) -> Text:
    return Text("\n").join(indented(words, width, FAINT))


LABEL = 8  # cells of the ratios on the left
CAP, STEP, RISER, DOT, WEIGHT, ZERO, DOWN = "▔", "━", "│", "●", "○", "┄", "↓"
WIDEST = 10


class _Scale:
    """Rows of the chart for logs, the largest on top. What is minus infinity lies on the last row."""

    def __init__(self, stairs: RatioStairs, height: int) -> None:
        values = (*stairs.log_r, *stairs.log_c, *stairs.cap)
        finite = [y for y in values if y is not None]
        self.top, self.low, self.height = max(*finite, 0.0), min(*finite, 0.0), height
        if None in values or self.low == self.top:
            self.low -= max(0.5, (self.top - self.low) / 4)

    def row(self, value: float | None) -> int:
        if value is None:
            return self.height - 1
        share = (self.top - value) / (self.top - self.low)
        return min(self.height - 1, max(0, round(share * (self.height - 1))))

    def label(self, row: int) -> str:
        """The ratio of the top, of 1 and of the bottom."""
        if row == self.row(0.0):
            return "1"
        return joint(self.top) if row == 0 else joint(self.low) if row == self.height - 1 else ""


class _Canvas:
    """Cells of the chart: the line of ratio 1 first, then the cap, then what hangs and what climbs."""

    def __init__(self, width: int, scale: _Scale, painter: Painter) -> None:
        self.scale = scale
        self.rows: list[list[tuple[str, Style]]] = [[(" ", PLAIN)] * width for _ in range(scale.height)]
        self.rows[scale.row(0.0)] = [(ZERO, FAINT)] * width
        self.cap, self.ratio = painter.tint("rejected"), painter.tint("accepted") + STRONG
        self.weight = painter.tint("recovered") + STRONG

    def step(self, stairs: RatioStairs, k: int, step: int) -> None:
        """Position k: its piece of the cap line, its c, its r with the riser from the one before."""
        left, place, r = k * step, k * step + step // 2, stairs.log_r[k]
        self._flat(stairs.cap[k], left, step, CAP, self.cap)
        if k and stairs.log_r[k - 1] is not None:
            self._riser(stairs.log_r[k - 1], r, left)
        if r is not None:
            self._flat(r, left, step, STEP, self.ratio)
        self._dot(stairs.log_c[k], place, WEIGHT, self.weight)
        if r is None or self.scale.row(r) != self.scale.row(stairs.log_c[k]):
            self._dot(r, place, DOT, self.ratio)

    def _flat(self, value: float, left: int, cells: int, char: str, style: Style) -> None:
        self.rows[self.scale.row(value)][left : left + cells] = [(char, style)] * cells

    def _dot(self, value: float | None, x: int, char: str, style: Style) -> None:
        self.rows[self.scale.row(value)][x] = (DOWN if value is None else char, style)

    def _riser(self, before: float | None, after: float | None, x: int) -> None:
        ends = sorted((self.scale.row(before), self.scale.row(after)))
        for row in range(ends[0], ends[1] + (after is None)):
            self.rows[row][x] = (RISER, self.ratio)

    def lines(self) -> list[Text]:
        """With the ratios on the left."""
        out = []
        for at, row in enumerate(self.rows):
            line = Text(no_wrap=True).append(f"{self.scale.label(at):>{LABEL - 1}} ", style=FAINT)
            for char, style in row:
                line.append(char, style=style)
            out.append(line)
        return out


def chart(stairs: RatioStairs, painter: Painter, width: int, height: int) -> Text:
    """`height` lines and one of positions. What fell to probability 0 leaves at the bottom, with an arrow."""
    step = max(3, min(WIDEST, (width - LABEL - 2) // len(stairs.xs)))
    canvas = _Canvas(step * len(stairs.xs), _Scale(stairs, height), painter)
    for k in range(len(stairs.xs)):
        canvas.step(stairs, k, step)
    numbers = Text(" " * LABEL + "".join(f"{x:^{step}}" for x in stairs.xs), style=FAINT, no_wrap=True)
    return Text("\n").join([*canvas.lines(), numbers])
