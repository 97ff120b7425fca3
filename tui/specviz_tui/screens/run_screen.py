"""The screen of a run without its keys: the feed, the frame of the present moment, and which panel is on screen."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from textual.reactive import reactive
from textual.screen import Screen
from textual.widgets import ContentSwitcher

from specviz.errors import SpecvizError
from specviz.sources.offers import RecordingOffer
from specviz.view import Frame, Run
from specviz.view.frame.frame import TreeViewport
from specviz.view.why.explain import node_record
from specviz_tui.common.controller import TREE
from specviz_tui.common.feed import RunFeed
from specviz_tui.common.pane import PanelPane
from specviz_tui.widgets.message_line import MessageLine
from specviz_tui.widgets.status_line import KeyBar, KeysNow, NumberLine, StatusLine
from specviz_tui.widgets.talk_view import TalkView
from specviz_tui.widgets.timeline import Transport
from specviz_tui.widgets.tree import TreeBox, TreeCanvas
from specviz_tui.widgets.why_panel import WhyPanel

BODY = "body"  # what holds the tree
TO_TYPE = "m or a click here: write a message · p: other model, method, settings · N: new conversation"
TO_SAY = "write a message"
ROOMY = 13  # lines of tree and Why together from which on a narrow screen has both
HELD = "The core waits.\n\n] runs one round, H goes on."
GONE = "the core is gone; what it recorded is kept; o starts another"
NOT_LIVE = "this is a recording: there is no core to ask; o opens a model to decode live with"


class RunScreen(Screen[None]):
    """One frame, bound to every widget; a burst of keys is answered by one frame too."""

    frame: reactive[Frame | None] = reactive(None, repaint=False, init=False)

    def __init__(self, feed: RunFeed) -> None:
        super().__init__()
        self.feed = feed
        self.shown = TREE  # or the id of a panel
        self.talk_shown = True  # the conversation, not the text of its newest run
        self._run: Run | None = None  # that of the last frame
        self._panes: list[PanelPane[Any, Any]] = []
        self._offers: dict[str, RecordingOffer | None] = {}  # by the id of a panel that this run has nothing for
        self._due = False

    @property
    def panes(self) -> list[PanelPane[Any, Any]]:
        """Every panel that can stand in place of the tree; they are there from the beginning to the end."""
        self._panes = self._panes or list(self.query(PanelPane))
        return self._panes

    @property
    def pane(self) -> PanelPane[Any, Any] | None:
        return next((pane for pane in self.panes if pane.id == self.shown), None)

    def recorded_node(self) -> dict[str, Any] | None:
        """What the trace has of the node that is looked at, as plain values."""
        if self.frame is None or self.frame.why is None:
            return None
        return node_record(self.feed.player.builder.round_tree(self.frame.cursor.index), self.frame.why.node)

    # Painting --------------------------------------------------------------------------------------------------------

    def paint(self) -> None:
        """Make the frame of the present moment and hand it to the widgets."""
        self._due = False
        with self.app.batch_update():
            self._take_options()
            self.frame = self.feed.frame()
            self._paint_talk(self.frame)
            self.set_class(not self.feed.has_core, "-recorded")
            self.set_class(self.query_one(f"#{BODY}").size.height >= ROOMY, "-roomy")
            self.query_one(TreeBox).waiting = HELD if self.feed.held else ""
            self.query_one(StatusLine).recording = self.recording_text()
            self.query_one(KeyBar).now = now = self._keys_now(self.frame)
            self.query_one(Transport).playing = now.moving

    def _keys_now(self, frame: Frame) -> KeysNow:
        feed, pinned = self.feed, self.query_one(WhyPanel).pinned
        return KeysNow.of(
            frame,
            pinned=pinned,
            pace=feed.other_pace,
            live=feed.live,
            running=feed.running,
            held=feed.held,
            speaks=feed.speaks,
            writing=self.query_one(MessageLine).has_focus,
        )

    def on_descendant_focus(self) -> None:
        """The footer names the keys of what has the focus."""
        self.paint_soon()

    def _paint_talk(self, frame: Frame) -> None:
        """The conversation in place of the text, and the line in which one talks to whoever listens."""
        line, speaks = self.query_one(MessageLine), self.feed.speaks
        line.placeholder = TO_SAY if line.has_focus else TO_TYPE
        self.set_class(speaks, "-speaks")
        self.set_class((speaks or bool(self.feed.talk)) and self.talk_shown, "-talk")
        self.query_one(TalkView).show(self.feed.talk, frame)
        if unsent := self.feed.talk.unsent:
            self.feed.talk.unsent = ""
            line.offer(unsent)
        if line.has_focus and not speaks:
            self.focus_main()

    def _take_options(self) -> None:
        """What was chosen in the panels, and which of them is on screen."""
        if self._run is not None and self.feed.player.run is not self._run:
            for pane in self.panes:
                pane.chosen = pane.chosen.clear_cursor()
        self._run = self.feed.player.run
        on, box = self.pane, self.query_one(TreeBox)
        panels = (on.PANEL, *on.BESIDE) if on is not None else box.PANELS if box.beside else ()
        shown = tuple(panel.id for panel in panels)
        chosen = {pane.PANEL.id: pane.chosen for pane in self.panes}
        room = box.room if on is None else TreeViewport()
        self.feed.options = replace(self.feed.options, panels=chosen, shown=shown, room=room)

    def recording_text(self) -> str:
        """`rec run.sv.jsonl 1.8 MB`, or nothing."""
        path = self.feed.recording
        if path is None:
            return ""
        try:
            size = path.stat().st_size
        except OSError:
            return f"rec {path.name}"
        return f"rec {path.name} {size / 1e6:.1f} MB" if size >= 100_000 else f"rec {path.name} {size / 1e3:.0f} kB"

    def paint_soon(self) -> None:
        """One frame for all the keys of a burst."""
        if not self._due:
            self._due = True
            self.call_later(self.paint)

    def repaint_all(self) -> None:
        """Another theme: every widget paints its part again."""
        self.frame = None
        self.paint()

    # What is looked at -----------------------------------------------------------------------------------------------

    def focus_main(self) -> None:
        """To the tree, or what stands in its place."""
        (self.pane or self.query_one(TreeCanvas)).focus()

    def turn_to(self, name: str) -> None:
        """Show the tree or a panel of the same run."""
        self.shown = name
        self.query_one(ContentSwitcher).current = BODY if name == TREE else name
        self.set_class(name != TREE, "-panel")
        self.query_one(StatusLine).chosen = self.query_one(NumberLine).chosen = name
        self.query_one(KeyBar).chosen = name
        self.focus_main()
        self.paint()

    def select(self, node: int | None) -> None:
        """Look at a node; the view holds still for it."""
        if node is not None and (self.feed.player.playing or self.feed.running):
            self.feed.player.pause()
        self.feed.options = replace(self.feed.options, selected=node)
        self.paint_soon()

    def go(self, moved: bool) -> None:
        """After a move: the inspector follows the action again, unless it is pinned."""
        if moved and not self.query_one(WhyPanel).pinned:
            self.feed.options = replace(self.feed.options, selected=None)
        for pane in self.panes if moved else []:
            pane.chosen = pane.chosen.on_seek()
        self.paint_soon()

    def ask_core(self, ask: Callable[[], Any]) -> None:
        """Do something that needs a core; say why where there is none."""
        try:
            if not self.feed.live:
                raise SpecvizError(GONE if self.feed.failed else NOT_LIVE)
            ask()
        except SpecvizError as error:
            self.notify(str(error), severity="warning", markup=False)
        self.paint_soon()
