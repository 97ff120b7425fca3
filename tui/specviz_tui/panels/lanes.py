"""Screen 3: the lanes of target, draft and branches over time, and below them what the chosen block was for.

Moves over the lanes of screen 3. Mixed into the main screen: a block's first token is the tree's selected node.

The cost panel: what a token costs by draft length in each pipeline, and where this run stands.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.reactive import reactive
from textual.widgets import Static

from specviz.view.frame.frame import Frame
from specviz.view.panels.lanes.build import LanesPanel
from specviz.view.panels.lanes.cost import CostCurve, CostPanel
from specviz.view.panels.lanes.model import CLOCKS, Block, Chart, Lanes
from specviz.view.words.numbers import BARS, number, prob
from specviz_tui.common.feed import RunFeed
from specviz_tui.common.keymap import LANE_KEYS, bindings
from specviz_tui.common.messages import BlockMoved, BlockPicked, ClockAsked
from specviz_tui.common.paint import FAINT, STRONG, Painter, wrapped
from specviz_tui.panels import FrameWidget, lanes_views
from specviz_tui.panels.lanes_views import LABEL, Window, drawn, legend

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
        found = LanesPanel.of(frame)
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
        return _chart(frame)

    def show(self, frame: Frame | None) -> None:
        """Lanes come and go with the branches."""
        self.refresh(layout=True)

    def render(self) -> Text:
        """Lanes, rounds, the arrow, then which clock it is."""
        chart = _chart(self.frame)
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
        chart = _chart(self.frame)
        if offset is None or chart is None or self._seen is None or offset.y >= len(self._lanes):
            return
        x, lane = offset.x - LABEL, self._lanes[offset.y]
        for place, block in enumerate(chart.blocks):
            x0, x1 = self._seen.span(block)
            if block.lane == lane and x0 <= x < x1:
                self.post_message(BlockPicked(place))


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
        return LanesPanel.of(frame)

    def show(self, frame: Frame | None) -> None:
        """Heights differ."""
        self.refresh(layout=True)

    def render(self) -> Text:
        """The part, as wide as the box."""
        found = LanesPanel.of(self.frame)
        if self.frame is None or found is None or found.missing:
            return Text("")
        return self._paint(self.frame, self.painter, max(20, self.content_size.width or 36))


def _lanes(frame: Frame) -> Lanes:
    found = LanesPanel.of(frame)
    assert found is not None
    return found


def _chart(frame: Frame | None) -> Chart | None:
    found = LanesPanel.of(frame)
    return found.chart if found is not None else None


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


if TYPE_CHECKING:
    from textual.screen import Screen

    from specviz.view import Frame

    Base = Screen[None]
else:
    Base = object


class LaneActions(Base):
    """Actions of a screen that has `feed`, `frame`, `select` and `choose`."""

    feed: RunFeed
    if TYPE_CHECKING:
        frame: "Frame | None"

        def select(self, node: int | None) -> None: ...
        def choose(self, name: str) -> None: ...
        def paint_soon(self) -> None: ...

    @property
    def _chart(self) -> Chart | None:
        return _chart(self.frame)

    def move_block(self, direction: str) -> None:
        """To the block before or after in its lane, or to the one at the same time in the next lane."""
        chart = self._chart
        if chart is None or chart.cursor is None:
            return
        here = chart.blocks[chart.cursor]
        found = _beside(chart, here, direction) if direction in ("left", "right") else _across(chart, here, direction)
        if found is not None:
            self.pick_block(chart.blocks.index(found))

    def pick_block(self, number: int) -> None:
        """Look at a block. One of this round selects its token in the tree as well."""
        chart, frame = self._chart, self.frame
        if chart is None or frame is None or not 0 <= number < len(chart.blocks):
            return
        block = chart.blocks[number]
        self.feed.options = LanesPanel.choose(self.feed.options, block=block.at)
        mine = block.at[0] == frame.cursor.index and block.nodes
        self.select(block.nodes[0] if mine else self.feed.options.selected)

    def switch_clock(self) -> None:
        """The measured or the modelled one; never both."""
        options = self.feed.options
        other = CLOCKS[(CLOCKS.index(LanesPanel.chosen(options).clock) + 1) % len(CLOCKS)]
        self.feed.options = LanesPanel.choose(options, clock=other, block=None)
        self.paint_soon()

    def block_to_tree(self) -> None:
        """The tree of the block's round, at its first token."""
        chart, frame = self._chart, self.frame
        if chart is None or frame is None or chart.cursor is None:
            return
        block = chart.blocks[chart.cursor]
        if block.at[0] != frame.cursor.index:
            self.feed.player.seek_index(block.at[0])
        self.feed.options = LanesPanel.choose(self.feed.options, block=None)
        self.choose("tree")
        self.select(block.nodes[0] if block.nodes else None)


