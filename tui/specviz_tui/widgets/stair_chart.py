"""The ratio staircase in cells: r as steps, the cap line on its peaks, c hanging below 1. The scale is logarithmic."""

from rich.style import Style
from rich.text import Text

from specviz.view.frame.frame import Frame
from specviz.view.panels.verification.build import VerificationPanel
from specviz.view.panels.verification.model import Stairs
from specviz.view.words.numbers import joint
from specviz_tui.common.paint import FAINT, PLAIN, STRONG, Painter
from specviz_tui.panels import FrameWidget

LABEL = 8  # cells of the ratios on the left
CAP, STEP, RISER, DOT, WEIGHT, ZERO, DOWN = "▔", "━", "│", "●", "○", "┄", "↓"
WIDEST = 10


class _Scale:
    """Rows of the chart for logs, the largest on top. What is minus infinity lies on the last row."""

    def __init__(self, stairs: Stairs, height: int) -> None:
        values = (*stairs.log_r, *stairs.log_c, *stairs.cap)
        finite = [y for y in values if y is not None]
        self.top, self.low, self.height = max(*finite, 0.0), min(*finite, 0.0), height
        if None in values or self.low == self.top:
            self.low -= max(0.5, (self.top - self.low) / 4)

    def row(self, value: float | None) -> int:
        """The row of a log."""
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

    def step(self, stairs: Stairs, k: int, step: int) -> None:
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
        for number, row in enumerate(self.rows):
            line = Text(no_wrap=True).append(f"{self.scale.label(number):>{LABEL - 1}} ", style=FAINT)
            for char, style in row:
                line.append(char, style=style)
            out.append(line)
        return out


def chart(stairs: Stairs, painter: Painter, width: int, height: int) -> Text:
    """`height` lines and one of positions. What fell to probability 0 leaves at the bottom, with an arrow."""
    step = max(3, min(WIDEST, (width - LABEL - 2) // len(stairs.xs)))
    canvas = _Canvas(step * len(stairs.xs), _Scale(stairs, height), painter)
    for k in range(len(stairs.xs)):
        canvas.step(stairs, k, step)
    numbers = Text(" " * LABEL + "".join(f"{x:^{step}}" for x in stairs.xs), style=FAINT, no_wrap=True)
    return Text("\n").join([*canvas.lines(), numbers])


class StairChart(FrameWidget):
    """The chart with its legend in the title."""

    EXPLAIN = "scan"

    def part(self, frame: Frame) -> object:
        """The staircase."""
        v = VerificationPanel.of(frame)
        return v.stairs if v else None

    def on_mount(self) -> None:
        """What the signs mean."""
        self.border_title = Text(f"Ratio staircase · {DOT} r  {CAP} its maximum  {WEIGHT} c")

    def render(self) -> Text:
        """As high as the box."""
        v = VerificationPanel.of(self.frame)
        found = v.stairs if v else None
        if found is None:
            return Text(" the target has not judged the draft yet", style=FAINT)
        return chart(found, self.painter, self.size.width, max(self.size.height - 1, 3))
