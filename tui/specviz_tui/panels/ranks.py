"""Screen 4: block, slot and rank of the drafted nodes, predicted against true buckets, and widths.

One part on the left, what belongs to it on the right; on a narrow screen each is a view of its own. Nodes of its tree
are those of the draft tree, a cell of its table lists expansions, an expansion is a place to go to.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.geometry import Region
from textual.reactive import reactive

from specviz.view.frame.frame import Frame
from specviz.view.panels.ranks.build import RanksPanel
from specviz.view.panels.ranks.model import BUCKETS, RankOptions, RanksModel
from specviz_tui.common.frame_widget import FrameWidget, NodePicked
from specviz_tui.common.keymap import Key, page_keys
from specviz_tui.common.paint import FAINT, Painter
from specviz_tui.common.pane import NARROW, PanelPane, PartedPane, opens
from specviz_tui.panels import ranks_views
from specviz_tui.widgets.tree import neighbour

PAIRS: dict[str, str] = {"tree": "offers", "buckets": "cell", "widths": "blocks"}
WIDE_PARTS: tuple[str, ...] = tuple(PAIRS)
NARROW_PARTS: tuple[str, ...] = tuple(part for pair in PAIRS.items() for part in pair)
TITLES: dict[str, str] = {
    "tree": "Tree · block·slot #rank",
    "offers": "Offered, and why",
    "buckets": "Predicted bucket (rows) × true bucket (columns)",
    "cell": "The cell's expansions",
    "widths": "Width spent against useful",
    "blocks": "Blocks, depths, the run",
}
HINTS: dict[str, str] = {
    "tree": "enter draft tree",
    "buckets": "f path c block s slot",
    "widths": "f path c block s slot",
    "cell": "enter → node",
}
STEPS = {"left": (0, -1), "right": (0, 1), "up": (-1, 0), "down": (1, 0)}
RANK_KEYS: tuple[Key, ...] = (
    Key("ranks.left", "left,h", "move('left')", "← h", "to the parent; in the table: a cell to the left", "Ranks"),
    Key("ranks.right", "right,l", "move('right')", "→ l", "to the first child; in the table: to the right", "Ranks"),
    Key("ranks.up", "up,k", "move('up')", "↑ k", "up: node, cell or expansion", "Ranks"),
    Key("ranks.down", "down,j", "move('down')", "↓ j", "down", "Ranks"),
    Key("ranks.view", "v", "view(1)", "v", "next view: tree, buckets, widths", "Ranks", "view"),
    Key("ranks.view_before", "V", "view(-1)", "V", "view before", "Ranks"),
    Key("ranks.path", "f", "filter('path')", "f", "count the path only, or every node the target saw", "Ranks"),
    Key("ranks.block", "c", "filter('block')", "c", "count one block, or all", "Ranks"),
    Key("ranks.slot", "s", "filter('slot')", "s", "count one slot, or all", "Ranks"),
    Key(
        "ranks.node",
        "enter",
        "node",
        "enter",
        "a cell: its expansions; an expansion: to its node; a node: to the draft tree",
        "Ranks",
        "go",
    ),
    *page_keys("ranks", "Ranks"),
)
RANK_PAGES = {
    "ranks": (
        "Ranks: what shaped the tree",
        "A block is one call's run of slots: slot k speaks of the k-th token ahead. b2·s1 #3 is a node that slot 1 of "
        "block 2 offered as its third choice. The spine is each slot's first choice; a sibling gets children only "
        "where a later block starts (◎). +1 was offered by another slot as well, and merged. The nodes to whose whole "
        "path the draft gives the largest chance are sent, the others pruned.\n\n"
        "Before it offers anything, a small head predicts in which bucket the target's token stands among the slot's "
        "choices: 1, 2 to 4, 5 to 10, or lower. The bucket sets how many children the slot gets (knob widths).\n\n"
        "The table counts predicted (rows) against true (columns). Right of the diagonal (›) the slot was too narrow: "
        "if the token was not offered, a walk that comes there ends. Left of it (‹) it was too wide: nodes that buy "
        "nothing. ⊘ stopped widening though the token was within reach. These do not cost the same. f counts the path "
        "only: there the prefix is right, and the token is the one that was written; otherwise it is the target's best "
        "at every node it saw. c and s choose a block and a slot.",
    )
}


class RanksPane(PartedPane[RankOptions, RanksModel]):
    """The part on the left, its companion on the right."""

    PANEL = RanksPanel
    OPEN = opens("screen.ranks", "4", RanksPanel, "Ranks: block, slot, rank of nodes; buckets, widths")
    KEYS, PAGES = RANK_KEYS, RANK_PAGES
    WIDE, SMALL = WIDE_PARTS, NARROW_PARTS

    def parts(self) -> ComposeResult:
        with VerticalScroll(id="rank-main", can_focus=False):
            yield RankView("tree", self.pick, id="rank-left").data_bind(PanelPane.frame)
        with VerticalScroll(id="rank-side", can_focus=False):
            yield RankView("offers", self.pick, id="rank-right").data_bind(PanelPane.frame)

    def show(self, frame: Frame, model: RanksModel) -> None:
        self._titles()

    def put_parts(self) -> None:
        """Which parts stand on both sides."""
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
        """An arrow over the table, down a cell's list, over the tree; elsewhere it scrolls."""
        if self.part in ("buckets", "cell"):
            self._move_cell(direction)
        elif self.part != "tree":
            self.action_scroll({"up": -1, "down": 1}.get(direction, 0))
        elif self.frame is not None:
            node = neighbour(self.frame.tree, self.frame.selected, direction, True)
            if node is not None:
                self.choose(node)

    def _move_cell(self, direction: str) -> None:
        (pred, true), entry = self.chosen.cell or (None, None), self.chosen.entry
        if entry is not None and self.model is not None and self.model.cell is not None:
            last = len(self.model.cell.rows) - 1
            sideways = direction in ("left", "right")
            self.choose(entry=None if sideways else max(0, min(last, entry + (1 if direction == "down" else -1))))
        elif pred is None or true is None:
            self.pick(0, 0)
        else:
            (down, right), last = STEPS[direction], len(BUCKETS) - 1
            self.pick(max(0, min(last, pred + down)), max(0, min(last, true + right)))

    def pick(self, pred: int, true: int) -> None:
        """Look at a cell of the table."""
        self.choose(cell=(pred, true), entry=None)

    def action_filter(self, what: str) -> None:
        """Count other expansions; the cell stays, its list begins anew."""
        ranks, wanted = self.model, self.chosen.filter
        if ranks is None:
            return
        if what == "path":
            wanted = replace(wanted, path_only=not wanted.path_only)
        elif what == "block":
            wanted = replace(wanted, block=_next(ranks.blocks, wanted.block))
        else:
            wanted = replace(wanted, slot=_next(ranks.slots, wanted.slot))
        self.choose(filter=wanted, entry=None)

    def action_node(self) -> None:
        """Into a cell's list; from an expansion to its node; from a node to the draft tree."""
        cell = self.model.cell if self.model is not None else None
        if self.part not in ("buckets", "cell"):
            self.choose(tree=True)
        elif cell is not None and cell.rows and self.chosen.entry is None:
            self.choose(entry=0)
        elif cell is not None and cell.cursor is not None and (place := cell.places[cell.cursor]) is not None:
            self.part = "tree"
            self.choose(place.node, index=place.index)
        if self.narrow and self.part == "buckets":
            self.part = "cell"

    def back(self) -> bool:
        """Out of a cell's list."""
        inside = self.chosen.entry is not None
        if inside:
            self.choose(entry=None)
        return inside

    def action_scroll(self, lines: int) -> None:
        for name in ("#rank-main", "#rank-side"):
            self.query_one(name).scroll_relative(y=lines, animate=False)


