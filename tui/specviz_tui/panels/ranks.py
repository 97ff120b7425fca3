"""Screen 4: block, slot and rank of the drafted nodes, predicted against true buckets, widths, and the bandit.

One part on the left, what belongs to it on the right; on a narrow screen each is a view of its own.

Moves on screen 4. Mixed into the main screen: nodes of its tree are those of the draft tree, a cell of its table
lists expansions, an expansion is a place to go to.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Container, VerticalScroll
from textual.geometry import Region
from textual.reactive import reactive
from textual.widgets import Static

from specviz.view.frame.frame import Frame
from specviz.view.panels.learning.build import LearningPanel
from specviz.view.panels.learning.model import Learning
from specviz.view.panels.ranks.build import RanksPanel
from specviz.view.panels.ranks.model import BUCKETS, Ranks
from specviz_tui.common.feed import RunFeed
from specviz_tui.common.keymap import RANK_KEYS, bindings
from specviz_tui.common.messages import NodePicked, RankAsked, RankEntered, RankFiltered, RankMoved, RankPicked
from specviz_tui.common.paint import FAINT
from specviz_tui.panels import FrameWidget, learning_views, ranks_views
from specviz_tui.panels import ranks_views as rank_tables
from specviz_tui.widgets.tree.box import neighbour

Part = Literal["tree", "offers", "buckets", "cell", "widths", "blocks", "bandit", "queries"]
PAIRS: dict[Part, Part] = {"tree": "offers", "buckets": "cell", "widths": "blocks", "bandit": "queries"}
WIDE_PARTS: tuple[Part, ...] = tuple(PAIRS)
NARROW_PARTS: tuple[Part, ...] = tuple(part for pair in PAIRS.items() for part in pair)
TITLES: dict[Part, str] = {
    "tree": "Tree · block·slot #rank · chance of the path", "offers": "Offered, and why",
    "buckets": "Predicted bucket (rows) × true bucket (columns)", "cell": "The cell's expansions",
    "widths": "Width spent against useful", "blocks": "Blocks, depths, the run",
    "bandit": "Learning while serving", "queries": "So far",
}  # fmt: skip
HINTS: dict[Part, str] = {
    "tree": "enter draft tree", "buckets": "f path c block s slot",
    "widths": "f path c block s slot", "bandit": "↑ ↓ queries", "cell": "enter → node",
}  # fmt: skip
NARROW = 100


class RanksPane(Container, can_focus=True, inherit_bindings=False):
    """Everything of the screen below the text strip. Without ranks it says which methods have them."""

    BINDINGS = bindings(RANK_KEYS)
    EXPLAIN = "ranks"
    frame: reactive[Frame | None] = reactive(None, repaint=False, init=False)
    part: reactive[Part] = reactive("tree", init=False)

    def compose(self) -> ComposeResult:
        """The part on the left, its companion on the right."""
        yield Static("", id="no-ranks", markup=False)
        with VerticalScroll(id="rank-main", can_focus=False):
            yield RankView("tree", id="rank-left").data_bind(RanksPane.frame)
        with VerticalScroll(id="rank-side", can_focus=False):
            yield RankView("offers", id="rank-right").data_bind(RanksPane.frame)

    @property
    def narrow(self) -> bool:
        """Whether only one part fits."""
        return self.app.size.width < NARROW

    def watch_frame(self, frame: Frame | None) -> None:
        """The reason in place of the parts, when there is nothing to show."""
        found = RanksPanel.of(frame)
        if found is None:
            return
        self.set_class(found.missing is not None, "-missing")
        self.query_one("#no-ranks", Static).update(found.missing or "")
        self._titles()

    def on_mount(self) -> None:
        """Names of the parts."""
        self._show()

    def on_resize(self) -> None:
        """One part or two."""
        self._show()

    def watch_part(self, _: Part) -> None:
        """Another part."""
        self._show()

    def _show(self) -> None:
        if not self.narrow and self.part not in PAIRS:
            self.part = next(main for main, side in PAIRS.items() if side == self.part)
        self.query_one("#rank-left", RankView).part_shown = self.part
        self.query_one("#rank-right", RankView).part_shown = PAIRS.get(self.part, "offers")
        for box in ("#rank-main", "#rank-side"):
            self.query_one(box).scroll_home(animate=False)
        self._titles()

    def _titles(self) -> None:
        main, side = self.query_one("#rank-main"), self.query_one("#rank-side")
        here = f" · round {self.frame.round}" if self.frame is not None and self.part == "tree" else ""
        main.border_title = Text(f"{TITLES[self.part]}{here}")
        names = " ".join(f"[{name}]" if name == self.part else name for name in WIDE_PARTS)
        main.border_subtitle = Text(f"v {names} · {HINTS.get(self.part, '')}")
        companion = PAIRS.get(self.part, "offers")
        side.border_title = Text(TITLES[companion])
        side.border_subtitle = Text(HINTS.get(companion, ""))

    # Keys ------------------------------------------------------------------------------------------------------------

    def action_move(self, direction: str) -> None:
        """An arrow, in the part on screen; where nothing is chosen it scrolls."""
        if self.part in ("widths", "blocks", "offers", "queries"):
            self.action_scroll({"up": -1, "down": 1}.get(direction, 0))
        else:
            self.post_message(RankMoved(direction, self.part))

    def action_view(self, by: int) -> None:
        """Another part."""
        parts = NARROW_PARTS if self.narrow else WIDE_PARTS
        at = parts.index(self.part) if self.part in parts else 0
        self.part = parts[(at + by) % len(parts)]

    def action_filter(self, what: str) -> None:
        """Count other expansions."""
        self.post_message(RankFiltered(what))

    def action_node(self) -> None:
        """Into the list, to the node, to the draft tree."""
        self.post_message(RankEntered(self.part))
        if self.narrow and self.part == "buckets":
            self.part = "cell"

    def action_scroll(self, lines: int) -> None:
        """By some lines."""
        for name in ("#rank-main", "#rank-side"):
            self.query_one(name).scroll_relative(y=lines, animate=False)


class RankView(FrameWidget):
    """One part, painted; the line of the cursor stays in view."""

    EXPLAIN = "ranks"
    part_shown: reactive[Part] = reactive("tree", layout=True)

    def __init__(self, part: Part, id: str | None = None) -> None:
        super().__init__(id=id)
        self.set_reactive(RankView.part_shown, part)
        self._listed: list[int] = []
        self._cursor_line: int | None = None

    def part(self, frame: Frame) -> object:
        """The ranks of this moment."""
        return RanksPanel.of(frame), LearningPanel.of(frame)

    def show(self, frame: Frame | None) -> None:
        """Heights differ from round to round."""
        self.refresh(layout=True)
        self.call_after_refresh(self._follow)

    def _follow(self) -> None:
        if self._cursor_line is not None:
            box = self.screen.query_one("#rank-main" if self.id == "rank-left" else "#rank-side", VerticalScroll)
            box.scroll_to_region(Region(0, self._cursor_line, 1, 1), center=True, animate=False)

    def render(self) -> Text:
        """The part in the room there is."""
        found = RanksPanel.of(self.frame)
        if found is None or found.missing:
            return Text("")
        text = self._painted(found, max(20, self.size.width or 40))
        if self.app.size.width >= NARROW:
            return text
        if self._cursor_line is not None:
            self._cursor_line += 1
        return Text("\n").join([Text(f" v · {TITLES[self.part_shown]}", style=FAINT, no_wrap=True), text])

    def _painted(self, found: Ranks, cells: int) -> Text:
        painter, part = self.painter, self.part_shown
        self._listed, self._cursor_line = [], None
        if part == "tree" and found.tree is not None:
            text, self._listed, self._cursor_line = ranks_views.tree(found.tree, painter, cells)
            return text
        if part == "offers":
            return ranks_views.offers(found, painter, cells)
        if part == "buckets":
            return rank_tables.buckets(found, painter, cells)
        if part == "cell":
            text, self._cursor_line = rank_tables.cell(found.cell, painter, cells)
            return text
        if part == "widths":
            return rank_tables.widths(found, painter, cells)
        if part == "blocks":
            return rank_tables.blocks(found, painter, cells)
        learnt = LearningPanel.of(self.frame) or Learning("")
        if part == "bandit":
            text, self._cursor_line = learning_views.arms(learnt.view, learnt.missing, painter, cells)
            return text
        beside = self.app.size.width >= NARROW  # the part on the left has said why there is nothing
        return learning_views.sums(learnt.view, "" if beside else learnt.missing, painter, cells)

    def on_click(self, event: events.Click) -> None:
        """The node or cell under the pointer."""
        offset = event.get_content_offset(self)
        if offset is None:
            return
        y = offset.y - (self.app.size.width < NARROW)
        if self.part_shown == "tree" and 0 <= y < len(self._listed):
            self.post_message(NodePicked(self._listed[y]))
        elif self.part_shown == "buckets" and (cell := rank_tables.pressed(offset.x, y)) is not None:
            self.post_message(RankPicked(*cell))


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
        return RanksPanel.of(self.frame)

    def _choose(self, **changes: Any) -> None:
        self.feed.options = RanksPanel.choose(self.feed.options, **changes)

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
        options, ranks = RanksPanel.chosen(self.feed.options), self._ranks
        if options.entry is not None and ranks is not None and ranks.cell is not None:
            if direction in ("left", "right"):
                self._choose(entry=None)
            else:
                last = len(ranks.cell.entries) - 1
                entry = max(0, min(last, options.entry + (1 if direction == "down" else -1)))
                self._choose(entry=entry)
            self.paint_soon()
            return
        if options.cell is None:
            self.pick_bucket(0, 0)
            return
        (pred, true), (down, right) = options.cell, STEPS[direction]
        last = len(BUCKETS) - 1
        self.pick_bucket(max(0, min(last, pred + down)), max(0, min(last, true + right)))

    def pick_bucket(self, pred: int, true: int) -> None:
        """Look at a cell of the table."""
        self._choose(cell=(pred, true), entry=None)
        self.paint_soon()

    def _move_query(self, by: int) -> None:
        """To the query before or after, where something was decided."""
        learnt = LearningPanel.of(self.frame)
        adapt = learnt.view if learnt is not None else None
        if adapt is None:
            return
        at = next((k for k, step in enumerate(adapt.steps) if step.cursor), len(adapt.steps) if by < 0 else -1)
        found = adapt.steps[max(0, min(len(adapt.steps) - 1, at + by))]
        if found.index is not None:
            self.feed.player.seek_index(found.index)
            self.select(None)

    def filter_ranks(self, what: str) -> None:
        """Count other expansions; the cell stays, its list begins anew."""
        ranks, options = self._ranks, RanksPanel.chosen(self.feed.options)
        if ranks is None:
            return
        wanted = options.filter
        if what == "path":
            wanted = replace(wanted, path_only=not wanted.path_only)
        elif what == "block":
            wanted = replace(wanted, block=_next(ranks.blocks, wanted.block))
        else:
            wanted = replace(wanted, slot=_next(ranks.slots, wanted.slot))
        self._choose(filter=wanted, entry=None)
        self.paint_soon()

    def enter_rank(self, part: str) -> None:
        """Into a cell's list; from an expansion to its node; from a node to the draft tree."""
        ranks, options = self._ranks, RanksPanel.chosen(self.feed.options)
        if part not in ("buckets", "cell"):
            self.choose("tree")
            return
        if ranks is None or ranks.cell is None or not ranks.cell.entries:
            return
        if options.entry is None:
            self._choose(entry=0)
            self.paint_soon()
            return
        entry = ranks.cell.entries[min(options.entry, len(ranks.cell.entries) - 1)]
        self.feed.player.seek_index(entry.index)
        self.show_rank_tree()
        self.select(entry.node)

    def show_rank_tree(self) -> None:
        """The part of the screen with the tree."""
        self.query_one(RanksPane).part = "tree"


def _next(choices: Sequence[int], now: int | None) -> int | None:
    """All, then one after the other."""
    if now is None or now not in choices:
        return choices[0] if choices and now is None else None
    at = choices.index(now) + 1
    return choices[at] if at < len(choices) else None
