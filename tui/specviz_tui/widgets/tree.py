"""The draft tree: its canvas, the box with title and counts around it, and where an arrow leads.

The view has fixed the places for the whole round, so nothing jumps while nodes appear, and has folded what does not fit
in the lines that the canvas has."""

from rich.segment import Segment
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Static

from specviz.view.frame.frame import Frame, TreeFrame, TreeViewport
from specviz.view.panels.glance.build import GlancePanel
from specviz.view.words.palette import VALUE_MODES, Phase
from specviz_tui.common.frame_widget import FrameWidget, Moved, NodePicked, RoomChanged
from specviz_tui.common.keymap import TREE_KEYS, bindings
from specviz_tui.common.paint import FAINT, STRONG, Painter, painter_of, spread
from specviz_tui.common.titled import OneStyle, Titled
from specviz_tui.widgets import tree_rows as rows
from specviz_tui.widgets.canvas_lines import CanvasLines, ruler
from specviz_tui.widgets.tree_columns import ColumnGrid, column_plan, looked_at
from specviz_tui.widgets.tree_line import cut_to
from specviz_tui.widgets.tree_rows import fits_below, judged
from specviz_tui.widgets.tree_side import TreeRuler, TreeSide


class TreeCanvas(OneStyle, ScrollView, can_focus=True, inherit_bindings=False):
    """`listed`: one node a line with depth as indent (narrow screens), else columns by depth. Only lines that are new
    are painted."""

    BINDINGS = bindings(TREE_KEYS)
    EXPLAIN = "tree"
    frame: reactive[Frame | None] = reactive(None, repaint=False, init=False)
    listed: reactive[bool] = reactive(False, init=False)

    def __init__(self, ruler: TreeRuler, id: str | None = None) -> None:
        super().__init__(id=id)
        self._ruler = ruler
        self.beside = False  # tables and curves stand beside the tree
        self._lines = CanvasLines()
        self._strips: dict[int, Strip] = {}
        self._around: tuple[object, int] = (None, 0)  # round, and the column around which the others shrink
        self._of: object = None  # round and room that were painted last
        self._begins = False  # another one than before is shown

    @property
    def painter(self) -> Painter:
        return painter_of(self.app)

    @property
    def n_lines(self) -> int:
        """Lines that nodes may take."""
        return max(0, self.scrollable_content_region.height)

    def watch_frame(self, old: Frame | None, new: Frame | None) -> None:
        """Lay out again when the tree changed."""
        if new is None:
            return
        if old is None or old.tree != new.tree or old.value_mode != new.value_mode:
            self.rebuild(new)

    def watch_listed(self) -> None:
        """The other form of the same tree."""
        self._strips.clear()
        self._ruler.display = not self.listed
        if self.frame is not None:
            self.rebuild(self.frame)

    def on_resize(self) -> None:
        self.watch_listed()
        self.post_message(RoomChanged())

    def notify_style_update(self) -> None:
        """Another theme: paint all lines again."""
        super().notify_style_update()
        self.forget_style()
        self._strips.clear()

    def rebuild(self, frame: Frame) -> None:
        """Cut the tree into lines, keep the cursor in sight."""
        width, height = self.scrollable_content_region.size
        here = (frame.query, frame.round, width, height)
        self._begins, self._of = self._begins or here != self._of, here
        old, self._lines = self._lines, self._cut(frame, width, height)
        size = Size(max(width, self._lines.widest), max(height, len(self._lines)))
        if size != self.virtual_size:
            self.virtual_size = size
        self._show(old)
        self._follow()

    def _cut(self, frame: Frame, width: int, height: int) -> CanvasLines:
        tree, painter = frame.tree, self.painter
        if not tree.nodes:
            return CanvasLines()
        if self.listed:
            return CanvasLines(rows.listed(tree, painter, width, height, bars=frame.value_mode.removeprefix("q")))
        grid = ColumnGrid(tree, painter, width, self._column(frame, width))
        table = judged(tree, painter, width, height - grid.n_rows - 1) if fits_below(tree, height, self.beside) else []
        self._ruler.lay(ruler(grid, width))
        return CanvasLines([], grid, table)

    def _column(self, frame: Frame, width: int) -> int:
        """The column around which the others shrink; it stays as long as the cursor is in a wide one."""
        wanted, (of, column) = looked_at(frame.tree), self._around
        here = (frame.query, frame.round)
        if of != here or not _still_wide(frame.tree, width, column, wanted):
            self._around = (here, wanted)
        return self._around[1]

    def _show(self, old: CanvasLines) -> None:
        """Paint the lines in sight that are others now."""
        top = self.scroll_offset.y
        seen = range(top, top + self.size.height)
        changed = [y for y in seen if not self._lines.same(old, y)]
        kept = {y: strip for y, strip in self._strips.items() if y in seen and y not in changed}
        self._strips = kept
        if len(changed) > len(seen) // 2:
            self.refresh()
        else:
            for y in changed:
                self.refresh_line(y)

    def _follow(self) -> None:
        """Scroll to the cursor where it is out of sight; to the root where the cursor is in sight from there."""
        y = self._lines.cursor
        if self.scroll_offset.y and (len(self._lines) <= self.n_lines or (self._begins and (y or 0) < self.n_lines)):
            self._strips.clear()
            self.scroll_to(y=0, animate=False, force=True)
        self._begins = False
        if y is None:
            return
        x0, x1 = self._lines.row(y).cursor or (0, 0)
        x, top = self.scroll_offset
        width, height = self.size
        if not (top <= y < top + height and x <= x0 and x1 <= x + width):
            self._strips.clear()
            self.scroll_to_region(Region(max(x0 - 2, 0), y, x1 - x0 + 4, 1), animate=False, force=True)

    def render_line(self, y: int) -> Strip:
        """One line of the canvas, from the cache."""
        x, top = self.scroll_offset
        width, base = self.size.width, self.base_style
        line = y + top
        if line >= len(self._lines):
            return Strip.blank(width, base)
        row = self._lines.row(line)
        if line not in self._strips:
            self._strips[line] = Strip([Segment(text, base + style) for text, style in row.pieces])
        strip = self._strips[line]
        if row.pinned:
            return cut_to(strip, self.scrollable_content_region.width, base).extend_cell_length(width, base)
        return strip.crop_extend(x, x + width, base)

    def node_at(self, x: int, y: int) -> int | None:
        """The node painted at a cell of the widget's content."""
        line = y + self.scroll_offset.y
        if not 0 <= line < len(self._lines):
            return None
        row = self._lines.row(line)
        at = x + (0 if row.pinned else self.scroll_offset.x)
        return next((node for x0, x1, node in row.spots if x0 <= at < x1), None)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        node = self.node_at(offset.x, offset.y) if offset is not None else None
        if node is not None:
            self.post_message(NodePicked(node))

    def action_move(self, direction: str) -> None:
        self.post_message(Moved(direction))


