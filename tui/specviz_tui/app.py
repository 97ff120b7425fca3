"""The application: a feed, its main screen, and what a terminal can do (colour, ASCII, themes, palette of commands)."""

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from textual import on, work
from textual.actions import ActionParseResult
from textual.app import App, SystemCommand
from textual.dom import DOMNode
from textual.driver import Driver
from textual.filter import LineFilter, Monochrome
from textual.screen import Screen
from textual.theme import Theme

from specviz.errors import SpecvizError
from specviz.sources.bundled import trace_name
from specviz.sources.model_names import ModelNames
from specviz.view.lessons import LessonScript
from specviz.view.words.palette import no_color
from specviz_tui.actions.learning import LearningActions
from specviz_tui.common.collecting import as_usual
from specviz_tui.common.feed import RunFeed
from specviz_tui.common.filters import AsciiOnly, Blanks, Legible, NoColour
from specviz_tui.common.frame_widget import LessonsAsked, NeverReady, OpenAsked, Ready, RecordingAsked
from specviz_tui.common.key_tables import key_tables
from specviz_tui.common.paint import sixteen_colours
from specviz_tui.common.pane import style_sheets
from specviz_tui.common.remapped import remapped
from specviz_tui.common.themes import keep_theme, kept_theme
from specviz_tui.screens.bring import BRING, BringScreen, Brought
from specviz_tui.screens.library import FETCH, LEARN, LESSON, Library, fetching, model_id
from specviz_tui.screens.main import MainScreen
from specviz_tui.screens.open import FetchScreen, OpenScreen
from specviz_tui.screens.page import GuideScreen, pages

_LOOK_MS = 1000  # between two looks, where a hang-up wakes nobody
_WATCH_EVERY_S = 2.0  # between two looks at a server
_LEAVE_S = 3.0  # to leave by the door


