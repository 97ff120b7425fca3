"""A widget of lines: only those that are others than before are painted again, and nothing is laid out anew."""

from rich.segment import Segment
from textual import events
from textual.geometry import Region
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from specviz.view.frame.frame import Frame
from specviz_tui.common.frame_widget import NodePicked
from specviz_tui.common.paint import Painter, painter_of
from specviz_tui.common.titled import OneStyle
from specviz_tui.widgets.tree_line import Row, cut_to


class RowView(OneStyle, Widget):
    """Lines of a frame; a click on a node of them picks it."""

    frame: reactive[Frame | None] = reactive(None, repaint=False, init=False)

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: list[Row] = []

    @property
    def painter(self) -> Painter:
        return painter_of(self.app)

    def rows(self, frame: Frame, width: int, height: int) -> list[Row]:
        """The lines of a frame; at most `height`."""
        raise NotImplementedError

    def watch_frame(self, frame: Frame | None) -> None:
        self.put()

    def on_resize(self) -> None:
        self.put()
        self.refresh()

    def notify_style_update(self) -> None:
        """Another theme."""
        super().notify_style_update()
        self.forget_style()

    def put(self) -> None:
        """Show the frame, line by line where it is another."""
        width, height = self.size
        if self.frame is None or not width or not height:
            return
        old, self._rows = self._rows, self.rows(self.frame, width, height)[:height]
        for y in range(max(len(old), len(self._rows))):
            if y >= len(old) or y >= len(self._rows) or old[y].pieces != self._rows[y].pieces:
                self.refresh(Region(0, y, width, 1))

    def render_line(self, y: int) -> Strip:
        width, base = self.size.width, self.base_style
        if y >= len(self._rows):
            return Strip.blank(width, base)
        strip = Strip([Segment(text, base + style) for text, style in self._rows[y].pieces])
        return cut_to(strip, width, base)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or not 0 <= offset.y < len(self._rows):
            return
        node = next((n for x0, x1, n in self._rows[offset.y].spots if x0 <= offset.x < x1), None)
        if node is not None:
            self.post_message(NodePicked(node))
