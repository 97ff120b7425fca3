"""The draft tree: its canvas, the box with title and counts around it, and where an arrow leads.

The view has fixed the places for the whole round, so nothing jumps while nodes appear. Columns hold `glyph token
value`, with a bar where there is room; three cells between columns hold the lines."""

from rich.segment import Segment
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Static

from specviz.view.frame.frame import Frame, TreeFrame
from specviz.view.words.palette import VALUE_MODES
from specviz_tui.common.frame_widget import FrameWidget, Moved, NodePicked
from specviz_tui.common.keymap import TREE_KEYS, bindings
from specviz_tui.common.paint import FAINT, STRONG, Painter, painter_of, spread
from specviz_tui.widgets import tree_rows as rows
from specviz_tui.widgets.tree_rows import Row, judged


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
        for y, row in enumerate(self._rows):
            if row.cursor is not None and not row.pinned:
                x0, x1 = row.cursor
                self.scroll_to_region(Region(max(x0 - 2, 0), y, x1 - x0 + 4, 1), animate=False, force=True)
                break
        self.refresh()

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
        self.post_message(Moved(direction))


NOTHING_YET = "No round yet."


class TreeFoot(FrameWidget):
    """Counts on the left, the value shown beside the tokens on the right."""

    EXPLAIN = "tree"

    def part(self, frame: Frame) -> object:
        return frame.counts, frame.value_mode

    def render(self) -> Text:
        """`12 drafted · tested 4: ✓2 ✗2            value [q] p p/q u rank`."""
        if self.frame is None:
            return Text("")
        right = Text("value ", style=FAINT)
        for mode in VALUE_MODES:
            chosen = mode == self.frame.value_mode
            right.append(f"[{mode}]" if chosen else f" {mode} ", style=STRONG if chosen else FAINT)
        left = Text(f" {self.frame.counts.text}")
        if left.cell_len + right.cell_len + 1 > self.size.width:
            right = Text("v ", style=FAINT).append(self.frame.value_mode, style=STRONG)
        return spread(left, right, self.size.width)


class TreeBox(Vertical):
    """Canvas, counts, and the text that stands there when no tree can be shown."""

    frame: reactive[Frame | None] = reactive(None, repaint=False, init=False)
    waiting: reactive[str] = reactive("")  # said while there is no frame at all

    def compose(self) -> ComposeResult:
        """All three; a class says which are seen."""
        yield TreeCanvas(id="tree").data_bind(TreeBox.frame)
        yield Static("", id="missing", markup=False)
        yield TreeFoot(id="tree-foot").data_bind(TreeBox.frame)

    def watch_frame(self, frame: Frame | None) -> None:
        """Title, and whether there is a tree."""
        self._show(frame)

    def watch_waiting(self) -> None:
        self._show(self.frame)

    def _show(self, frame: Frame | None) -> None:
        missing = NOTHING_YET
        if frame is not None:
            detail = self.waiting or frame.state.detail
            missing = frame.tree.missing or "" if frame.timeline.points else detail or frame.tree.missing or NOTHING_YET
        self.set_class(bool(missing), "-missing")
        self.query_one("#missing", Static).update(missing)
        self.query_one(TreeCanvas).set_class(frame is not None and frame.tree.flash, "-flash")
        title = "Draft tree"
        if frame is not None and frame.round:
            query = f"query {frame.query} · " if frame.query else ""
            steps = f" {frame.step}/{frame.n_steps}" if frame.n_steps > 1 else ""
            title += f" · {query}round {frame.round} · {frame.phase_text}{steps}"
        self.border_title = Text(title)


def neighbour(tree: TreeFrame, selected: int | None, direction: str, listed: bool) -> int | None:
    """The node in a direction; None when there is none. Without a selection: the root."""
    here = tree.node(selected) if selected is not None else None
    if here is None:
        return tree.nodes[0].id if tree.nodes else None
    if direction == "left":
        return here.parent if here.depth and tree.node(here.parent) else None
    if direction == "right":
        # The child on the winning path, else the first.
        children = [node for node in tree.nodes if node.parent == here.id and node.depth == here.depth + 1]
        best = [node for node in children if node.winning] or sorted(children, key=lambda node: node.row)
        return best[0].id if best else None
    step = -1 if direction == "up" else 1
    if listed:
        order = [node.id for node in sorted(tree.nodes, key=lambda node: (node.row, node.column))]
        at = order.index(here.id) + step
        return order[at] if 0 <= at < len(order) else None
    # The nearest node above or below in this column, else the nearest row that has any.
    beyond = [node for node in tree.nodes if (node.row - here.row) * step > 0]
    same = [node for node in beyond if node.column == here.column]
    nearest = min(same or beyond, key=lambda n: (abs(n.row - here.row), abs(n.column - here.column)), default=None)
    return nearest.id if nearest else None
