"""The base of all widgets: one frame comes in, and only a change of the widget's own part repaints it."""

from typing import Any, ClassVar

from textual import events
from textual.reactive import reactive
from textual.widget import Widget

from specviz.view.frame.frame import Frame
from specviz_tui.common.messages import Pressed
from specviz_tui.common.paint import Painter, painter_of


class FrameWidget(Widget):
    """Takes frames through `frame`, which the screen binds to its own."""

    frame: reactive[Frame | None] = reactive(None, repaint=False, init=False)
    EXPLAIN: ClassVar[str] = ""  # the title of its page in the guide

    @property
    def painter(self) -> Painter:
        """The painter for the present theme."""
        return painter_of(self.app)

    def part(self, frame: Frame) -> Any:
        """What of a frame this widget shows; repainted only when it changes."""
        return frame

    def watch_frame(self, old: Frame | None, new: Frame | None) -> None:
        """Repaint when the own part changed."""
        if old is None or new is None or self.part(old) != self.part(new):
            self.show(new)

    def show(self, frame: Frame | None) -> None:
        """Paint a frame whose part is new."""
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """A word may be a key as well: it carries the action in its style."""
        action = event.style.meta.get("action")
        if action is not None:
            self.post_message(Pressed(action))
