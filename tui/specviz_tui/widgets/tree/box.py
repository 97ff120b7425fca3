"""The frame around the tree: which round and phase in its title, the counts below, or why there is no tree.

Where an arrow leads in the tree: a pure function over what is visible.
"""

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.reactive import reactive
from textual.widgets import Static

from specviz.view.frame.frame import Frame, TreeFrame, TreeNode
from specviz.view.words.palette import VALUE_MODES
from specviz_tui.common.frame_widget import FrameWidget
from specviz_tui.common.paint import FAINT, STRONG, spread
from specviz_tui.widgets.tree.canvas import TreeCanvas

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
        self.border_title = Text(_title(frame))


def _title(frame: Frame | None) -> str:
    if frame is None or not frame.round:
        return "Draft tree"
    query = f"query {frame.query} · " if frame.query else ""
    steps = f" {frame.step}/{frame.n_steps}" if frame.n_steps > 1 else ""
    return f"Draft tree · {query}round {frame.round} · {frame.phase_text}{steps}"


def neighbour(tree: TreeFrame, selected: int | None, direction: str, listed: bool) -> int | None:
    """The node in a direction; None when there is none. Without a selection: the root."""
    here = tree.node(selected) if selected is not None else None
    if here is None:
        return tree.nodes[0].id if tree.nodes else None
    if direction == "left":
        return here.parent if here.depth and tree.node(here.parent) else None
    if direction == "right":
        return _child(tree, here)
    step = -1 if direction == "up" else 1
    return _in_list(tree, here, step) if listed else _in_columns(tree, here, step)


def _child(tree: TreeFrame, here: TreeNode) -> int | None:
    """The child on the winning path, else the first."""
    children = [node for node in tree.nodes if node.parent == here.id and node.depth == here.depth + 1]
    best = [node for node in children if node.winning] or sorted(children, key=lambda node: node.row)
    return best[0].id if best else None


def _in_columns(tree: TreeFrame, here: TreeNode, step: int) -> int | None:
    """The nearest node above or below in this column, else the nearest row that has any."""
    beyond = [node for node in tree.nodes if (node.row - here.row) * step > 0]
    same = [node for node in beyond if node.column == here.column]
    nearest = min(same or beyond, key=lambda n: (abs(n.row - here.row), abs(n.column - here.column)), default=None)
    return nearest.id if nearest else None


def _in_list(tree: TreeFrame, here: TreeNode, step: int) -> int | None:
    order = [node.id for node in sorted(tree.nodes, key=lambda node: (node.row, node.column))]
    at = order.index(here.id) + step
    return order[at] if 0 <= at < len(order) else None
