"""`specviz watch` in a terminal: the judged line, positions, curves, what changed; looked at again and again."""

from contextlib import suppress

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Static

from specviz.engines.watch import ServerWatcher, WatchPicture
from specviz.errors import SpecvizError
from specviz.text import running
from specviz.view.words.palette import no_color
from specviz_tui.app import terminal_driver
from specviz_tui.common.paint import FAINT, STRONG, next_theme, painter_of, spread
from specviz_tui.screens.page import PageScreen
from specviz_tui.watch import views

_HELP = (
    "Numbers are what the server counted since the first look. The interval at each position is Wilson's, that of "
    "tokens a round is the rounds' own. A change is told only where chance and the alikeness of neighbouring looks do "
    "not explain it.\n\nspace holds the screen while looking goes on · ↑ ↓ scroll · t next theme · q leaves. A history "
    "kept with -o opens again: specviz watch FILE."
)


class WatchScreen(Screen[None]):
    """One server, or a history of one (`watcher` None)."""

    DEFAULT_CSS = """
    WatchScreen #watch-head, WatchScreen #watch-keys { height: 1; width: 1fr; background: $panel; }
    WatchScreen VerticalScroll { height: 1fr; padding: 1 2 0 2; scrollbar-size: 1 1; }
    WatchScreen #watched { height: auto; width: 1fr; }
    """
    BINDINGS = [
        Binding("q,escape,ctrl+c", "leave", "leave", show=False, priority=True),
        Binding("space,p", "hold", "hold", show=False),
        Binding("t,T", "theme", "theme", show=False),
        Binding("question_mark,f1", "explain", "help", show=False),
    ]

    def __init__(self, picture: WatchPicture | None, watcher: ServerWatcher | None, every: float) -> None:
        super().__init__()
        self._picture, self._watcher, self._every = picture, watcher, every
        self._held = False

    def compose(self) -> ComposeResult:
        yield Static("", id="watch-head", markup=False)
        with VerticalScroll():
            yield Static("", id="watched", markup=False)
        yield Static("", id="watch-keys", markup=False)

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()
        self.app.theme_changed_signal.subscribe(self, lambda _theme: self._paint())
        self._paint()
        if self._watcher is not None:
            self.set_interval(self._every, self._look)

    def on_resize(self) -> None:
        self._paint()

    @work(thread=True, exclusive=True, group="look")
    def _look(self) -> None:
        if self._watcher is not None:
            with suppress(SpecvizError):  # it stands in the head
                self._watcher.look()
            self.app.call_from_thread(self._paint)

    def _paint(self) -> None:
        if self._watcher is not None and not self._held:
            self._picture = self._watcher.picture
        if self._picture is None:
            return
        cells = max(30, self.size.width - 5)
        lines = views.whole(self._picture, cells, painter_of(self.app))
        self.query_one("#watched", Static).update(Text("\n").join(lines))
        self.query_one("#watch-head", Static).update(self._head(self._picture))
        self.query_one("#watch-keys", Static).update(Text(" space hold · t theme · ? help · q leave", style=FAINT))

    def _head(self, picture: WatchPicture) -> Text:
        models = running(", ".join(picture.models))
        left = Text(f" {picture.engine}", style=STRONG).append(f"  {models}" if models else "", style=FAINT)
        if self._watcher is None:
            state = f"history of {picture.n_looks} looks"
        elif self._watcher.problem is not None:
            left = Text(f" ⚠ {running(self._watcher.problem)}", style=STRONG)
            state = "still looking"
        else:
            state = "held" if self._held else f"look {picture.n_looks}, every {self._every:g} s"
        return spread(left, Text(f"{state} "), max(20, self.size.width))

    def action_hold(self) -> None:
        self._held = not self._held
        self._paint()

    def action_theme(self) -> None:
        next_theme(self.app)

    def action_explain(self) -> None:
        self.app.push_screen(PageScreen("Watching a server", Text(_HELP)))

    def action_leave(self) -> None:
        self.app.exit()


class WatchApp(App[None]):
    """The screen in an application of its own: no core and no library of recordings."""

    TITLE = "specviz watch"
    CSS_PATH = ["../specviz.tcss"]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, picture: WatchPicture | None, watcher: ServerWatcher | None, every: float) -> None:
        super().__init__(driver_class=terminal_driver())
        self.no_color = no_color()
        self._screen_made = WatchScreen(picture, watcher, every)

    def get_default_screen(self) -> Screen[None]:
        return self._screen_made
