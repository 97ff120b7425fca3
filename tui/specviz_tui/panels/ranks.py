"""Moves on screen 4. Mixed into the main screen: nodes of its tree are those of the draft tree, a cell of its table
lists expansions, an expansion is a place to go to."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from specviz.view.panels.ranks.model import BUCKETS, Ranks
from specviz_tui.common.feed import RunFeed
from specviz_tui.common.messages import RankAsked, RankEntered, RankFiltered, RankMoved, RankPicked
from specviz_tui.widgets.tree.tree_moves import neighbour

if TYPE_CHECKING:
    from textual.screen import Screen

    from specviz.view import Frame

    Base = Screen[None]
else:
    Base = object

STEPS = {"left": (0, -1), "right": (0, 1), "up": (-1, 0), "down": (1, 0)}


class RankActions(Base):
    """Actions of a screen that has `feed`, `frame`, `select`, `choose` and `show_rank_tree`."""

    feed: RunFeed
    if TYPE_CHECKING:
        frame: "Frame | None"

        def select(self, node: int | None) -> None: ...
        def choose(self, name: str) -> None: ...
        def paint_soon(self) -> None: ...
        def focus_main(self) -> None: ...

    @property
    def _ranks(self) -> Ranks | None:
        return self.frame.ranks if self.frame is not None else None

    def do_on_ranks(self, message: RankAsked) -> None:
        """An arrow, a filter, enter, or a click on the table."""
        if isinstance(message, RankMoved):
            self.move_rank(message.direction, message.part)
        elif isinstance(message, RankFiltered):
            self.filter_ranks(message.what)
        elif isinstance(message, RankEntered):
            self.enter_rank(message.part)
        elif isinstance(message, RankPicked):
            self.focus_main()
            self.pick_bucket(message.pred, message.true)

    def move_rank(self, direction: str, part: str) -> None:
        """An arrow: over the table, down a cell's list, over the queries, or over the tree."""
        if part in ("buckets", "cell"):
            self._move_cell(direction)
        elif part in ("bandit", "queries"):
            self._move_query(-1 if direction in ("up", "left") else 1)
        elif self.frame is not None:
            node = neighbour(self.frame.tree, self.frame.selected, direction, True)
            if node is not None:
                self.select(node)

    def _move_cell(self, direction: str) -> None:
        options, ranks = self.feed.options, self._ranks
        if options.rank_entry is not None and ranks is not None and ranks.cell is not None:
            if direction in ("left", "right"):
                self.feed.options = replace(options, rank_entry=None)
            else:
                last = len(ranks.cell.entries) - 1
                entry = max(0, min(last, options.rank_entry + (1 if direction == "down" else -1)))
                self.feed.options = replace(options, rank_entry=entry)
            self.paint_soon()
            return
        if options.rank_cell is None:
            self.pick_bucket(0, 0)
            return
        (pred, true), (down, right) = options.rank_cell, STEPS[direction]
        last = len(BUCKETS) - 1
        self.pick_bucket(max(0, min(last, pred + down)), max(0, min(last, true + right)))

    def pick_bucket(self, pred: int, true: int) -> None:
        """Look at a cell of the table."""
        self.feed.options = replace(self.feed.options, rank_cell=(pred, true), rank_entry=None)
        self.paint_soon()

    def _move_query(self, by: int) -> None:
        """To the query before or after, where something was decided."""
        adapt = self._ranks.adapt if self._ranks is not None else None
        if adapt is None:
            return
        at = next((k for k, step in enumerate(adapt.steps) if step.cursor), len(adapt.steps) if by < 0 else -1)
        found = adapt.steps[max(0, min(len(adapt.steps) - 1, at + by))]
        if found.index is not None:
            self.feed.player.seek_index(found.index)
            self.select(None)

    def filter_ranks(self, what: str) -> None:
        """Count other expansions; the cell stays, its list begins anew."""
        ranks, options = self._ranks, self.feed.options
        if ranks is None:
            return
        wanted = options.rank_filter
        if what == "path":
            wanted = replace(wanted, path_only=not wanted.path_only)
        elif what == "block":
            wanted = replace(wanted, block=_next(ranks.blocks, wanted.block))
        else:
            wanted = replace(wanted, slot=_next(ranks.slots, wanted.slot))
        self.feed.options = replace(options, rank_filter=wanted, rank_entry=None)
        self.paint_soon()

    def enter_rank(self, part: str) -> None:
        """Into a cell's list; from an expansion to its node; from a node to the draft tree."""
        ranks, options = self._ranks, self.feed.options
        if part not in ("buckets", "cell"):
            self.choose("tree")
            return
        if ranks is None or ranks.cell is None or not ranks.cell.entries:
            return
        if options.rank_entry is None:
            self.feed.options = replace(options, rank_entry=0)
            self.paint_soon()
            return
        entry = ranks.cell.entries[min(options.rank_entry, len(ranks.cell.entries) - 1)]
        self.feed.player.seek_index(entry.index)
        self.show_rank_tree()
        self.select(entry.node)

    def show_rank_tree(self) -> None:
        """The part of the screen with the tree."""
        from specviz_tui.panels.ranks_pane import RanksPane

        self.query_one(RanksPane).part = "tree"


def _next(choices: Sequence[int], now: int | None) -> int | None:
    """All, then one after the other."""
    if now is None or now not in choices:
        return choices[0] if choices and now is None else None
    at = choices.index(now) + 1
    return choices[at] if at < len(choices) else None
