"""The application: a feed, its main screen, and what a terminal can do (colour, ASCII, themes, palette of commands)."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from textual.app import App, SystemCommand
from textual.filter import LineFilter, Monochrome
from textual.screen import Screen

from specviz.view.palette import no_color
from specviz.wire import Start
from specviz_tui.feed import RunFeed
from specviz_tui.filters import AsciiOnly, NoColour
from specviz_tui.keymap import SCREEN_KEYS
from specviz_tui.screens.main import MainScreen


@dataclass(frozen=True, slots=True)
class Setup:
    """How to show it. `first`: what the command line asked the core for, prompt or not."""

    ascii: bool = False
    at: str | None = None
    first: Start | None = None


class SpecvizApp(App[int]):
    """One run on one screen; dialogs over it."""

    TITLE = "specviz"
    CSS_PATH = "specviz.tcss"
    ENABLE_COMMAND_PALETTE = True

    def __init__(self, feed: RunFeed, setup: Setup | None = None) -> None:
        self._setup = setup or Setup()
        self._ascii = AsciiOnly()
        self._no_colour = NoColour()
        super().__init__()
        self.no_color = no_color()
        self.feed = feed
        if not feed.animate:
            self.animation_level = "none"
        if self._setup.ascii:
            self.add_class("-ascii")

    def get_default_screen(self) -> Screen[None]:
        """The main screen."""
        screen = MainScreen(self.feed, self._setup.at)
        screen.first_start = self._setup.first
        return screen

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Without colour no colour code is sent at all; in ASCII no cell is anything else."""
        filters = [f for f in super().get_line_filters() if not isinstance(f, Monochrome)]
        filters += [self._no_colour] if self.no_color else []
        return [*filters, self._ascii] if self._setup.ascii else filters

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The table of keys, by name."""
        if isinstance(screen, MainScreen):
            for key in SCREEN_KEYS:
                if key.id != "palette":
                    action = key.action
                    yield SystemCommand(key.help, f"key {key.caps}", lambda action=action: self._run(screen, action))
        yield from super().get_system_commands(screen)

    def _run(self, screen: Screen[object], action: str) -> None:
        screen.call_later(screen.run_action, action)


def wants_animation(ascii: bool = False) -> bool:
    """Whether steps are played one by one: not without colour, not where Textual's animations are off."""
    return not no_color() and os.environ.get("TEXTUAL_ANIMATIONS", "full") != "none"


def trace_name(path: Path | str) -> str:
    """The name of a trace as it is shown."""
    return Path(path).name.removesuffix(".gz").removesuffix(".jsonl").removesuffix(".sv")
