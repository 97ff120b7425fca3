"""Screen 3: the lanes of target, draft and branches over time, and below them what the chosen block was for."""

from collections.abc import Callable
from typing import Literal

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.reactive import reactive
from textual.widgets import Static

from specviz.view.frame.frame import Frame
from specviz.view.panels.lanes.model import Lanes
from specviz_tui.common.keymap import LANE_KEYS, bindings
from specviz_tui.common.messages import BlockMoved, BlockPicked, ClockAsked
from specviz_tui.common.paint import FAINT, Painter, wrapped
from specviz_tui.panels import FrameWidget, lanes_views
from specviz_tui.panels.lane_chart import LABEL, Window, drawn, legend
from specviz_tui.panels.lane_costs import costs

Part = Literal["round", "costs", "block", "steps", "fan"]
WIDE_PARTS: tuple[Part, ...] = ("round", "costs")
NARROW_PARTS: tuple[Part, ...] = ("block", "steps", "fan", "costs")
NARROW, MOST_ROUNDS = 100, 8


class LanesPane(VerticalScroll, can_focus=True, inherit_bindings=False):
    """Everything of the screen below the text strip. Without spans it says why."""

    BINDINGS = bindings(LANE_KEYS)
    EXPLAIN = "lanes"
    frame: reactive[Frame | None] = reactive(None, repaint=False, init=False)
    part: reactive[Part] = reactive("round", init=False)

    def compose(self) -> ComposeResult:
        """The chart on top, the parts of the round side by side below."""
        yield Static("", id="no-lanes", markup=False)
        yield LaneChart(id="lane-chart").data_bind(LanesPane.frame)
        with Horizontal(id="lane-parts"):
            yield PartBox(_block, "Block", id="lane-block").data_bind(LanesPane.frame)
            yield PartBox(_steps, "Confidence against the bound", id="lane-steps").data_bind(LanesPane.frame)
            yield PartBox(_fan, "Branches", id="lane-fan").data_bind(LanesPane.frame)
        with Horizontal(id="lane-costs"):
            yield PartBox(_costs, "What a token costs", id="lane-cost").data_bind(LanesPane.frame)
            yield PartBox(_run, "The run, and H-RAD", id="lane-run").data_bind(LanesPane.frame)

    def watch_frame(self, frame: Frame | None) -> None:
        """The reason in place of the lanes, when there are none."""
        found = frame.lanes if frame is not None else None
        if found is not None:
            self.set_class(found.missing is not None, "-missing")
            self.query_one("#no-lanes", Static).update(found.missing or "")

    def on_mount(self) -> None:
        """Show the first part."""
        self._show()

    def on_resize(self) -> None:
        """Another choice of parts."""
        self._show()

    def watch_part(self, _: Part) -> None:
        """Another part."""
        self._show()

    def _show(self) -> None:
        narrow = self.app.size.width < NARROW
        parts = NARROW_PARTS if narrow else WIDE_PARTS
        part = self.part if self.part in parts else parts[0]
        for name in {*NARROW_PARTS, *WIDE_PARTS}:
            self.set_class(name == part, f"-{name}")

    def action_move(self, direction: str) -> None:
        """To the block beside, or the lane above or below."""
        self.post_message(BlockMoved(direction))

    def action_clock(self) -> None:
        """The other clock."""
        self.post_message(ClockAsked())

    def action_zoom(self, by: int) -> None:
        """Fewer rounds, each wider; or more."""
        chart = self.query_one(LaneChart)
        chart.rounds = max(1, min(MOST_ROUNDS, chart.rounds + by))

    def action_view(self, by: int) -> None:
        """The next part below the chart."""
        parts = NARROW_PARTS if self.app.size.width < NARROW else WIDE_PARTS
        at = parts.index(self.part) if self.part in parts else 0
        self.part = parts[(at + by) % len(parts)]

    def action_node(self) -> None:
        """To the tree."""
        self.screen.block_to_tree()  # type: ignore[attr-defined]

    def action_scroll(self, lines: int) -> None:
        """By some lines."""
        self.scroll_relative(y=lines, animate=False)


