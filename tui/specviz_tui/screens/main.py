"""The screen of a run: one frame, bound to every widget; keys and messages become moves of the player.

One tick of the clock, at most 15 a second, applies every new event and paints at most one frame. A burst of keys is
answered by one frame too."""

import time
from dataclasses import replace

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Container
from textual.reactive import reactive
from textual.screen import Screen
from textual.widgets import Static

from specviz.errors import SpecvizError
from specviz.view import Frame
from specviz.view.frame.warned import warning_text
from specviz_tui.common.feed import RunFeed
from specviz_tui.common.keymap import SCREEN_KEYS, SCREENS, bindings
from specviz_tui.common.messages import (
    BlockMoved,
    BlockPicked,
    CellMoved,
    CellPicked,
    ClockAsked,
    KnobCommand,
    KnobStepped,
    KnobTyping,
    Left,
    Moved,
    NodePicked,
    Pressed,
    RankAsked,
    Seek,
)
from specviz_tui.common.paint import painter_of
from specviz_tui.panels.exits import LayerActions, LayersPane
from specviz_tui.panels.lanes import LaneActions, LanesPane
from specviz_tui.panels.ranks import RankActions, RanksPane
from specviz_tui.panels.verification import ScanPane
from specviz_tui.screens.live import LiveActions
from specviz_tui.screens.navigation import LookingActions
from specviz_tui.screens.page import GuideScreen, error_page, help_page
from specviz_tui.widgets.key_bar import KeyBar
from specviz_tui.widgets.knob_bar import KnobPanel
from specviz_tui.widgets.status_line import NumberLine, StatusLine
from specviz_tui.widgets.text_strip import TextStrip
from specviz_tui.widgets.timeline import Sparkline, Transport
from specviz_tui.widgets.tree.box import TreeBox
from specviz_tui.widgets.tree.canvas import TreeCanvas
from specviz_tui.widgets.why_panel import WhyPanel

TICK_S = 1 / 15
EVERY = 8  # ticks after which a live screen is painted without news: the size of a recording, what the core narrates
LEAST = (60, 18)
TOLD_AT_ONCE = 2  # warnings of one tick; the others are counted
PANES = {"layers": "#layers", "lanes": "#lanes", "ranks": "#ranks", "hsd": "#hsd"}  # what stands in place of the tree
BUILT = {"layers": ("exits",), "lanes": ("lanes",), "ranks": ("ranks", "learning"), "hsd": ("verification",)}
MOVING = ("live", "replay", "lag")  # states in which space pauses
HELD = "The core waits.\n\n] runs one round, H goes on."


