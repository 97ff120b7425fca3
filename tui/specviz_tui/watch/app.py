"""`specviz watch` in a terminal."""

from collections.abc import Sequence

from textual.app import App
from textual.screen import Screen

from specviz.engines.watch import ServerWatcher
from specviz.engines.watch.picture import WatchPicture
from specviz.view.words.palette import no_color
from specviz_tui.app import terminal_driver
from specviz_tui.watch.screen import WatchScreen


class WatchApp(App[None]):
    """The screen in an application of its own: no core and no library of recordings."""

    TITLE = "specviz watch"
    CSS_PATH = ["../specviz.tcss"]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, picture: WatchPicture | None, watchers: Sequence[ServerWatcher], every: float) -> None:
        super().__init__(driver_class=terminal_driver())
        self.no_color = no_color()
        self._screen_made = WatchScreen(picture, watchers, every)

    def get_default_screen(self) -> Screen[None]:
        return self._screen_made
