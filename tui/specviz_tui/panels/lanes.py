"""Moves over the lanes of screen 3. Mixed into the main screen: a block's first token is the tree's selected node."""

from dataclasses import replace
from typing import TYPE_CHECKING

from specviz.view.panels.lanes.model import CLOCKS, Block, Chart
from specviz_tui.common.feed import RunFeed

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
        return self.frame.lanes.chart if self.frame is not None and self.frame.lanes is not None else None

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
        self.feed.options = replace(self.feed.options, block=block.at)
        mine = block.at[0] == frame.cursor.index and block.nodes
        self.select(block.nodes[0] if mine else self.feed.options.selected)

    def switch_clock(self) -> None:
        """The measured or the modelled one; never both."""
        options = self.feed.options
        other = CLOCKS[(CLOCKS.index(options.clock) + 1) % len(CLOCKS)]
        self.feed.options = replace(options, clock=other, block=None)
        self.paint_soon()

    def block_to_tree(self) -> None:
        """The tree of the block's round, at its first token."""
        chart, frame = self._chart, self.frame
        if chart is None or frame is None or chart.cursor is None:
            return
        block = chart.blocks[chart.cursor]
        if block.at[0] != frame.cursor.index:
            self.feed.player.seek_index(block.at[0])
        self.feed.options = replace(self.feed.options, block=None)
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