class SpecvizApp(App[int]):
    """One run on one screen; dialogs over it."""

    TITLE = "specviz"
    NOTIFICATION_TIMEOUT = 4
    CSS_PATH = ["specviz.tcss", *style_sheets()]

    def __init__(
        self,
        library: Library,
        feed: RunFeed | None = None,
        at: str | None = None,
        driver_class: type[Driver] | None = None,
    ) -> None:
        self._ascii, self._no_colour, self._legible, self._blanks = AsciiOnly(), NoColour(), Legible(), Blanks()
        self.library = library
        super().__init__(driver_class=driver_class)
        self.no_color = no_color()
        self.feed = feed or library.opening()
        self._before: RunFeed | None = None  # to go back to when the core on screen cannot load its models
        self._at, self._asks = at, feed is None
        if not library.animate:
            self.animation_level = "none"

    def get_default_screen(self) -> Screen[None]:
        return MainScreen(self.feed, self.library, self._at)

    def on_mount(self) -> None:
        """With nothing given, ask what to open."""
        self.set_keymap(dict(self.library.keys))
        wanted = self.library.theme or kept_theme()
        if wanted in self.available_themes:
            self.theme = wanted
        self._shown_theme = self.theme
        self.theme_changed_signal.subscribe(self, self._keep_theme)
        if self.library.learning.lesson:
            self.call_after_refresh(self._open, LESSON + self.library.learning.lesson)
        elif self._asks:
            self.ask_what_to_open()

    def _keep_theme(self, theme: Theme) -> None:
        """Another one than one came with."""
        if theme.name == self._shown_theme:
            return
        self._shown_theme = theme.name
        try:
            keep_theme(theme.name)
        except SpecvizError as error:
            self.notify(str(error), severity="warning", markup=False)

    def on_unmount(self) -> None:
        as_usual()
        self.feed.close()
        if self._before is not None:
            self._before.close()

    @on(OpenAsked)
    def ask_what_to_open(self) -> None:
        """The list of models, recordings and lessons."""
        self.push_screen(OpenScreen(self.library), self._open)

    @on(LessonsAsked)
    def ask_what_to_learn(self, message: LessonsAsked) -> None:
        """The same list, at its lessons; or the lesson that is named."""
        if message.lesson:
            self._open(LESSON + message.lesson)
        else:
            self.push_screen(OpenScreen(self.library, LEARN), self._open)

    @on(OpenScreen.Previewed)
    def preview(self, message: OpenScreen.Previewed) -> None:
        """Play a recording behind the list, unless something of one's own is there."""
        if not self.feed.has_core and self._asks and self.feed.name != trace_name(message.path):
            self._read_preview(message.path)

    @work(thread=True, exclusive=True, group="preview")
    def _read_preview(self, path: Path) -> None:
        with suppress(SpecvizError):
            feed = self.library.trace(path)
            self.call_from_thread(self._show_preview, feed)

    def _show_preview(self, feed: RunFeed) -> None:
        """Only while the list is open: what was opened meanwhile stays."""
        if isinstance(self.screen, OpenScreen) and not self.feed.has_core:
            feed.play_again_and_again()
            self._show(feed)
        else:
            self._let_go(feed)

    @on(RecordingAsked)
    def open_recording(self, message: RecordingAsked) -> None:
        self._open(message.path)

    def _open(self, choice: str | None) -> None:
        self._asks = False
        self.feed.play_again_and_again(False)
        if choice is None:
            return
        if choice.startswith(BRING):
            self._bring(choice.removeprefix(BRING))
            return
        if choice.startswith(FETCH):
            self._fetch(choice.removeprefix(FETCH))
            return
        try:
            feed = self.library.open(choice)
        except SpecvizError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        feed.talk.spoken = list(self.feed.talk.spoken)
        self._show(feed)
        if choice.startswith(LESSON):
            self._begin_lesson(self.library.lesson(choice))

    def _bring(self, path: str) -> None:
        """Read a file of another engine; without one, ask for it."""
        self.push_screen(BringScreen(path), self._brought)

    def _brought(self, brought: "Brought | None") -> None:
        """Rounds go on the stage; counts, of a server or a file, have a screen of their own."""
        if brought is None:
            self.ask_what_to_open()
            return
        # what counts servers brings numpy along, which opening a window has no need of
        from specviz.engines.watch import picture_of, read_history
        from specviz.engines.watch.history import is_history
        from specviz_tui.watch.screen import WatchScreen

        if not isinstance(brought, Path):
            self.push_screen(WatchScreen(brought.picture, [brought], _WATCH_EVERY_S))
        elif is_history(brought):
            self.push_screen(WatchScreen(picture_of(read_history(brought)), [], 0.0))
        else:
            self._open(str(brought))

    def _begin_lesson(self, script: LessonScript) -> None:
        learning = self._main.controller.group(LearningActions)
        learning.marks_file = self.library.learning.marks
        learning.begin_lesson(script, self.library.learning.teach)

    def _fetch(self, name: str) -> None:
        """Get a known model, then start its core."""
        self.push_screen(FetchScreen(name, fetching(name)), self._fetched)

    def _fetched(self, name: str | None) -> None:
        if name is None:
            self.ask_what_to_open()
        else:
            self._open(model_id(ModelNames.proposed(name, self.library.look())))

    def _show(self, feed: RunFeed) -> None:
        """Another feed on screen; the one before is let go of when this one turns out to be good."""
        main = self._main
        if self._before is not None:
            self._let_go(self.feed)
        else:
            self._before = self.feed
        self.feed = feed
        main.show(feed)
        if not feed.has_core:
            self.settled()

    @property
    def _main(self) -> MainScreen:
        main = self.screen_stack[0]
        assert isinstance(main, MainScreen), main
        return main

    @on(Ready)
    def settled(self) -> None:
        """What is on screen works: the feed before it goes."""
        before, self._before = self._before, None
        if before is not None:
            self._let_go(before)

    def _let_go(self, feed: RunFeed) -> None:
        self.run_worker(lambda: feed.close(), thread=True)  # a core needs its time to leave

    @on(NeverReady)
    def never_ready(self, message: NeverReady) -> None:
        """The core on screen ended before its models were loaded: back to what was there, or out, as one came."""
        if message.feed is not self.feed:
            return
        before, self._before = self._before, None
        if before is None:
            self.exit(return_code=2)  # the command line prints why
            return
        failed, self.feed = self.feed, before
        self._let_go(failed)
        before.talk.unsent = before.talk.unsent or failed.talk.unsent
        self._main.show(before)
        why = " ".join((failed.failed or "").split())
        self.notify(f"{failed.names.text} cannot be loaded: {why}", severity="error", timeout=30, markup=False)
        if not before.has_core:
            self.ask_what_to_open()

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Without colour no colour code is sent at all; in ASCII no cell is anything else."""
        filters = [f for f in super().get_line_filters() if not isinstance(f, Monochrome)]
        if self.no_color:
            filters.append(self._no_colour)
        elif not sixteen_colours(self):  # their tones are the terminal's own, nobody here knows them
            filters.append(self._legible)
        if self.library.ascii:
            return [*filters, self._ascii]
        return [*filters, self._blanks] if sixteen_colours(self) else filters

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """What can be done here, by name: keys of other screens too, which are turned to first; without a core none of
        its own."""
        if isinstance(screen, MainScreen):
            for table in key_tables():
                for key in remapped(table, self.library.keys):
                    if key.id != "palette" and (screen.feed.live or not key.live):
                        do = partial(screen.call_later, screen.do, key)
                        yield SystemCommand(key.help, f"{key.group} · key {key.caps}", do)
            for name, (title, _) in pages().items():
                yield SystemCommand(
                    f"explain: {title}", "a page of the guide", lambda name=name: self._explain(name, screen)
                )
        for command in super().get_system_commands(screen):  # the list is sorted, capitals before all else
            yield command._replace(title=command.title.lower())

    def _explain(self, name: str, screen: MainScreen) -> None:
        self.push_screen(GuideScreen(name, screen.frame.run.explained if screen.frame is not None else ""))

    async def run_action(
        self,
        action: "str | ActionParseResult",
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """A lesson on screen sees what was done."""
        handled = await super().run_action(action, default_namespace, namespaces)
        if handled and isinstance(action, str) and isinstance(self.screen_stack[0], MainScreen):
            self._main.acted(action.rpartition(".")[2])
        return handled


def leave_with_terminal(app: App[Any]) -> None:
    """End the program when its terminal has gone and no signal says so (under nohup, in a session of its own).

    Textual would read the end of the input again and again, with all of a core, and wait for ever to draw.
    """
    if sys.platform == "win32" or sys.__stdin__ is None:
        return
    watch = select.poll()
    watch.register(sys.__stdin__.fileno(), 0)  # nothing but hang-ups

    def wait() -> None:
        while not watch.poll(_LOOK_MS):
            pass
        app.call_later(app.exit)  # lets go of core and recording
        time.sleep(_LEAVE_S)
        os._exit(128 + signal.SIGHUP)  # it waits for the terminal: a core ends with its input

    threading.Thread(target=wait, daemon=True).start()


def terminal_driver() -> type[Driver] | None:
    """The driver that draws on the terminal whatever became of standard error; None: Textual's own choice is right.

    Textual draws on standard error. With `2>log` the screen would stay blank and the drawing fill the file; standard
    output is the terminal then (the command line has made sure), and standard error keeps its narration.
    """
    try:
        if sys.__stderr__ is not None and sys.__stderr__.isatty():
            return None
    except ValueError:  # closed
        pass
    if sys.platform == "win32":
        return None
    from textual.drivers.linux_driver import LinuxDriver

    class StdoutDriver(LinuxDriver):
        """Draws on standard output."""

        def __init__(self, app: App[object], **options: Any) -> None:
            super().__init__(app, **options)
            assert sys.__stdout__ is not None
            self._file = sys.__stdout__

    return StdoutDriver


def wants_animation() -> bool:
    """Whether steps are played one by one: not without colour, not where Textual's animations are off."""
    return not no_color() and os.environ.get("TEXTUAL_ANIMATIONS", "full") != "none"