class LaneChart(FrameWidget):
    """The lanes; a click chooses the block under the pointer."""

    EXPLAIN = "lanes"
    rounds: reactive[int] = reactive(3, layout=True)

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._seen: Window | None = None
        self._lanes: list[str] = []

    def part(self, frame: Frame) -> object:
        """The chart."""
        return frame.lanes.chart if frame.lanes is not None else None

    def show(self, frame: Frame | None) -> None:
        """Lanes come and go with the branches."""
        self.refresh(layout=True)

    def render(self) -> Text:
        """Lanes, rounds, the arrow, then which clock it is."""
        chart = self.frame.lanes.chart if self.frame is not None and self.frame.lanes is not None else None
        if chart is None:
            return Text("")
        width = self.size.width or 80
        self.border_subtitle = Text("c other clock · z Z zoom")
        if chart.missing:
            self.border_title, self._seen = Text("Lanes"), None
            return Text("\n").join([*lanes_views.sentence(chart.missing, width), Text(chart.clock_text, style=FAINT)])
        text, self._seen, self._lanes = drawn(chart, self.rounds, self.painter, width)
        self.border_title = legend(self._seen, self.painter)
        now = chart.rounds[-1].text if chart.rounds else ""
        seen = [arrow for arrow in chart.arrows if chart.blocks[arrow.source].t1 > self._seen.t0]
        words = f"r{seen[-1].round}: {seen[-1].words}" if seen else ""
        lines = [Text(f" {chart.clock_text}"[:width], style=FAINT), Text(f" this round: {now}"[:width], no_wrap=True)]
        lines += [Text(f" {line}", style=FAINT) for line in wrapped(words, width - 2)]
        return Text("\n").join([text, *lines])

    def on_click(self, event: events.Click) -> None:
        """The block under the pointer."""
        offset = event.get_content_offset(self)
        chart = self.frame.lanes.chart if self.frame is not None and self.frame.lanes is not None else None
        if offset is None or chart is None or self._seen is None or offset.y >= len(self._lanes):
            return
        x, lane = offset.x - LABEL, self._lanes[offset.y]
        for number, block in enumerate(chart.blocks):
            x0, x1 = self._seen.span(block)
            if block.lane == lane and x0 <= x < x1:
                self.post_message(BlockPicked(number))


class PartBox(FrameWidget):
    """One part of the round as text."""

    EXPLAIN = "lanes"

    def __init__(self, paint: Callable[[Frame, Painter, int], Text], title: str, id: str | None = None) -> None:
        super().__init__(id=id)
        self._paint, self._title = paint, title

    def on_mount(self) -> None:
        """Its name."""
        self.border_title = self._title

    def part(self, frame: Frame) -> object:
        """The lanes of this moment."""
        return frame.lanes

    def show(self, frame: Frame | None) -> None:
        """Heights differ."""
        self.refresh(layout=True)

    def render(self) -> Text:
        """The part, as wide as the box."""
        if self.frame is None or self.frame.lanes is None or self.frame.lanes.missing:
            return Text("")
        return self._paint(self.frame, self.painter, max(20, self.content_size.width or 36))


def _lanes(frame: Frame) -> Lanes:
    assert frame.lanes is not None
    return frame.lanes


def _block(frame: Frame, painter: Painter, width: int) -> Text:
    return lanes_views.block(_lanes(frame).block, painter, width)


def _steps(frame: Frame, painter: Painter, width: int) -> Text:
    return lanes_views.steps(_lanes(frame), painter, width)


def _fan(frame: Frame, painter: Painter, width: int) -> Text:
    found = _lanes(frame)
    return lanes_views.fan(found.fan, found.fan_missing, painter, width)


def _costs(frame: Frame, painter: Painter, width: int) -> Text:
    return costs(_lanes(frame), painter, width)


def _run(frame: Frame, painter: Painter, width: int) -> Text:
    found = _lanes(frame)
    return lanes_views.summary(found, width).append("\n\n").append_text(lanes_views.hrad(found.hrad, painter, width))