class MainScreen(LaneActions, LayerActions, RankActions, LiveActions, LookingActions, Screen[None]):
    """Screen 1 of the design: text, tree, why, knobs, time."""

    BINDINGS = bindings(SCREEN_KEYS)
    HORIZONTAL_BREAKPOINTS = [(0, "-xs"), (80, "-s"), (100, "-m"), (120, "-l"), (160, "-xl")]
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-tall")]
    AUTO_FOCUS = "#tree"

    frame: reactive[Frame | None] = reactive(None, repaint=False, init=False)

    def __init__(self, feed: RunFeed, at: str | None = None) -> None:
        super().__init__()
        self.feed, self._at = feed, at
        self.shown = "tree"  # which of SCREENS
        self._due = False
        self._ticks = 0
        self._n_told = 0  # warnings of the run

    def compose(self) -> ComposeResult:
        """Top to bottom; every widget gets the one frame."""
        yield StatusLine(id="status").data_bind(MainScreen.frame)
        yield NumberLine(id="numbers").data_bind(MainScreen.frame)
        yield TextStrip(id="text").data_bind(MainScreen.frame)
        with Container(id="body"):
            yield TreeBox(id="tree-box").data_bind(MainScreen.frame)
            yield WhyPanel(id="why").data_bind(MainScreen.frame)
        yield LayersPane(id="layers").data_bind(MainScreen.frame)
        yield LanesPane(id="lanes").data_bind(MainScreen.frame)
        yield RanksPane(id="ranks").data_bind(MainScreen.frame)
        yield ScanPane(id="hsd").data_bind(MainScreen.frame)
        yield KnobPanel(id="knobs").data_bind(MainScreen.frame)
        yield Sparkline(id="sparkline").data_bind(MainScreen.frame)
        yield Transport(id="transport").data_bind(MainScreen.frame)
        yield KeyBar(id="keys")
        yield Static("", id="too-small", markup=False)

    def on_mount(self) -> None:
        """Show what there is at once, then look for more."""
        self.query_one(TextStrip).border_title = "Text"
        self.query_one(KnobPanel).border_title = "Knobs"
        self.show(self.feed, self._at)
        self.set_interval(TICK_S, self.tick)
        self.app.theme_changed_signal.subscribe(self, lambda _theme: self.repaint_all())

    def show(self, feed: RunFeed, at: str | None = None) -> None:
        """Look at a run, from the beginning of its screen: what was pinned or painted of another one is gone."""
        self.feed, self.greeted, self._n_told = feed, False, 0
        self.query_one(WhyPanel).pinned = False
        feed.tick(time.monotonic())
        self._go_to_start(at)
        self.repaint_all()

    def _go_to_start(self, at: str | None) -> None:
        """Where the command line says; a recording from its first round on."""
        player = self.feed.player
        if at and player.run.rounds:
            try:
                self.select(player.seek(at))
            except SpecvizError as error:
                self.notify(str(error), severity="warning", markup=False)
        elif not self.feed.has_core and self.feed.source.ended and player.run.rounds:
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
        if self.feed.never_ready:
            self.app.exit(return_code=2)  # the command line prints why
            return
        for said in self.feed.take_notices():
            if said.severe:
                self.app.push_screen(error_page(said.title, said.message, self.feed.tail))
            else:
                self.notify(said.message, title=said.title, severity="warning", markup=False)
        self._tell_warnings()
        self.live_tick()
        self._ticks += 1
        if changed or self.frame is None or (self.feed.live and self._ticks % EVERY == 0):
            self.paint()

    def _tell_warnings(self) -> None:
        """What the core warned of since the last tick; of a recording it is no news, the first line counts it."""
        found = self.feed.player.run.warnings
        told, self._n_told = min(self._n_told, len(found)), len(found)
        for warning in found[told:][:TOLD_AT_ONCE] if self.feed.has_core else []:
            self.notify(warning_text(warning), title="The core warns", severity="warning", timeout=10, markup=False)
        if self.feed.has_core and len(found) - told > TOLD_AT_ONCE:
            self.notify(f"and {len(found) - told - TOLD_AT_ONCE} more: w lists them", severity="warning", markup=False)

    def paint(self) -> None:
        """Make the frame of the present moment and hand it to the widgets."""
        self._due = False
        with self.app.batch_update():
            self.feed.options = replace(self.feed.options, shown=BUILT.get(self.shown, ()))
            self.frame = self.feed.frame()
            keys = self.query_one(KeyBar)
            keys.ended, keys.pace = self.frame.state.name == "ended", self.feed.other_pace
            self.query_one(TreeBox).waiting = HELD if self.feed.held else ""
            self.query_one(StatusLine).recording = self.recording_text()
            moving = self.frame.state.name in MOVING
            self.query_one(Transport).playing = self.query_one(KeyBar).moving = moving

    def paint_soon(self) -> None:
        """One frame for all the keys of a burst."""
        if not self._due:
            self._due = True
            self.call_later(self.paint)

    def repaint_all(self) -> None:
        """Another theme: every widget paints its part again."""
        self.frame = None
        self.paint()

    # Messages --------------------------------------------------------------------------------------------------------

    @on(NodePicked)
    def _picked(self, message: NodePicked) -> None:
        self.focus_main()
        self.select(message.node)

    @on(Moved)
    def _moved(self, message: Moved) -> None:
        self.move(message.direction)

    @on(CellMoved)
    def _cell_moved(self, message: CellMoved) -> None:
        self.move_cell(message.direction)

    @on(CellPicked)
    def _cell_picked(self, message: CellPicked) -> None:
        self.focus_main()
        self.pick_cell(message.column, message.layer)

    @on(BlockMoved)
    def _block_moved(self, message: BlockMoved) -> None:
        self.move_block(message.direction)

    @on(BlockPicked)
    def _block_picked(self, message: BlockPicked) -> None:
        self.focus_main()
        self.pick_block(message.number)

    @on(ClockAsked)
    def _clock_asked(self) -> None:
        self.switch_clock()

    @on(RankAsked)
    def _rank_asked(self, message: RankAsked) -> None:
        self.do_on_ranks(message)

    @on(Seek)
    def _sought(self, message: Seek) -> None:
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
        """All keys."""
        self.app.push_screen(help_page(painter_of(self.app), self.size.width))

    def action_explain(self) -> None:
        """The page of the focused panel."""
        name = getattr(self.focused, "EXPLAIN", "") if self.focused is not None else ""
        self.app.push_screen(GuideScreen(name or "tree"))

    def action_palette(self) -> None:
        """Every action by name."""
        self.app.action_command_palette()

    def focus_main(self) -> None:
        """To the tree, or what stands in its place."""
        self.query_one(PANES.get(self.shown, "#tree")).focus()

    def action_tree(self) -> None:
        """Screen 1: the draft tree."""
        self.choose("tree")

    def action_layers(self) -> None:
        """Screen 2: early exits."""
        self.choose("layers")

    def action_lanes(self) -> None:
        """Screen 3: lanes over time."""
        self.choose("lanes")

    def action_ranks(self) -> None:
        """Screen 4: ranks, widths and what was learnt."""
        self.choose("ranks")

    def action_hsd(self) -> None:
        """Screen 5: the verdict on the draft, scanned backward."""
        self.choose("hsd")

    def choose(self, name: str) -> None:
        """Show another screen of the same run."""
        self.shown = name
        for _, _, other in SCREENS:
            self.set_class(other == name, f"-{other}")
        self.query_one(StatusLine).chosen = self.query_one(NumberLine).chosen = name
        self.query_one(KeyBar).chosen = name
        self.focus_main()
        self.paint()

    def action_open(self) -> None:
        """Another trace, or the core."""
        self.app.ask_what_to_open()  # type: ignore[attr-defined]

    async def action_quit(self) -> None:
        """Leave."""
        await self.app.action_quit()
