"""The frame around the tree: which round and phase in its title, the counts below, or why there is no tree."""

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.reactive import reactive
from textual.widgets import Static

from specviz.view.frame.frame import VALUE_MODES, Frame
from specviz_tui.common.paint import FAINT, STRONG, spread
from specviz_tui.panels import FrameWidget
from specviz_tui.widgets.tree.canvas import TreeCanvas

NOTHING_YET = "No round yet."


class TreeFoot(FrameWidget):
    """Counts on the left, the value shown beside the tokens on the right."""

    EXPLAIN = "tree"

    def part(self, frame: Frame) -> object:
        """Counts and value."""
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
        """Another reason to wait."""
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
