"""`RunController`: what actions see of the screen of a run, and how they move it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget

from specviz.view import Frame
from specviz_tui.common.feed import RunFeed
from specviz_tui.widgets.why_panel import WhyPanel

if TYPE_CHECKING:
    from specviz_tui.screens.run_screen import RunScreen

TREE = "tree"  # the draft tree, where a panel would be named by its id

WidgetT = TypeVar("WidgetT", bound=Widget)
ResultT = TypeVar("ResultT")


class RunController:
    """The run on screen, the moment of it that is looked at, and the screen's widgets by their kind."""

    def __init__(self, screen: "RunScreen") -> None:
        self._screen = screen

    @property
    def feed(self) -> RunFeed:
        return self._screen.feed

    @property
    def frame(self) -> Frame | None:
        """That is painted; None before the first one."""
        return self._screen.frame

    @property
    def shown(self) -> str:
        """`tree`, or the id of the panel that stands in its place."""
        return self._screen.shown

    @property
    def pinned(self) -> bool:
        """Whether the why panel stays at its node."""
        return self.widget(WhyPanel).pinned

    @pinned.setter
    def pinned(self, pinned: bool) -> None:
        self.widget(WhyPanel).pinned = pinned

    # Moving ----------------------------------------------------------------------------------------------------------

    def go(self, moved: bool) -> None:
        """After a move of the player (`moved`: whether it did): the inspector follows the action again."""
        self._screen.go(moved)

    def select(self, node: int | None) -> None:
        """Look at a node; the view holds still for it."""
        self._screen.select(node)

    def turn_to(self, name: str) -> None:
        """Show the tree or a panel of the same run."""
        self._screen.turn_to(name)

    def paint_soon(self) -> None:
        """One frame for all that was changed."""
        self._screen.paint_soon()

    # The screen ------------------------------------------------------------------------------------------------------

    def widget(self, kind: type[WidgetT]) -> WidgetT:
        return self._screen.query_one(kind)

    def mark(self, on: bool, *classes: str) -> None:
        """Put CSS classes on the screen, or take them off."""
        self._screen.set_class(on, *classes)

    def notify(
        self,
        text: str,
        title: str = "",
        severity: Literal["information", "warning", "error"] = "information",
        timeout: float | None = None,
    ) -> None:
        """A line that goes by itself after `timeout` seconds; tokens in it are no markup."""
        self._screen.notify(text, title=title, severity=severity, timeout=timeout, markup=False)

    def push(self, dialog: Screen[ResultT], then: Callable[[ResultT | None], Any] | None = None) -> None:
        """Open a screen over this one; `then` takes what it ends with."""
        self._screen.app.push_screen(dialog, then)

    def post(self, message: Message) -> None:
        """Ask something of the application."""
        self._screen.post_message(message)

    def later(self, call: Callable[..., Any], *values: Any) -> None:
        """Call it once what came before has been handled."""
        self._screen.call_later(call, *values)
