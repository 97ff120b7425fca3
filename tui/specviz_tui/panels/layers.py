"""Moves over the map of screen 2. Mixed into the main screen: the row under the cursor is the tree's selected node."""

from dataclasses import replace
from typing import TYPE_CHECKING

from specviz_tui.common.feed import RunFeed

if TYPE_CHECKING:
    from textual.screen import Screen

    from specviz.view import Frame
    from specviz.view.panels.exits.model import HeatMap

    Base = Screen[None]
else:
    Base = object


class LayerActions(Base):
    """Actions of a screen that has `feed`, `frame`, `select` and `choose`."""

    feed: RunFeed
    if TYPE_CHECKING:
        frame: "Frame | None"

        def select(self, node: int | None) -> None: ...
        def choose(self, name: str) -> None: ...

    @property
    def _heat(self) -> "HeatMap | None":
        return self.frame.layers.heat if self.frame is not None and self.frame.layers is not None else None

    def move_cell(self, direction: str) -> None:
        """To the cell beside: another row, or another layer of the same one."""
        heat = self._heat
        if heat is None or heat.column is None:
            return
        by = {"left": (-1, 0), "right": (1, 0), "up": (0, 1), "down": (0, -1)}[direction]
        column = max(0, min(len(heat.columns) - 1, heat.column + by[0]))
        self.pick_cell(column, max(1, min(heat.n_layers, heat.layer + by[1])))

    def pick_cell(self, column: int, layer: int) -> None:
        """Look at a cell. A row of this round is the node the tree shows; one of an earlier round stays apart."""
        heat, frame = self._heat, self.frame
        if heat is None or frame is None or not 0 <= column < len(heat.columns):
            return
        found = heat.columns[column]
        options = self.feed.options
        if found.index == frame.cursor.index:
            self.feed.options = replace(options, layer=layer, column=None)
            self.select(found.node)
        else:
            self.feed.options = replace(options, layer=layer, column=(found.index, found.row))
            self.select(options.selected)

    def cell_to_tree(self) -> None:
        """The tree, at the token of the row under the cursor; in its own round."""
        heat, frame = self._heat, self.frame
        if heat is None or frame is None or heat.column is None:
            return
        found = heat.columns[heat.column]
        if found.index != frame.cursor.index:
            self.feed.player.seek_index(found.index)
        self.feed.options = replace(self.feed.options, column=None)
        self.choose("tree")
        self.select(found.node)
