"""The backward scan as a table: one column a position, the verdicts coming in from the right, one a step."""

from dataclasses import dataclass

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual import events

from specviz.text import clip, pad
from specviz.view.frame.frame import Frame
from specviz.view.panels.verification.model import Scan, ScanColumn, ScanRow
from specviz_tui.common.messages import NodePicked
from specviz_tui.common.paint import CURSOR, FAINT, PLAIN, STRONG, Painter, wrapped
from specviz_tui.panels import FrameWidget

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
        found = next((k for k, column in enumerate(scan.columns) if getattr(column, wanted)), None)
        if found is not None:
            return found
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
        said = READ if row.key == "t" else row.help
        line.append("│ ", style=FAINT).append(clip(said, plans.help), style=FAINT)
    return line


def _numbered(text: str, k: int, scan: Scan, plans: _Plan) -> str:
    """The number of a position; arrows where positions lie outside the window."""
    before = "‹ " if k == plans.first > 0 else ""
    return f"{before}{text}{' ›' if k == plans.last - 1 < len(scan.columns) - 1 else ''}"


def _style(row: ScanRow, column: ScanColumn, painter: Painter) -> Style:
    if row.key == "draft":
        return painter.mark(column.mark) + (CURSOR if column.cursor else PLAIN)
    if row.key == "verdict":
        judged = painter.tint("testing" if not column.decided else "accepted" if _kept(column) else "rejected")
        return judged + STRONG + (CURSOR if column.fresh else PLAIN)
    if row.key == "t":
        return FAINT + (STRONG if column.fresh or column.stop else PLAIN)
    if row.key in ("h", "u") and (column.fresh or column.cursor):
        return STRONG
    return PLAIN


def _kept(column: ScanColumn) -> bool:
    return column.stop or column.implied


class ScanTable(FrameWidget):
    """The table, and below it the sentence on the position under the cursor. A click on a column chooses it."""

    EXPLAIN = "scan"

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._spots: list[tuple[int, int, int]] = []

    def part(self, frame: Frame) -> object:
        """The scan."""
        return frame.verification.scan if frame.verification else None

    def show(self, frame: Frame | None) -> None:
        """The number of rows changes from phase to phase."""
        scan = frame.verification.scan if frame is not None and frame.verification is not None else None
        self.border_title = Text(scan.title if scan is not None else "Scan")
        self.refresh(layout=True)

    def render(self) -> Text:
        """Rows, then the sentence."""
        scan = self.frame.verification.scan if self.frame is not None and self.frame.verification is not None else None
        if scan is None:
            return Text("")
        text, self._spots = table(scan, self.painter, self.size.width or 80)
        return text.append("\n").append_text(_said(scan.words, self.size.width or 80))

    def on_click(self, event: events.Click) -> None:
        """The position under the pointer."""
        offset = event.get_content_offset(self)
        for x0, x1, node in self._spots:
            if offset is not None and x0 <= offset.x < x1:
                self.post_message(NodePicked(node))


def _said(words: str, width: int) -> Text:
    """The sentence, on two lines at least, so that nothing moves when it is short."""
    lines = wrapped(words, width - 2)[:5]
    lines += [""] * (2 - len(lines))
    return Text("\n".join(f" {line}" for line in lines), style=STRONG)
