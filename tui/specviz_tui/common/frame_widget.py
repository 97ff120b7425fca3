"""The base of all widgets, and what they tell the screen: one frame comes in, only a change of the widget's own part
repaints it, and a widget never acts on the run itself."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from rich.text import Text
from textual import events
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from specviz.judge.finding import Finding
from specviz.view.frame.frame import Frame
from specviz.view.panels import AnyPanel
from specviz_tui.common.paint import Painter, painter_of


class ScreenMessage(Message):
    """What the screen hands on to its groups of actions."""


@dataclass
class NodePicked(ScreenMessage):
    """A node of the tree, or a token of the text, was clicked."""

    node: int


@dataclass
class Moved(ScreenMessage):
    """An arrow in the tree: left, right, up, down."""

    direction: str


class Keep(Enum):
    """Stands for what is to stay as it is."""

    KEEP = 0


KEEP = Keep.KEEP


@dataclass
class Asked(ScreenMessage):
    """What a panel wants shown: another round (`index` over the run), the draft tree in its place, another node.

    `hold`: the view holds still, as it does for a node.
    """

    node: int | Keep | None = KEEP
    index: int | None = None
    tree: bool = False
    hold: bool = False


@dataclass
class EvidenceAsked(ScreenMessage):
    """A round that shows a finding; `place` counts through its evidence, round and round."""

    finding: Finding
    place: int = 0


@dataclass
class SeekAsked(ScreenMessage):
    """The round with this index over the whole run (click or drag on the time line)."""

    index: int


@dataclass
class Pressed(Message):
    """A button of the transport line; `action` is an action of the screen."""

    action: str


@dataclass
class KnobStepped(ScreenMessage):
    """An arrow on a knob: up or down from the value it is on its way to."""

    name: str
    step: int


@dataclass
class KnobCommand(ScreenMessage):
    """`apply`, `undo`, `sets` or `reset` (of `name`)."""

    what: str
    name: str | None = None


@dataclass
class KnobTyping(ScreenMessage):
    """The value of a knob is to be typed."""

    name: str


@dataclass
class OpenAsked(Message):
    """Another trace, or a core, is to be opened."""


@dataclass
class LessonsAsked(Message):
    """The list of lessons, or the one that is named."""

    lesson: str = ""  # its id


@dataclass
class OfferTaken(ScreenMessage):
    """The recording that a panel without anything to show offers is to be opened."""


@dataclass
class RoomChanged(ScreenMessage):
    """The tree has more lines than before, or fewer."""


@dataclass
class RecordingAsked(Message):
    """A recording is to be opened; the screen stays the one that is shown."""

    path: str


@dataclass
class Ready(Message):
    """The core on screen has loaded its models."""


@dataclass
class NeverReady(Message):
    """A core ended before its models were loaded; it may have been told of already. `feed`: whose it was."""

    feed: object


@dataclass
class Left(ScreenMessage):
    """Focus goes back to the tree."""


class FrameWidget(Widget):
    """Takes frames through `frame`, which the screen binds to its own."""

    frame: reactive[Frame | None] = reactive(None, repaint=False, init=False)
    auto_links = False  # no text here has any, and looking for them takes time at every painting
    EXPLAIN: ClassVar[str] = ""  # the title of its page in the guide

    @property
    def painter(self) -> Painter:
        return painter_of(self.app)

    def part(self, frame: Frame) -> Any:
        """What of a frame this widget shows; repainted only when it changes."""
        return frame

    def watch_frame(self, old: Frame | None, new: Frame | None) -> None:
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


class PanelBox(FrameWidget):
    """A part of a panel as text in a box with a title: `paint(model, painter, cells)`; nothing without a model."""

    def __init__(
        self, panel: AnyPanel, paint: Callable[[Any, Painter, int], Text], title: Text | str = "", id: str | None = None
    ) -> None:
        super().__init__(id=id)
        self._panel, self._paint, self._title = panel, paint, title

    def on_mount(self) -> None:
        self.border_title = self._title

    def part(self, frame: Frame) -> Any:
        return self._panel.of(frame)

    def show(self, frame: Frame | None) -> None:
        self.refresh(layout=True)

    def render(self) -> Text:
        model = self._panel.of(self.frame)
        return Text("") if model is None else self._paint(model, self.painter, max(20, self.content_size.width or 36))
