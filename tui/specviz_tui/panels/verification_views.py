"""The backward scan as a table: one column a position, the verdicts coming in from the right, one a step.

Boxes beside the staircase: rules on the same draft, the row at the stop, branches, and the run as a whole.
"""

from dataclasses import dataclass

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual import events

from specviz.text import clip, pad
from specviz.view.frame.frame import Frame
from specviz.view.panels.verification.build import VerificationPanel
from specviz.view.panels.verification.model import (
    Branch,
    ClosingRow,
    Comparison,
    RuleReplay,
    Scan,
    ScanColumn,
    ScanRow,
    Survival,
    Verification,
    Weighed,
)
from specviz.view.words.numbers import fine, number, percent, prob
from specviz.view.words.palette import glyph
from specviz_tui.common.messages import NodePicked
from specviz_tui.common.paint import CURSOR, FAINT, PLAIN, STRONG, Painter, bar, fitted, wrapped
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
        v = VerificationPanel.of(frame)
        return v.scan if v else None

    def show(self, frame: Frame | None) -> None:
        """The number of rows changes from phase to phase."""
        v = VerificationPanel.of(frame)
        scan = v.scan if v else None
        self.border_title = Text(scan.title if scan is not None else "Scan")
        self.refresh(layout=True)

    def render(self) -> Text:
        """Rows, then the sentence."""
        v = VerificationPanel.of(self.frame)
        scan = v.scan if v else None
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


ENTRIES = 5  # tokens of a row; the dashboard shows more


def rules(found: Comparison, painter: Painter, width: int) -> Text:
    """`token-wise  ✗·····  0 of 6  3.28`, a line each, then what it comes to."""
    if found.missing:
        return Text("\n").join(_sentence(found.missing, width, FAINT))
    label = max(len(rule.label) for rule in found.rules) + 2
    lines = [line for rule in found.rules for line in _rule(rule, painter, width, label)]
    return Text("\n").join([*lines, *_sentence(found.words, width)])


def _rule(rule: RuleReplay, painter: Painter, width: int, label: int) -> list[Text]:
    """Marks, tokens kept, tokens expected; the note behind them or, without room, below."""
    mine = STRONG if rule.own else PLAIN
    line = Text(no_wrap=True).append(f" {'▶' if rule.own else ' '}{pad(rule.label, label)}", style=mine)
    for mark in rule.marks:
        line.append(glyph(mark), style=painter.tint(mark))
    line.append(f"  {'?' if rule.kept is None else rule.kept:>2} of {len(rule.marks)}", style=STRONG)
    line.append(f"  {number(rule.expected):>5}", style=FAINT)
    note = Text(f"  {rule.note}" if rule.note else "", style=FAINT)
    if line.cell_len + note.cell_len <= width:
        return [line.append_text(note)]
    return [line, *_sentence(f"  {rule.note}", width, FAINT)]


def _sentence(words: str, width: int, style: Style = PLAIN) -> list[Text]:
    return [Text(f" {line}", style=style) for line in wrapped(words, width - 2)]


