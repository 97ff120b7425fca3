"""`RunController`: the run on screen and the moment of it that is looked at, as groups of actions are handed it."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import ContentSwitcher

from specviz.errors import SpecvizError
from specviz.view import Frame, Run
from specviz.view.frame.frame import TreeViewport
from specviz.view.why.explain import node_record
from specviz_tui.common.actions import Actions, all_actions
from specviz_tui.common.feed import RunFeed
from specviz_tui.common.pane import PanelPane
from specviz_tui.screens.library import Library
from specviz_tui.widgets.tree import TreeBox, TreeCanvas
from specviz_tui.widgets.why_panel import WhyPanel

if TYPE_CHECKING:
    from specviz_tui.screens.main import MainScreen

TREE = "tree"  # the draft tree, where a panel would be named by its id
BODY = "body"  # what holds the tree
GONE = "the core is gone; what it recorded is kept; o starts another"
NOT_LIVE = "this is a recording: there is no core to ask; o opens a model to decode live with"

ActionsT = TypeVar("ActionsT", bound=Actions)
WidgetT = TypeVar("WidgetT", bound=Widget)
ResultT = TypeVar("ResultT")


class RunController:
    """One run, its groups of actions, and the screen's widgets by their kind."""

    def __init__(self, screen: "MainScreen", feed: RunFeed, library: Library) -> None:
        self.screen, self.feed, self.library = screen, feed, library
        self.shown = TREE  # or the id of the panel that stands in its place
        self.talk_shown = True  # the conversation, not the text of its newest run
        self._run: Run | None = None  # that of the last frame
        self._panes: list[PanelPane[Any, Any]] = []
        self._groups = {kind: kind(self) for kind in all_actions()}

    @property
    def groups(self) -> list[Actions]:
        return list(self._groups.values())

    def group(self, kind: type[ActionsT]) -> ActionsT:
        """The group of a kind."""
        group = self._groups[kind]
        assert isinstance(group, kind), group
        return group

    # What is looked at -----------------------------------------------------------------------------------------------

    @property
    def frame(self) -> Frame | None:
        """That is painted; None before the first one."""
        return self.screen.frame

    @property
    def pinned(self) -> bool:
        """Whether the why panel stays at its node."""
        return self.widget(WhyPanel).pinned

    @pinned.setter
    def pinned(self, pinned: bool) -> None:
        self.widget(WhyPanel).pinned = pinned

    @property
    def panes(self) -> list[PanelPane[Any, Any]]:
        """Every panel that can stand in place of the tree; they are there from the beginning to the end."""
        self._panes = self._panes or list(self.screen.query(PanelPane))
        return self._panes

    @property
    def pane(self) -> PanelPane[Any, Any] | None:
        """The one on screen; None: the tree is."""
        return next((pane for pane in self.panes if pane.id == self.shown), None)

    def recorded_node(self) -> dict[str, Any] | None:
        """What the trace has of the node that is looked at, as plain values. None, and a notice, without any."""
        frame = self.frame
        record = None
        if frame is not None and frame.why is not None:
            record = node_record(self.feed.player.builder.round_tree(frame.cursor.index), frame.why.node)
        if record is None:
            self.notify("this node has no record of its own")
        return record

    def take_options(self) -> None:
        """What was chosen in the panels, and which of them is on screen, for the next frame."""
        if self._run is not None and self.feed.player.run is not self._run:
            for pane in self.panes:
                pane.chosen = pane.chosen.clear_cursor()
        self._run = self.feed.player.run
        on, box = self.pane, self.widget(TreeBox)
        panels = (on.PANEL, *on.BESIDE) if on is not None else box.PANELS if box.beside else ()
        shown = tuple(panel.id for panel in panels)
        chosen = {pane.PANEL.id: pane.chosen for pane in self.panes}
        room = box.room if on is None else TreeViewport()
        self.feed.options = replace(self.feed.options, panels=chosen, shown=shown, room=room)

    # Moving ----------------------------------------------------------------------------------------------------------

    def go(self, moved: bool = True) -> None:
        """After a move of the player: the inspector follows the action again, unless it is pinned."""
        if moved and not self.pinned:
            self.feed.options = replace(self.feed.options, selected=None)
        for pane in self.panes if moved else []:
            pane.chosen = pane.chosen.on_seek()
        self.paint_soon()

    def select(self, node: int | None) -> None:
        """Look at a node; the view holds still for it."""
        if node is not None and (self.feed.player.playing or self.feed.running):
            self.feed.player.pause()
        self.change(selected=node)

    def change(self, **options: Any) -> None:
        """Show the frame by other options."""
        self.feed.options = replace(self.feed.options, **options)
        self.paint_soon()

    def turn_to(self, name: str) -> None:
        """Show the tree or a panel of the same run."""
        self.shown = self.screen.shown = name
        self.widget(ContentSwitcher).current = BODY if name == TREE else name
        self.mark(name != TREE, "-panel")
        self.focus_main()
        self.screen.paint()

    def focus_main(self) -> None:
        """To the tree, or what stands in its place."""
        (self.pane or self.widget(TreeCanvas)).focus()

    def paint_soon(self) -> None:
        """One frame for all that was changed."""
        self.screen.paint_soon()

    def ask_core(self, ask: Callable[[], Any]) -> None:
        """Do something that needs a core; say why where there is none."""
        if self.feed.live:
            self.attempt(ask)
        else:
            self.notify(GONE if self.feed.failed else NOT_LIVE, severity="warning")
        self.paint_soon()

    def attempt(self, do: Callable[[], ResultT]) -> ResultT | None:
        """Do something, or say why it cannot be done."""
        try:
            return do()
        except SpecvizError as error:
            self.notify(str(error), severity="warning")
            return None

    # The screen ------------------------------------------------------------------------------------------------------

    def allows(self, action: str) -> bool:
        """Whether every group lets an action, by its bare name, be done now."""
        return all(group.allows(action) for group in self.groups)

    def widget(self, kind: type[WidgetT]) -> WidgetT:
        return self.screen.query_one(kind)

    def mark(self, on: bool, *classes: str) -> None:
        """Put CSS classes on the screen, or take them off."""
        self.screen.set_class(on, *classes)

    def notify(
        self,
        text: str,
        title: str = "",
        severity: Literal["information", "warning", "error"] = "information",
        timeout: float | None = None,
    ) -> None:
        """A line that goes by itself after `timeout` seconds; tokens in it are no markup."""
        self.screen.notify(text, title=title, severity=severity, timeout=timeout, markup=False)

    def push(self, dialog: Screen[ResultT | None], then: Callable[[ResultT], Any] | None = None) -> None:
        """Open a screen over this one; `then` takes what it ends with, unless that is None."""
        self.screen.app.push_screen(dialog, lambda answer: then(answer) if then and answer is not None else None)

    def post(self, message: Message) -> None:
        """Ask something of the application."""
        self.screen.post_message(message)

    def later(self, call: Callable[..., Any], *values: Any) -> None:
        """Call it once what came before has been handled."""
        self.screen.call_later(call, *values)