class RankView(FrameWidget):
    """One part, painted; the line of the cursor stays in view. A click chooses a node or a cell of the table."""

    EXPLAIN = "ranks"
    part_shown: reactive[str] = reactive("tree", layout=True)

    def __init__(self, part: str, pick: Callable[[int, int], None], id: str) -> None:
        super().__init__(id=id)
        self.set_reactive(RankView.part_shown, part)
        self._pick = pick
        self._listed: list[int] = []
        self._cursor_line: int | None = None

    def part(self, frame: Frame) -> object:
        """The tree and its ranks at this moment."""
        return frame.tree, RanksPanel.of(frame)

    def show(self, frame: Frame | None) -> None:
        self.refresh(layout=True)
        self.call_after_refresh(self._follow)

    def _follow(self) -> None:
        if self._cursor_line is not None:
            box = self.screen.query_one("#rank-main" if self.id == "rank-left" else "#rank-side", VerticalScroll)
            box.scroll_to_region(Region(0, self._cursor_line, 1, 1), center=True, animate=False)

    def render(self) -> Text:
        """The part in the room there is."""
        model = RanksPanel.of(self.frame)
        if model is None or model.missing:
            return Text("")
        text = self._painted(model, max(20, self.size.width or 40))
        if self.app.size.width >= NARROW:
            return text
        if self._cursor_line is not None:
            self._cursor_line += 1
        return Text("\n").join([Text(f" v · {TITLES[self.part_shown]}", style=FAINT, no_wrap=True), text])

    def _painted(self, model: RanksModel, cells: int) -> Text:
        painter, part, text = self.painter, self.part_shown, Text("")
        self._listed, self._cursor_line = [], None
        if part == "tree" and self.frame is not None:
            text, self._listed, self._cursor_line = ranks_views.tree(self.frame.tree, model, painter, cells)
        elif part == "cell":
            text, self._cursor_line = ranks_views.cell(model.cell, painter, cells)
        elif part in _PAINTED:
            text = _PAINTED[part](model, painter, cells)
        return text

    def on_click(self, event: events.Click) -> None:
        """The node or cell under the pointer."""
        offset = event.get_content_offset(self)
        if offset is None:
            return
        y = offset.y - (self.app.size.width < NARROW)
        if self.part_shown == "tree" and 0 <= y < len(self._listed):
            self.post_message(NodePicked(self._listed[y]))
        elif self.part_shown == "buckets" and (cell := ranks_views.pressed(RanksPanel.of(self.frame), offset.x, y)):
            self._pick(*cell)


_PAINTED: dict[str, Callable[[RanksModel, Painter, int], Text]] = {
    "offers": ranks_views.offers,
    "buckets": ranks_views.buckets,
    "widths": ranks_views.widths,
    "blocks": ranks_views.blocks,
}


def _next(choices: Sequence[int], now: int | None) -> int | None:
    """All, then one after the other."""
    if now is None or now not in choices:
        return choices[0] if choices and now is None else None
    at = choices.index(now) + 1
    return choices[at] if at < len(choices) else None
