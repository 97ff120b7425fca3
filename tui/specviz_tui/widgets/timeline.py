"""Two lines: tokens per round as a sparkline, and the transport line with a playhead that can be clicked and
dragged."""

from dataclasses import dataclass

from rich.text import Text
from textual import events
from textual.reactive import reactive

from specviz.view.frame.frame import Frame
from specviz.view.frame.parts import Timeline
from specviz_tui.common.frame_widget import FrameWidget, Pressed, SeekAsked
from specviz_tui.common.paint import BARRED, CURSOR, FAINT, STRONG, spread

LABEL = " tok/round "
GRAVITY = "─◆⚑⚠"
LEGEND = "   ◆ knob  ⚑ bookmark  ⚠ warning"
BUTTONS = (("«", "first"), ("◂", "round(-1)"), ("▐▐", "play"), ("▸", "round(1)"), ("»", "last"))


class Sparkline(FrameWidget):
    """One bar per round, the window around the round that is shown. A click goes there."""

    EXPLAIN = "timeline"

    def part(self, frame: Frame) -> object:
        return frame.timeline

    def render(self) -> Text:
        """The bars, markers below them would need a line of their own: they stand on the transport line."""
        if self.frame is None:
            return Text(LABEL, style=FAINT)
        line, start = Text(LABEL, style=FAINT), self._start()
        bars = self.frame.timeline.bars[start : start + self._room]
        line.append(bars, style=self.painter.tint("accepted") + BARRED)
        at = self.frame.timeline.index - start
        if 0 <= at < len(bars):
            line.stylize(CURSOR, len(LABEL) + at, len(LABEL) + at + 1)
        return spread(line, Text(LEGEND, style=FAINT), self.size.width)

    @property
    def _room(self) -> int:
        return max(self.size.width - len(LABEL) - len(LEGEND) - 1, 8)

    def _start(self) -> int:
        """First round of the window: the playhead stays inside, in the middle when there is more on both sides."""
        assert self.frame is not None
        last = len(self.frame.timeline.bars) - self._room
        return max(0, min(self.frame.timeline.index - self._room // 2, last))

    def on_click(self, event: events.Click) -> None:
        """Go to the round under the pointer."""
        if self.frame is not None:
            index = self._start() + event.x - len(LABEL)
            if 0 <= index < len(self.frame.timeline.points):
                self.post_message(SeekAsked(index))


@dataclass(frozen=True, slots=True)
class _Track:
    """The scale between rounds and cells of the playhead's line."""

    x: int
    cells: int
    n: int

    def column(self, index: int) -> int:
        return self.x + (0 if self.n < 2 else round(index / (self.n - 1) * (self.cells - 1)))

    def index(self, x: int) -> int:
        share = (x - self.x) / max(self.cells - 1, 1)
        return round(min(max(share, 0.0), 1.0) * max(self.n - 1, 0))


class Transport(FrameWidget):
    """Buttons, place, scrubber with markers, speed."""

    EXPLAIN = "timeline"
    playing: reactive[bool] = reactive(False)

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._track = _Track(0, 1, 0)
        self._spots: list[tuple[int, int, str]] = []
        self._marks: tuple[object, int, str] = ((), 0, "")
        self._dragging = False

    def part(self, frame: Frame) -> object:
        return frame.timeline, frame.speed, frame.state, frame.following

    def render(self) -> Text:
        """`« ◂ ▐▐ ▸ »  r37/37 ├──⚑────◆──●┤ LIVE  1×`."""
        frame = self.frame
        if frame is None:
            return Text("")
        line = self._buttons() if self.size.width >= 100 else Text(" ")
        speed = "speed as recorded" if frame.speed == 0 else f"speed {frame.speed:g}×"
        right = Text(f" following  {speed} " if frame.following else f" {speed} ", style=FAINT)
        place = Text(f" {frame.timeline.label} ", style=STRONG)
        line.append_text(place)
        cells = max(self.size.width - line.cell_len - right.cell_len - 2, 4)
        self._track = _Track(line.cell_len + 1, cells, len(frame.timeline.points))
        line.append("├", style=FAINT).append_text(self._scale(frame)).append("┤", style=FAINT)
        return line.append_text(right)

    def _buttons(self) -> Text:
        line, self._spots = Text(" "), []
        for caption, action in BUTTONS:
            shown = ("▐▐" if self.playing else "▸▸") if action == "play" else caption
            x0 = line.cell_len
            line.append(shown)
            self._spots.append((x0, line.cell_len, action))
            line.append(" ")
        return line

    def _scale(self, frame: Frame) -> Text:
        scale = Text(self._marked(frame.timeline), style=FAINT)
        for at, char in enumerate(scale.plain):
            if char != "─":
                scale.stylize(self.painter.tint("drafted"), at, at + 1)
        if frame.timeline.points:
            at = self._track.column(frame.timeline.index) - self._track.x
            scale = scale[:at] + Text("●", style=self.painter.tint("accepted") + STRONG) + scale[at + 1 :]
        return scale

    def _marked(self, timeline: Timeline) -> str:
        """The scale with its markers; kept until a round comes or the width changes."""
        points = timeline.points
        if self._marks[0] is not points or self._marks[1] != self._track.cells:
            chars = ["─"] * self._track.cells
            for point in timeline.marked:
                at = self._track.column(point.index) - self._track.x
                if GRAVITY.index(point.markers[0]) > GRAVITY.index(chars[at]):
                    chars[at] = point.markers[0]  # a cell may stand for many rounds
            self._marks = (points, self._track.cells, "".join(chars))
        return self._marks[2]

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Press a button, or take the playhead."""
        for x0, x1, action in self._spots:
            if x0 <= event.x < x1:
                self.post_message(Pressed(action))
                return
        if event.x >= self._track.x:
            self._dragging = True
            self.capture_mouse()
            self._seek(event.x)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._dragging:
            self._seek(event.x)

    def on_mouse_up(self) -> None:
        self._dragging = False
        self.release_mouse()

    def _seek(self, x: int) -> None:
        if self._track.n:
            self.post_message(SeekAsked(self._track.index(x)))
