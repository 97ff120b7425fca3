"""The screen of a run: one frame, bound to every widget. What keys and widgets ask for is done by groups of actions.

One tick of the clock, at most 15 a second, applies every new event and paints at most one frame. A burst of keys is
answered by one frame too."""

import time

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingsMap
from textual.containers import Container
from textual.reactive import reactive
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import ContentSwitcher, Static

from specviz.view import Frame
from specviz_tui.actions.seeking import SeekActions
from specviz_tui.common.collecting import set_aside
from specviz_tui.common.controller import BODY, TREE, RunController
from specviz_tui.common.feed import RunFeed
from specviz_tui.common.frame_widget import NeverReady, Pressed, ScreenMessage
from specviz_tui.common.key_tables import screen_keys
from specviz_tui.common.keymap import KNOB_KEYS, TREE_KEYS, Key, bindings
from specviz_tui.common.pane import PanelPane, all_panes
from specviz_tui.screens.library import Library
from specviz_tui.widgets.find_line import FindLine
from specviz_tui.widgets.judgement_line import JudgementLine
from specviz_tui.widgets.knob_bar import KnobPanel
from specviz_tui.widgets.lesson_line import LessonLine
from specviz_tui.widgets.message_line import MessageLine
from specviz_tui.widgets.status_line import KeyBar, KeysNow, NumberLine, StatusLine
from specviz_tui.widgets.talk_view import TalkView
from specviz_tui.widgets.text_strip import TextStrip
from specviz_tui.widgets.timeline import Sparkline, Transport
from specviz_tui.widgets.tree import TreeBox, TreeCanvas
from specviz_tui.widgets.why_panel import WhyPanel

TICK_S = 1 / 15
EVERY = 8  # ticks after which a live screen is painted without news: the size of a recording, what the core narrates
LEAST = (60, 18)
SETTLED = 8  # ticks after which what was read is set aside: the first picture comes first
ROOMY = 13  # lines of tree and Why together from which on a narrow screen has both


