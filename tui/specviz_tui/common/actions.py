"""`Actions`: one concern of the screen of a run, with the keys that serve it.

A group is no widget and no screen: it is handed the `RunController` and nothing else. Its methods `action_NAME` are
what keys, palette and footer call by name. Groups are found where they lie, a module each in `specviz_tui.actions`.
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from textual.binding import BindingType

from specviz.view import Frame, Player
from specviz_tui.common.feed import RunFeed
from specviz_tui.common.frame_widget import ScreenMessage
from specviz_tui.common.keymap import Key

if TYPE_CHECKING:
    from specviz_tui.common.controller import RunController

HOME = "specviz_tui.actions"
PREFIX = "action_"


class Actions:
    """A group of actions. What the screen tells every group is told by the methods that do nothing here."""

    order: ClassVar[int] = 60  # of its keys in help and footer
    KEYS: ClassVar[tuple[Key, ...]] = ()
    BINDINGS: ClassVar[tuple[BindingType, ...]] = ()  # that help and palette do not name

    def __init__(self, controller: "RunController") -> None:
        self.controller = controller

    @property
    def feed(self) -> RunFeed:
        return self.controller.feed

    @property
    def player(self) -> Player:
        return self.controller.feed.player

    @property
    def frame(self) -> Frame | None:
        return self.controller.frame

    def actions(self) -> Iterator[tuple[str, Callable[..., Any]]]:
        """Every action with its name, `action_` before it."""
        for name in dir(type(self)):
            if name.startswith(PREFIX):
                yield name, getattr(self, name)

    def restart(self) -> None:
        """Another run is on screen."""

    def tick(self) -> None:
        """Some fifteen times a second, whether something came or not."""

    def heard(self, message: ScreenMessage) -> None:
        """A widget asks for something."""

    def paint(self, frame: Frame) -> None:
        """The screen is painted: show what this group knows and the frame, new or not, does not."""

    def painted(self, frame: Frame) -> None:
        """Another frame is on screen."""

    def retouched(self, frame: Frame) -> Frame:
        """The frame as it is to be painted."""
        return frame

    def acted(self, action: str) -> None:
        """An action of whatever widget was done: `step(1)`."""

    def allows(self, action: str) -> bool:
        """Whether an action, by its bare name, may be done now."""
        return True

    def leave(self) -> bool:
        """Escape: close what is open here. Whether anything was."""
        return False


GroupT = TypeVar("GroupT", bound=Actions)


def asks_core(do: Callable[[GroupT], None]) -> Callable[[GroupT], None]:
    """For an action that needs a core: where there is none, or it refuses, that is said."""

    @wraps(do)
    def action(group: GroupT) -> None:
        group.controller.ask_core(lambda: do(group))

    return action


@cache
def all_actions() -> tuple[type[Actions], ...]:
    """Every group, in the order of its keys."""
    groups = []
    for module in pkgutil.iter_modules(importlib.import_module(HOME).__path__):
        home = f"{HOME}.{module.name}"
        for group in vars(importlib.import_module(home)).values():
            if isinstance(group, type) and issubclass(group, Actions) and group.__module__ == home:
                groups.append(group)
    return tuple(sorted(groups, key=lambda group: group.order))