def _still_wide(tree: TreeFrame, width: int, column: int, wanted: int) -> bool:
    if column >= tree.n_columns or wanted >= tree.n_columns:
        return False
    plan = column_plan(tree, width, column)
    return plan.wide(wanted)


NOTHING_YET = "No round yet."
BESIDE = 106  # cells from which on tables and curves stand beside the tree
MAP_LINES = 6


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
            right = Text("v: ", style=FAINT).append(self.frame.value_mode, style=STRONG)  # the key, and what it chose
        return spread(left, right, self.size.width)


class TreeBox(Titled, Vertical):
    """Canvas, counts, and the text that stands there when no tree can be shown."""

    PANELS = (GlancePanel,)  # whose models stand beside the tree
    frame: reactive[Frame | None] = reactive(None, repaint=False, init=False)
    waiting: reactive[str] = reactive("")  # said while there is no frame at all

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._said = ""

    def compose(self) -> ComposeResult:
        """A class says which are seen."""
        above = TreeRuler(id="tree-ruler")
        with Horizontal(id="tree-parts"):
            with Vertical(id="tree-columns"):
                yield above
                yield TreeCanvas(above, id="tree").data_bind(TreeBox.frame)
            yield TreeSide(id="tree-side").data_bind(TreeBox.frame)
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
        if missing != self._said:
            self._said = missing
            self.set_class(bool(missing), "-missing")
            self.query_one("#missing", Static).update(missing)
        self.query_one(TreeCanvas).set_class(frame is not None and frame.phase == Phase.VERIFY, "-flash")
        title = "Draft tree"
        if frame is not None and frame.round:
            query = f"query {frame.query} · " if frame.query else ""
            steps = f" {frame.step}/{frame.n_steps}" if frame.n_steps > 1 else ""
            title = f"Recording {frame.state.meanwhile}" if frame.state.meanwhile else title
            title += f" · {query}round {frame.round} · {frame.phase_text}{steps}"
        self.entitle(title)

    @property
    def beside(self) -> bool:
        """Whether there is room for more than the tree."""
        return self.size.width >= BESIDE

    def on_resize(self) -> None:
        self.query_one(TreeSide).display = self.query_one(TreeCanvas).beside = self.beside

    @property
    def room(self) -> TreeViewport:
        """The lines that the canvas has for nodes, and those of the map."""
        canvas = self.query_one(TreeCanvas)
        return (
            TreeViewport(canvas.n_lines, canvas.listed, MAP_LINES if self.beside else 1)
            if canvas.n_lines
            else TreeViewport()
        )


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