class MainScreen(Screen[None]):
    """Text, tree or a panel, why, knobs, time."""

    HORIZONTAL_BREAKPOINTS = [(0, "-xs"), (80, "-s"), (100, "-m"), (120, "-l"), (160, "-xl")]
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-tall")]
    AUTO_FOCUS = "#tree"
    frame: reactive[Frame | None] = reactive(None, repaint=False, init=False)
    shown: reactive[str] = reactive(TREE, repaint=False, init=False)  # or the id of a panel

    def __init__(self, feed: RunFeed, library: Library, at: str | None = None) -> None:
        super().__init__()
        self.controller = RunController(self, feed, library)
        tables = [bindings(screen_keys())]
        for group in self.controller.groups:
            tables.append([*group.BINDINGS])
            for name, action in group.actions():
                setattr(self, name, action)  # where the names in bindings are looked for
        self._bindings = BindingsMap.merge([self._bindings, *map(BindingsMap, tables)])
        self._at = at
        self._ticks = self._settles = self._n_shown = 0
        self._due = False

    @property
    def feed(self) -> RunFeed:
        return self.controller.feed

    def compose(self) -> ComposeResult:
        """Top to bottom; every widget gets the one frame."""
        frame, shown = MainScreen.frame, MainScreen.shown
        yield StatusLine(id="status").data_bind(frame, chosen=shown)
        yield JudgementLine(id="judgement").data_bind(frame)
        yield NumberLine(id="numbers").data_bind(frame, chosen=shown)
        yield TextStrip(id="text").data_bind(frame)
        yield TalkView(id="talk")
        with ContentSwitcher(initial=BODY):
            with Container(id=BODY):
                yield TreeBox(id="tree-box").data_bind(frame)
                yield WhyPanel(id="why").data_bind(frame)
            for pane in all_panes():
                yield pane().data_bind(frame)
        yield LessonLine(id="lesson")
        yield KnobPanel(id="knobs").data_bind(frame)
        yield Sparkline(id="sparkline").data_bind(frame)
        yield Transport(id="transport").data_bind(frame)
        yield FindLine(id="find")
        yield MessageLine(id="message")
        yield KeyBar(id="keys").data_bind(chosen=shown)
        yield Static("", id="too-small", markup=False)

    def on_mount(self) -> None:
        """Show what there is at once, then look for more."""
        self.query_one(TextStrip).border_title = "Text"
        self.query_one(KeyBar).own = self.controller.library.keys
        self.query_one(KnobPanel).border_title = "Knobs"
        self.query_one(TalkView).border_title = "Conversation"
        self.show(self.feed, self._at)
        self.set_interval(TICK_S, self.tick)
        self.app.theme_changed_signal.subscribe(self, lambda _theme: self.repaint_all())

    def show(self, feed: RunFeed, at: str | None = None) -> None:
        """Look at a run, from the beginning of its screen: what was pinned or painted of another one is gone."""
        self.controller.feed = feed
        self.controller.pinned = False
        for group in self.controller.groups:
            group.restart()
        for pane in self.controller.panes:
            pane.restart()
        feed.tick(time.monotonic())
        self.controller.group(SeekActions).begin(at)
        self._settles, self._n_shown = self._ticks + SETTLED, self._n_shown + 1
        self.repaint_all()

    def on_resize(self, event: events.Resize) -> None:
        """Below the least size there is only a message with the size needed."""
        width, height = event.size
        small = width < LEAST[0] or height < LEAST[1]
        self.set_class(small, "-tiny")
        wanted = f"specviz needs at least {LEAST[0]}×{LEAST[1]} cells;\nthis terminal has {width}×{height}.\n\nq quits"
        self.query_one("#too-small", Static).update(wanted)
        self.query_one(TreeCanvas).listed = width < 100

    # Painting --------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Apply what came, move on, paint once."""
        changed = self.feed.tick(time.monotonic())
        if self.feed.never_ready:
            self.post_message(NeverReady(self.feed))
            return
        for group in self.controller.groups:
            group.tick()
        self._ticks += 1
        if self._ticks == self._settles:
            set_aside(tidy=self._n_shown > 1)
        waits = self.feed.live or self.feed.filling is not None
        reads = self.frame is not None and self.frame.reading is not None
        if changed or reads or self.frame is None or (waits and self._ticks % EVERY == 0):
            self.paint()

    def paint(self) -> None:
        """Make the frame of the present moment and hand it to the widgets."""
        self._due = False
        with self.app.batch_update():
            self.controller.take_options()
            frame = self.feed.frame()
            for group in self.controller.groups:
                frame = group.retouched(frame)
            self.frame = frame
            for group in self.controller.groups:
                group.paint(frame)
            self.set_class(self.query_one(f"#{BODY}").size.height >= ROOMY, "-roomy")
            writing = self.query_one(MessageLine).has_focus
            on_knobs = self.query_one(KnobPanel).has_focus
            now = KeysNow.of(frame, self.feed, pinned=self.controller.pinned, writing=writing, on_knobs=on_knobs)
            self.query_one(KeyBar).now, self.query_one(Transport).playing = now, now.moving

    def watch_frame(self, frame: Frame | None) -> None:
        """Groups may have waited for it."""
        if frame is not None:
            for group in self.controller.groups:
                group.painted(frame)

    def paint_soon(self) -> None:
        """One frame for all the keys of a burst."""
        if not self._due:
            self._due = True
            self.call_later(self.paint)

    def repaint_all(self) -> None:
        """Another theme: every widget paints its part again."""
        self.frame = None
        self.paint()

    def on_descendant_focus(self) -> None:
        """The footer names the keys of what has the focus."""
        self.paint_soon()

    # Actions ---------------------------------------------------------------------------------------------------------

    @on(ScreenMessage)
    def _heard(self, message: ScreenMessage) -> None:
        for group in self.controller.groups:
            group.heard(message)

    @on(Pressed)
    async def _pressed(self, message: Pressed) -> None:
        await self.run_action(message.action)

    def acted(self, action: str) -> None:
        """An action was done, by whatever widget: `step(1)`."""
        for group in self.controller.groups:
            group.acted(action)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A group may forbid what others do."""
        return self.controller.allows(action) and super().check_action(action, parameters)

    async def do(self, key: Key) -> None:
        """What a key does, wherever the focus is: that of a panel after turning to it."""
        tables: list[tuple[Widget, tuple[Key, ...]]] = [(pane, pane.KEYS) for pane in self.controller.panes]
        tables += [(self.query_one(TreeCanvas), TREE_KEYS), (self.query_one(KnobPanel), KNOB_KEYS)]
        at: Widget = next((widget for widget, keys in tables if any(k.id == key.id for k in keys)), self)
        if isinstance(at, PanelPane | TreeCanvas):
            self.controller.turn_to(str(at.id))
        await at.run_action(key.action)
