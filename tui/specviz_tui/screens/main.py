"""The screen of a run: one frame, bound to every widget; keys and messages become moves of the player.

One tick of the clock, at most 15 a second, applies every new event and paints at most one frame. A burst of keys is
answered by one frame too."""

import time
from typing import TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingsMap
from textual.containers import Container
from textual.widget import Widget
from textual.widgets import ContentSwitcher, Static

from specviz.errors import SpecvizError
from specviz.view import Frame
from specviz.view.frame.run_header import warning_text
from specviz_tui.actions.learning import LearningActions
from specviz_tui.common.actions import Actions, all_actions
from specviz_tui.common.collecting import set_aside
from specviz_tui.common.controller import TREE, RunController
from specviz_tui.common.feed import RunFeed
from specviz_tui.common.frame_widget import (
    KEEP,
    Asked,
    FrameWidget,
    KnobCommand,
    KnobStepped,
    KnobTyping,
    Left,
    Moved,
    NeverReady,
    NodePicked,
    OpenAsked,
    Pressed,
    RoomChanged,
    SeekAsked,
)
from specviz_tui.common.keymap import KNOB_KEYS, TREE_KEYS, Key, bindings
from specviz_tui.common.paint import painter_of
from specviz_tui.common.pane import PanelPane, all_panes, screen_keys
from specviz_tui.compare.screen import CompareActions
from specviz_tui.compare.two import TwoActions
from specviz_tui.find.actions import FindActions
from specviz_tui.find.find_line import FindLine
from specviz_tui.out.actions import OutActions
from specviz_tui.screens.closer import CloserActions
from specviz_tui.screens.judging import JudgingActions
from specviz_tui.screens.library import Library
from specviz_tui.screens.page import GuideScreen, error_page, help_page
from specviz_tui.screens.run_screen import BODY, RunScreen
from specviz_tui.widgets.judgement_line import JudgementLine
from specviz_tui.widgets.knob_bar import KnobPanel
from specviz_tui.widgets.lesson_line import LessonLine
from specviz_tui.widgets.message_line import MessageLine
from specviz_tui.widgets.status_line import KeyBar, NumberLine, StatusLine
from specviz_tui.widgets.talk_view import TalkView
from specviz_tui.widgets.text_strip import TextStrip
from specviz_tui.widgets.timeline import Sparkline, Transport
from specviz_tui.widgets.tree import TreeBox, TreeCanvas
from specviz_tui.widgets.why_panel import WhyPanel

ActionsT = TypeVar("ActionsT", bound=Actions)

TICK_S = 1 / 15
EVERY = 8  # ticks after which a live screen is painted without news: the size of a recording, what the core narrates
LEAST = (60, 18)
SETTLED = 8  # ticks after which what was read is set aside: the first picture comes first
TOLD_AT_ONCE = 2  # warnings of one tick; the others are counted


