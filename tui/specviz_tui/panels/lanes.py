"""Screen 3: the lanes of target, draft and branches over time, and below them what the chosen block was for."""

from collections.abc import Callable, Iterable

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.reactive import reactive

from specviz.view.blocks import Block
from specviz.view.frame.frame import Frame
from specviz.view.panels.lanes.build import LanesPanel
from specviz.view.panels.lanes.model import CLOCKS, Chart, LaneBlock, LaneOptions, LanesModel
from specviz_tui.common.blocks import painted
from specviz_tui.common.frame_widget import KEEP, FrameWidget
from specviz_tui.common.keymap import Key, page_keys
from specviz_tui.common.paint import FAINT, Painter, indented, sentence
from specviz_tui.common.pane import PanelPane, PartedPane, opens
from specviz_tui.panels import lanes_views as views
from specviz_tui.panels.lanes_views import LABEL, TimeWindow

MOST_ROUNDS = 8
LANE_KEYS: tuple[Key, ...] = (
    Key("lanes.left", "left,h", "move('left')", "← h", "to the block before, in its lane", "Lanes"),
    Key("lanes.right", "right,l", "move('right')", "→ l", "to the block after", "Lanes"),
    Key("lanes.up", "up,k", "move('up')", "↑ k", "to the lane above, at the same time", "Lanes"),
    Key("lanes.down", "down,j", "move('down')", "↓ j", "to the lane below", "Lanes"),
    Key("lanes.clock", "c", "clock", "c", "the measured or the modelled clock", "Lanes"),
    Key("lanes.closer", "z", "zoom(-1)", "z", "fewer rounds, each wider", "Lanes"),
    Key("lanes.farther", "Z", "zoom(1)", "Z", "more rounds", "Lanes"),
    Key("lanes.view", "v", "view(1)", "v", "below the chart: the round, the run, or would it pay", "Lanes", "view"),
    Key("lanes.view_before", "V", "view(-1)", "V", "view before", "Lanes"),
    Key("lanes.node", "enter", "node", "enter", "to the block's token in the draft tree", "Lanes", "tree"),
    *page_keys("lanes", "Lanes"),
)
LANE_PAGES = {
    "lanes": (
        "Lanes: who worked, who waited",
        "Time runs to the right; a row is a lane. ▤ a pass of the target, ▣ a forward of the draft model, ▥ one "
        "that drafts branches ahead of the verdict, ░ idle, ╳ what was rolled back: nothing drawn there became "
        "text. The row invalid leads from the pass that judged back to the forwards it invalidated. A branch has a "
        "lane of its own, though all branches run in one batch.\n\n"
        "c switches between two clocks that are never mixed. The measured one shows what this machine did: on one "
        "device with lanes serial nothing overlaps. The modelled one plays the same rounds as if target and draft "
        "ran beside each other, at the measured cost of a forward (c = a target pass in draft forwards).\n\n"
        "Idle is not waste: waste is ╳. A draft stage leaves the target idle, and comes after every rollback; "
        "beside a pass, branches keep the draft model busy. ε (bar ┃) stops drafting before a token the draft "
        "model is unsure of; there k = max(1, ⌊k_max (1 − conf)⌋) branches open. p of branches is the target's "
        "share of their first tokens, p(B): under topk the chance of a hit.\n\n"
        "Would it pay: tokens a second by draft length, from acceptance by position, the measured cost of a pass by "
        "rows, and drafting.",
    )
}