def _beside(chart: Chart, here: Block, direction: str) -> Block | None:
    mine = sorted((block for block in chart.blocks if block.lane == here.lane), key=lambda block: block.t0)
    at = mine.index(here) + (1 if direction == "right" else -1)
    return mine[at] if 0 <= at < len(mine) else None


def _across(chart: Chart, here: Block, direction: str) -> Block | None:
    """The block of the next lane that is nearest in time."""
    keys = [lane.key for lane in chart.lanes]
    at = keys.index(here.lane) + (1 if direction == "down" else -1)
    if not 0 <= at < len(keys):
        return None
    middle = (here.t0 + here.t1) / 2
    lane = [block for block in chart.blocks if block.lane == keys[at]]
    return min(lane, key=lambda b: (max(b.t0 - middle, middle - b.t1, 0.0), abs((b.t0 + b.t1) / 2 - middle)))


_MARKS = {"theorem": "untested", "branch": "exit", "pearl": "recovered"}


def costs(found: Lanes, painter: Painter, width: int) -> Text:
    """A curve a line, lower is better; then the run's own point and what it comes to."""
    panel = found.cost
    if panel is None:
        return Text("no costs in this trace", style=FAINT)
    label = max(len(curve.label) for curve in panel.curves)
    cells = max(6, min(len(panel.xs), width - label - 24))
    xs = [panel.xs[round(k * (len(panel.xs) - 1) / (cells - 1))] for k in range(cells)]
    head = f"acceptance {prob(panel.alpha)}, c {number(panel.c)}, branch hit {prob(panel.hit)}"
    lines = [Text(head, style=STRONG)]
    lines.append(Text(f"{'draft forwards a token':<{label + 2}}γ {xs[0]:<{cells - 4}}{xs[-1]:>2}", style=FAINT))
    top = min(2.0 * panel.plain, max(max(v for v in curve.values if v < 1e9) for curve in panel.curves))
    low = min(min(curve.values) for curve in panel.curves)
    lines += [_curve(curve, panel, xs, (low, top), label, painter) for curve in panel.curves]
    lines.append(Text(f"{'plain decoding':<{label}}  {number(panel.plain)}", style=FAINT))
    for words in (panel.point_text, panel.words):
        lines += [Text(line) for line in wrapped(words, width)]
    return Text("\n").join(lines)


def _curve(
    curve: CostCurve, panel: CostPanel, xs: list[int], ends: tuple[float, float], label: int, painter: Painter
) -> Text:  # fmt: skip
    style = painter.tint(_MARKS.get(curve.key, "accepted"))  # type: ignore[arg-type]
    line = Text(f"{curve.label:<{label}}  ", no_wrap=True)
    for x in xs:
        value = curve.values[panel.xs.index(x)]
        line.append(_bar(value, *ends), style=style + STRONG if x == curve.best else style)
    best = curve.values[panel.xs.index(curve.best)]
    return line.append(f"  {number(best, 1):>5} at γ {curve.best:<2} {number(panel.plain / best, 1):>4}×", style=FAINT)


def _bar(value: float, low: float, top: float) -> str:
    """Low latencies are low bars; beyond the top is full."""
    share = (value - low) / (top - low) if top > low else 0.0
    return BARS[max(0, min(7, int(share * 7 + 0.5)))]