class MainScreen(FindActions, TwoActions, OutActions, CompareActions, JudgingActions, CloserActions):
    """Screen 1 of the design: text, tree, why, knobs, time."""

    HORIZONTAL_BREAKPOINTS = [(0, "-xs"), (80, "-s"), (100, "-m"), (120, "-l"), (160, "-xl")]
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-tall")]
    AUTO_FOCUS = "#tree"

    def __init__(self, feed: RunFeed, library: Library, at: str | None = None) -> None:
        super().__init__(feed, library)
        controller = RunController(self)
        self._groups = {kind: kind(controller) for kind in all_actions()}
        for group in self._groups.values():
            for name, action in group.actions():
                setattr(self, name, action)  # where the names in bindings are looked for
        others = [BindingsMap(group.BINDINGS) for group in self._groups.values()]
        self._bindings = BindingsMap.merge([self._bindings, BindingsMap(bindings(screen_keys())), *others])
        self._at = at
        self._later = ""  # a place to go to once all of a big recording is known
        self._ticks = self._settles = self._n_shown = 0
        self._n_told = 0  # warnings of the run

    def compose(self) -> ComposeResult:
        """Top to bottom; every widget gets the one frame."""
        yield StatusLine(id="status").data_bind(RunScreen.frame)
        yield JudgementLine(id="judgement").data_bind(RunScreen.frame)
        yield NumberLine(id="numbers").data_bind(RunScreen.frame)
        yield TextStrip(id="text").data_bind(RunScreen.frame)
        yield TalkView(id="talk")
        with ContentSwitcher(initial=BODY):
            with Container(id=BODY):
                yield TreeBox(id="tree-box").data_bind(RunScreen.frame)
                yield WhyPanel(id="why").data_bind(RunScreen.frame)
            for pane in all_panes():
                yield pane().data_bind(RunScreen.frame)
        yield LessonLine(id="lesson")
        yield KnobPanel(id="knobs").data_bind(RunScreen.frame)
        yield Sparkline(id="sparkline").data_bind(RunScreen.frame)
        yield Transport(id="transport").data_bind(RunScreen.frame)
        yield FindLine(id="find")
        yield MessageLine(id="message")
        yield KeyBar(id="keys")
        yield Static("", id="too-small", markup=False)

    def on_mount(self) -> None:
        """Show what there is at once, then look for more."""
        self.query_one(TextStrip).border_title = "Text"
        self.query_one(KeyBar).own = self.library.keys
        self.query_one(KnobPanel).border_title = "Knobs"
        self.query_one(TalkView).border_title = "Conversation"
        self.show(self.feed, self._at)
        self.set_interval(TICK_S, self.tick)
        self.app.theme_changed_signal.subscribe(self, lambda _theme: self.repaint_all())

    def show(self, feed: RunFeed, at: str | None = None) -> None:
        """Look at a run, from the beginning of its screen: what was pinned or painted of another one is gone."""
        self.feed, self.greeted, self._n_told = feed, False, 0
        self.talk_shown = True
        self.query_one(WhyPanel).pinned = False
        self.leave_find()
        for group in self._groups.values():
            group.restart()
        for pane in self.panes:
            pane.restart()
        feed.tick(time.monotonic())
        self._go_to_start(at)
        self._settles, self._n_shown = self._ticks + SETTLED, self._n_shown + 1
        self.repaint_all()

    def _go_to_start(self, at: str | None) -> None:
        """Where the command line says; a recording from its first round on."""
        player, filling = self.feed.player, self.feed.filling is not None
        self._later = ""
        if at and player.run.rounds:
            try:
                self.select(player.seek(at))
            except SpecvizError as error:
                if filling:
                    self._later = at
                    player.seek_index(0)
                else:
                    self.notify(str(error), severity="warning", markup=False)
        elif not (self.feed.has_core or player.playing) and (self.feed.source.ended or filling) and player.run.rounds:
            player.seek_index(0)

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
        if self._later and self.feed.filling is None:
            self._go_to_start(self._later)
            changed = True
        if self.feed.never_ready:
            self.post_message(NeverReady(self.feed))
            return
        for said in self.feed.take_notices():
            if said.severe:
                self.app.push_screen(error_page(said.title, said.message, self.feed.tail))
            else:
                self.notify(said.message, title=said.title, severity="warning", markup=False)
        self._tell_warnings()
        self.live_tick()
        self.find_tick()
        self._ticks += 1
        if self._ticks == self._settles:
            set_aside(tidy=self._n_shown > 1)
        waits = self.feed.live or self.feed.filling is not None
        reads = self.frame is not None and self.frame.reading is not None
        if changed or reads or self.frame is None or (waits and self._ticks % EVERY == 0):
            self.paint()
        self.offer_recording()

    def _tell_warnings(self) -> None:
        """What the core warned of since the last tick; of a recording it is no news, the first line counts it."""
        found = self.feed.player.run.warnings
        told, self._n_told = min(self._n_told, len(found)), len(found)
        for warning in found[told:][:TOLD_AT_ONCE] if self.feed.has_core else []:
            self.notify(warning_text(warning), title="The core warns", severity="warning", timeout=10, markup=False)
        if self.feed.has_core and len(found) - told > TOLD_AT_ONCE:
            self.notify(f"and {len(found) - told - TOLD_AT_ONCE} more: w lists them", severity="warning", markup=False)

    # Groups of actions -----------------------------------------------------------------------------------------------

    def group(self, kind: type[ActionsT]) -> ActionsT:
        """The group of a kind."""
        group = self._groups[kind]
        assert isinstance(group, kind), group
        return group

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A group may forbid what others do."""
        if not all(group.allows(action) for group in self._groups.values()):
            return False
        return super().check_action(action, parameters)

    def watch_frame(self, frame: Frame | None) -> None:
        if frame is not None:
            for group in self._groups.values():
                group.painted(frame)

    def acted(self, action: str) -> None:
        """An action was done, by whatever widget: `step(1)`."""
        for group in self._groups.values():
            group.acted(action)

    # Messages --------------------------------------------------------------------------------------------------------

    @on(NodePicked)
    def _picked(self, message: NodePicked) -> None:
        self.focus_main()
        self.select(message.node)

    @on(Moved)
    def _moved(self, message: Moved) -> None:
        self.move(message.direction)

    @on(Asked)
    def _asked(self, message: Asked) -> None:
        if message.index is not None:
            self.feed.player.seek_index(message.index)
        if message.tree:
            self.turn_to(TREE)
        if message.node is not KEEP:
            self.select(message.node)
        elif message.hold:
            self.select(self.feed.options.selected)
        self.paint_soon()

    @on(RoomChanged)
    def _resized(self) -> None:
        self.paint_soon()

    @on(SeekAsked)
    def _sought(self, message: SeekAsked) -> None:
        if not self.group(LearningActions).asked:
            self.go(self.feed.player.seek_index(message.index))

    @on(Pressed)
    async def _pressed(self, message: Pressed) -> None:
        await self.run_action(message.action)

    @on(Left)
    def _left(self) -> None:
        self.focus_main()

    @on(KnobStepped)
    def _stepped(self, message: KnobStepped) -> None:
        self.step_knob(message.name, message.step)

    @on(KnobTyping)
    def _typing(self, message: KnobTyping) -> None:
        self.type_knob(message.name)

    @on(KnobCommand)
    def _commanded(self, message: KnobCommand) -> None:
        self.knob_command(message.what, message.name)

    # Help ------------------------------------------------------------------------------------------------------------

    def action_help(self) -> None:
        self.app.push_screen(help_page(painter_of(self.app), self.size.width, self.shown, self.library.keys))

    def action_explain(self) -> None:
        at = self.focused
        name = at.EXPLAIN if isinstance(at, FrameWidget | PanelPane | TreeCanvas | WhyPanel) else ""
        self.app.push_screen(GuideScreen(name or "tree"))

    def action_palette(self) -> None:
        self.app.action_command_palette()

    def action_go_to(self, name: str) -> None:
        """Another screen of the same run: the tree or a panel."""
        self.turn_to(name)

    def action_open(self) -> None:
        self.post_message(OpenAsked())

    def action_back(self) -> None:
        """Close what is open; with nothing open a lesson is left."""
        pinned = self.query_one(WhyPanel).pinned
        held = (
            pinned
            or self.feed.options.selected is not None
            or any(pane.chosen != pane.chosen.clear_cursor() for pane in self.panes)
        )
        lesson = self.group(LearningActions)
        if (held and not lesson.asked) or not lesson.leave():
            super().action_back()

    async def do(self, key: Key) -> None:
        """What a key does, wherever the focus is: that of a panel after turning to it."""
        for widget, table in self._tables():
            if any(key.id == each.id for each in table):
                if isinstance(widget, PanelPane):
                    self.turn_to(str(widget.id))
                elif isinstance(widget, TreeCanvas):
                    self.turn_to(TREE)
                await widget.run_action(key.action)
                return
        await self.run_action(key.action)

    def _tables(self) -> list[tuple[Widget, tuple[Key, ...]]]:
        """Widgets with keys of their own."""
        panes: list[tuple[Widget, tuple[Key, ...]]] = [(pane, pane.KEYS) for pane in self.panes]
        return [(self.query_one(TreeCanvas), TREE_KEYS), (self.query_one(KnobPanel), KNOB_KEYS), *panes]

    async def action_quit(self) -> None:
        await self.app.action_quit()