def closing(found: ClosingRow, painter: Painter, width: int) -> Text:
    """The tokens of the row, what p and q give them, what is left, and which was drawn."""
    if found.missing:
        return Text("\n").join(_sentence(found.missing, width, FAINT))
    token = min(max((cell_len(e.shown) for e in found.entries), default=5), 12)
    against = any(e.weighed_q is not None for e in found.entries)
    cells = max(3, min(8, (width - token - 40) // 2)) if against else 12
    head = f" {'':<{token + 2}}{found.p_label:<{cells + 7}}"
    head += f"{found.q_label:<{cells + 7}}left   share" if against else "share"
    lines = [*_sentence(found.title, width), Text(head, style=FAINT)]
    drawn_later = (e for e in found.entries[ENTRIES:] if e.drawn)
    lines += [_weighed(e, painter, (token, cells, width), against) for e in (*found.entries[:ENTRIES], *drawn_later)]
    return Text("\n").join([*lines, *_sentence(found.words, width, FAINT)])


def _weighed(entry: Weighed, painter: Painter, cells: tuple[int, int, int], against: bool) -> Text:
    token, bars, width = cells
    mine = STRONG if entry.drawn else PLAIN
    line = Text(no_wrap=True).append(" → " if entry.drawn else "   ", style=painter.tint("recovered"))
    line.append(pad(clip(entry.shown, token), token), style=mine)
    line.append(f" {prob(entry.weighed_p):>4} ").append(bar(entry.weighed_p, bars), style=painter.tint("accepted"))
    if against:
        line.append(f"  {prob(entry.weighed_q):>4} ")
        line.append(bar(entry.weighed_q, bars), style=painter.tint("drafted"))
        line.append(f" {fine(entry.left):>5} ", style=mine)
    line.append(f"  {entry.text:>4}", style=mine)
    line.append(" drafted" if entry.drafted else "", style=FAINT)
    line.truncate(width, overflow="ellipsis")
    return line


def branches(found: tuple[Branch, ...], missing: str | None, painter: Painter, width: int) -> Text:
    """One bar a branch: what both laws give, then what the target misses and what the draft has too much of."""
    if not found:
        return Text(f" {missing or 'the target has not judged the draft yet'}", style=FAINT)
    token = min(max(cell_len(b.shown) for b in found), 16)
    cells = max(6, width - token - 24)
    lines = []
    for branch in found:
        line = Text(no_wrap=True)
        line.append(f" {branch.t:>2} {pad(clip(branch.shown, token), token)} ", style=STRONG if branch.stop else PLAIN)
        total = max(1.0, branch.agreed + max(branch.d_plus, branch.d_minus))
        for share, mark in ((branch.agreed, "untested"), (branch.d_plus, "accepted"), (branch.d_minus, "rejected")):
            char = {"untested": "░", "accepted": "█", "rejected": "▒"}[mark]
            tint = painter.tint("accepted" if mark == "accepted" else "rejected" if mark == "rejected" else "untested")
            line.append(char * round(share / total * cells / 2), style=tint)
        line.append(f" {fine(branch.d_plus)}│{fine(branch.d_minus)}", style=FAINT)
        line.truncate(width, overflow="ellipsis")
        lines.append(line)
    return Text("\n").join(lines)


def over_run(found: Verification, painter: Painter, width: int) -> Text:
    """The paired difference to token-wise, then survival: observed beside exactly expected, position by position."""
    lines = [line for p in found.paired for line in _sentence(p.words or p.missing or "", width)]
    if found.survival is not None:
        lines += _survival(found.survival, painter)
    return Text("\n").join(lines) if lines else Text(" nothing to compare yet", style=FAINT)


def _survival(found: Survival, painter: Painter) -> list[Text]:
    if not found.observed.xs:
        return [Text(f" {found.missing}", style=FAINT)] if found.missing else []
    titles = "".join(f"{('▶' if c.own else '') + c.label:>17}" for c in found.curves)
    lines = [Text(""), Text(f" {'kept ≥':>7}  {'observed':<18}{titles}", style=FAINT)]
    seen = found.observed
    for t, value, low, high in zip(seen.xs, seen.values, seen.lows, seen.highs, strict=True):
        line = Text(f" {t:>7}  ").append(f"{percent(value):>6}", style=STRONG)
        line.append(f" {prob(low)}..{prob(high):<6}" if low is not None else " " * 12, style=FAINT)
        for curve in found.curves:
            style = painter.tint("accepted") + STRONG if curve.own else PLAIN
            line.append(f"{percent(dict(zip(curve.xs, curve.values, strict=True)).get(t)):>17}", style=style)
        lines.append(line)
    return lines if found.curves else [*lines, Text(f" {found.words}", style=FAINT)]


class RuleBox(FrameWidget):
    """Other rules on the same draft; the difference over the run below the box."""

    EXPLAIN = "rules"

    def part(self, frame: Frame) -> object:
        """Comparison and paired differences."""
        v = VerificationPanel.of(frame)
        return (v.comparison, v.paired) if v else None

    def show(self, frame: Frame | None) -> None:
        """Its height follows its lines."""
        self.border_title = "Same draft, same u · kept, expected · ▶ this run"
        v = VerificationPanel.of(frame)
        gains = [
            (k, Text(f"{p.gain.label} {p.gain.text}")) for k, p in enumerate(v.paired if v else ()) if not p.missing
        ]
        self.border_subtitle = fitted(gains, max(self.size.width - 6, 20), " · ") if gains else ""
        self.refresh(layout=True)

    def render(self) -> Text:
        """A line a rule."""
        v = VerificationPanel.of(self.frame)
        if v is None or v.comparison is None:
            return Text(" told when the verdict is on screen", style=FAINT)
        return rules(v.comparison, self.painter, self.size.width)


class ClosingBox(FrameWidget):
    """The row at the stop against p and q."""

    EXPLAIN = "residual"

    def part(self, frame: Frame) -> object:
        """The row."""
        v = VerificationPanel.of(frame)
        return v.closing if v else None

    def show(self, frame: Frame | None) -> None:
        """Its height follows its lines."""
        self.border_title = "The row at the stop"
        self.refresh(layout=True)

    def render(self) -> Text:
        """A line a token."""
        v = VerificationPanel.of(self.frame)
        if v is None or v.closing is None:
            return Text(" told when the last token is drawn", style=FAINT)
        return closing(v.closing, self.painter, self.size.width)


class BranchBox(FrameWidget):
    """The branches below every prefix."""

    EXPLAIN = "branches"

    def part(self, frame: Frame) -> object:
        """The branches."""
        v = VerificationPanel.of(frame)
        return (v.branches, v.branches_missing) if v else None

    def show(self, frame: Frame | None) -> None:
        """Its height follows its lines."""
        self.border_title = "Below each prefix · ░ both agree  █ D+ missing  ▒ D- in excess"
        self.refresh(layout=True)

    def render(self) -> Text:
        """A line a branch."""
        v = VerificationPanel.of(self.frame)
        return Text("") if v is None else branches(v.branches, v.branches_missing, self.painter, self.size.width)


class RunBox(FrameWidget):
    """Over the run."""

    EXPLAIN = "survival"

    def part(self, frame: Frame) -> object:
        """Survival and differences."""
        v = VerificationPanel.of(frame)
        return (v.survival, v.paired) if v else None

    def show(self, frame: Frame | None) -> None:
        """Its height follows its lines."""
        self.border_title = "Over the run · survival: observed against exactly expected"
        self.refresh(layout=True)

    def render(self) -> Text:
        """Sentences, then the table."""
        v = VerificationPanel.of(self.frame)
        return Text("") if v is None else over_run(v, self.painter, self.size.width)
