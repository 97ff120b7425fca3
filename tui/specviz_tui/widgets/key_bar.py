"""The footer: keys by importance, as many as fit. Made from the table of keys, so it cannot name one that does
nothing."""

from rich.text import Text
from textual import events
from textual.reactive import reactive
from textual.widget import Widget

from specviz_tui.keymap import PAIRS, PANE_KEYS, SCREEN_KEYS, Key
from specviz_tui.messages import Pressed
from specviz_tui.paint import FAINT, STRONG

NARROW = 100


class KeyBar(Widget):
    """One line; a click on an entry is the key."""

    chosen: reactive[str] = reactive("tree")
    moving: reactive[bool] = reactive(False)  # then space pauses

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._spots: list[tuple[int, int, str]] = []

    def render(self) -> Text:
        """`space play   , . step   [ ] round`."""
        own = {key.keys: key for key in PANE_KEYS.get(self.chosen, ()) if key.short}
        ranked = sorted((key for key in SCREEN_KEYS if key.rank), key=lambda key: key.rank)
        line, self._spots = Text(" ", no_wrap=True), []
        narrow = self.size.width < NARROW
        for key in (own.get(key.keys, key) for key in ranked if key.narrow or not narrow):
            entry = _entry(key, "pause" if key.id == "play" and self.moving else key.short, narrow)
            if line.cell_len + entry.cell_len > self.size.width:
                break
            action = key.action if key in SCREEN_KEYS else f"focused.{key.action}"
            self._spots.append((line.cell_len, line.cell_len + entry.cell_len, action))
            line.append_text(entry).append("  " if narrow else "   ")
        return line

    def on_click(self, event: events.Click) -> None:
        """The key under the pointer."""
        for x0, x1, action in self._spots:
            if x0 <= event.x < x1:
                self.post_message(Pressed(action))


def _entry(key: Key, word: str, narrow: bool) -> Text:
    caps = PAIRS.get(key.id, key.caps)
    return Text(f"{caps.split()[-1] if narrow else caps} ", style=STRONG).append(word, style=FAINT)
