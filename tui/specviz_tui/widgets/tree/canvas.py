"""The draft tree on a canvas of its own: strips painted line by line and kept until the tree changes.

The view has fixed the places for the whole round, so nothing jumps while nodes appear. Columns hold `glyph token
value`, with a bar where there is room; three cells between columns hold the lines."""

from rich.segment import Segment
from textual import events
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from specviz.view.frame.frame import Frame, TreeFrame
from specviz_tui.common.keymap import TREE_KEYS, bindings
from specviz_tui.common.messages import Moved, NodePicked
from specviz_tui.common.paint import Painter, painter_of
from specviz_tui.widgets.tree import rows
from specviz_tui.widgets.tree.rows import Row, judged


class TreeCanvas(ScrollView, can_focus=True, inherit_bindings=False):
    """`listed`: one node a line with depth as indent (narrow screens), else columns by depth."""

    BINDINGS = bindings(TREE_KEYS)
    EXPLAIN = "tree"
    frame: reactive[Frame | None] = reactive(None, repaint=False, init=False)
    listed: reactive[bool] = reactive(False, init=False)

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: list[Row] = []
        self._strips: dict[int, Strip] = {}

    @property
    def painter(self) -> Painter:
        """The painter for the present theme."""
        return painter_of(self.app)

    def watch_frame(self, old: Frame | None, new: Frame | None) -> None:
        """Lay out again when the tree changed."""
        if new is None:
            return
        if old is None or old.tree != new.tree or old.value_mode != new.value_mode:
            self.rebuild(new.tree)

    def watch_listed(self) -> None:
        """The other form of the same tree."""
        if self.frame is not None:
            self.rebuild(self.frame.tree)

    def on_resize(self) -> None:
        self.watch_listed()

    def notify_style_update(self) -> None:
        """Another theme: paint all lines again."""
        super().notify_style_update()
        self._strips.clear()

    def rebuild(self, tree: TreeFrame) -> None:
        """Cut the tree into rows, keep the cursor in sight."""
        make = rows.listed if self.listed else rows.columns
        width, height = self.scrollable_content_region.size
        self._rows = make(tree, self.painter, width)
        if not self.listed:
            self._rows += judged(tree, self.painter, width, height - len(self._rows) - 1)
        self._strips.clear()
        widest = max((row.cells for row in self._rows if not row.pinned), default=0)
        self.virtual_size = Size(widest, len(self._rows))
        self._show_cursor()
        self.refresh()

    def _show_cursor(self) -> None:
        for y, row in enumerate(self._rows):
            if row.cursor is not None and not row.pinned:
                x0, x1 = row.cursor
                self.scroll_to_region(Region(max(x0 - 2, 0), y, x1 - x0 + 4, 1), animate=False, force=True)
                return

    def render_line(self, y: int) -> Strip:
        """One line of the canvas, from the cache."""
        x, top = self.scroll_offset
        width, base = self.size.width, self.rich_style  # worked out anew at every asking
        line = y + top
        if line >= len(self._rows):
            return Strip.blank(width, base)
        if line not in self._strips:
            self._strips[line] = Strip([Segment(text, base + style) for text, style in self._rows[line].pieces])
        x = 0 if self._rows[line].pinned else x
        return self._strips[line].crop_extend(x, x + width, base)

    def node_at(self, x: int, y: int) -> int | None:
        """The node painted at a cell of the widget's content."""
        line = y + self.scroll_offset.y
        if not 0 <= line < len(self._rows):
            return None
        at = x + (0 if self._rows[line].pinned else self.scroll_offset.x)
        return next((node for x0, x1, node in self._rows[line].spots if x0 <= at < x1), None)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        node = self.node_at(offset.x, offset.y) if offset is not None else None
        if node is not None:
            self.post_message(NodePicked(node))

    def action_move(self, direction: str) -> None:
        """Ask for the neighbour in a direction."""
        self.post_message(Moved(direction))
