"""`Actions`: one concern of the screen of a run, with the keys that serve it.

A group is no widget and no screen: it is handed the `RunController` and nothing else. Its methods `action_NAME` are
what keys, palette and footer call by name. Groups are found where they lie, a module each in `specviz_tui.actions`.
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, ClassVar

from textual.binding import BindingType

from specviz.view import Frame, Player
from specviz_tui.common.controller import RunController
from specviz_tui.common.feed import RunFeed

HOME = "specviz_tui.actions"
PREFIX = "action_"


class Actions:
    """A group of actions. What the screen tells every group is told by the methods that do nothing here."""

    BINDINGS: ClassVar[tuple[BindingType, ...]] = ()  # that help and palette do not name

    def __init__(self, controller: RunController) -> None:
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

    def painted(self, frame: Frame) -> None:
        """There is a new frame."""

    def acted(self, action: str) -> None:
        """An action of whatever widget was done: `step(1)`."""

    def allows(self, action: str) -> bool:
        """Whether an action, by its bare name, may be done now."""
        return True

    def leave(self) -> bool:
        """Escape: close what is open here. Whether anything was."""
        return False


@cache
def all_actions() -> tuple[type[Actions], ...]:
    """Every group."""
    groups = []
    for module in pkgutil.iter_modules(importlib.import_module(HOME).__path__):
        home = f"{HOME}.{module.name}"
        for group in vars(importlib.import_module(home)).values():
            if isinstance(group, type) and issubclass(group, Actions) and group.__module__ == home:
                groups.append(group)
    return tuple(groups)