class LanesPane(PartedPane[LaneOptions, LanesModel]):
    """The chart on top, the parts of the round below. A block's first token is the tree's selected node."""

    PANEL = LanesPanel
    OPEN = opens("screen.lanes", "3", LanesPanel, "Lanes: target, draft and branches over time, what was rolled back")
    KEYS, PAGES = LANE_KEYS, LANE_PAGES
    WIDE, SMALL = ("round", "run", "pay"), ("block", "steps", "fan", "run", "pay")

    def parts(self) -> ComposeResult:
        """A class says which of them are seen."""
        yield LaneChart(self.pick).data_bind(PanelPane.frame)
        with Horizontal(id="lane-parts"):
            yield self.box(views.block, "Block", "lane-block")
            yield self.box(_blocks(lambda model: model.steps), "Confidence against the bound", "lane-steps")
            yield self.box(_blocks(lambda model: model.fan), "Branches", "lane-fan")
        with Horizontal(id="lane-runs"):
            yield self.box(views.over_run, "The run, and H-RAD", "lane-run")
        with Horizontal(id="lane-pays"):
            yield self.box(_blocks(lambda model: model.pay or ()), "Would another length pay", "lane-pay")

    def put_parts(self) -> None:
        """A class says which part is seen; on a narrow screen it may be another one."""
        parts = self.SMALL if self.narrow else self.WIDE
        part = self.part if self.part in parts else parts[0]
        for name in {*self.SMALL, *self.WIDE}:
            self.set_class(name == part, f"-{name}")

    @property
    def _chart(self) -> Chart | None:
        return self.model.chart if self.model is not None else None

    def pick(self, number: int) -> None:
        """Look at a block of the chart. One of this round selects its token in the tree as well."""
        chart, frame = self._chart, self.frame
        if chart is None or frame is None or not 0 <= number < len(chart.blocks):
            return
        block = chart.blocks[number]
        mine = block.at[0] == frame.cursor.index and block.nodes
        self.choose(block.nodes[0] if mine else KEEP, hold=True, block=block.at)

    def action_move(self, direction: str) -> None:
        """To the block before or after in its lane, or to the one at the same time in the next lane."""
        chart = self._chart
        if chart is None or chart.cursor is None:
            return
        here = chart.blocks[chart.cursor]
        target = _beside(chart, here, direction) if direction in ("left", "right") else _across(chart, here, direction)
        if target is not None:
            self.pick(chart.blocks.index(target))

    def action_clock(self) -> None:
        """The measured or the modelled one; never both."""
        self.choose(clock=CLOCKS[(CLOCKS.index(self.chosen.clock) + 1) % len(CLOCKS)], block=None)

    def action_zoom(self, by: int) -> None:
        chart = self.query_one(LaneChart)
        chart.rounds = max(1, min(MOST_ROUNDS, chart.rounds + by))

    def action_node(self) -> None:
        """The tree of the block's round, at its first token."""
        chart = self._chart
        if chart is None or self.frame is None or chart.cursor is None:
            return
        block = chart.blocks[chart.cursor]
        away = None if block.at[0] == self.frame.cursor.index else block.at[0]
        self.choose(block.nodes[0] if block.nodes else None, index=away, tree=True, block=None)


def _blocks(part: Callable[[LanesModel], Iterable[Block]]) -> Callable[[LanesModel, Painter, int], Text]:
    return lambda model, painter, cells: painted(part(model), painter, cells)


class LaneChart(FrameWidget):
    """The lanes; a click chooses the block under the pointer."""

    EXPLAIN = "lanes"
    rounds: reactive[int] = reactive(3, layout=True)

    def __init__(self, pick: Callable[[int], None]) -> None:
        super().__init__(id="lane-chart")
        self._pick = pick
        self._seen: TimeWindow | None = None
        self._lanes: list[str] = []

    def part(self, frame: Frame) -> Chart | None:
        model = LanesPanel.of(frame)
        return model.chart if model is not None else None

    def show(self, frame: Frame | None) -> None:
        """Lanes come and go with the branches."""
        self.refresh(layout=True)

    def render(self) -> Text:
        """Lanes, rounds, the arrow, then which clock it is."""
        chart = self.part(self.frame) if self.frame is not None else None
        if chart is None:
            return Text("")
        width = self.size.width or 80
        self.border_subtitle = Text("c other clock · z Z zoom")
        if chart.missing:
            self.border_title, self._seen = Text("Lanes"), None
            return Text("\n").join([*sentence(chart.missing, width), Text(chart.clock_text, style=FAINT)])
        text, self._seen, self._lanes = views.drawn(chart, self.rounds, self.painter, width)
        self.border_title = views.legend(self._seen, self.painter)
        now = chart.rounds[-1].text if chart.rounds else ""
        seen = [arrow for arrow in chart.arrows if chart.blocks[arrow.source].t1 > self._seen.t0]
        words = f"r{seen[-1].round}: {seen[-1].words}" if seen else ""
        lines = [Text(f" {chart.clock_text}"[:width], style=FAINT), Text(f" this round: {now}"[:width], no_wrap=True)]
        return Text("\n").join([text, *lines, *indented(words, width, FAINT)])

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        chart = self.part(self.frame) if self.frame is not None else None
        if offset is None or chart is None or self._seen is None or offset.y >= len(self._lanes):
            return
        x, lane = offset.x - LABEL, self._lanes[offset.y]
        for place, block in enumerate(chart.blocks):
            x0, x1 = self._seen.span(block)
            if block.lane == lane and x0 <= x < x1:
                self._pick(place)


def _beside(chart: Chart, here: LaneBlock, direction: str) -> LaneBlock | None:
    mine = sorted((block for block in chart.blocks if block.lane == here.lane), key=lambda block: block.t0)
    at = mine.index(here) + (1 if direction == "right" else -1)
    return mine[at] if 0 <= at < len(mine) else None


def _across(chart: Chart, here: LaneBlock, direction: str) -> LaneBlock | None:
    """The block of the next lane that is nearest in time."""
    keys = [lane.key for lane in chart.lanes]
    at = keys.index(here.lane) + (1 if direction == "down" else -1)
    if not 0 <= at < len(keys):
        return None
    middle = (here.t0 + here.t1) / 2
    lane = [block for block in chart.blocks if block.lane == keys[at]]
    return min(lane, key=lambda b: (max(b.t0 - middle, middle - b.t1, 0.0), abs((b.t0 + b.t1) / 2 - middle)))
