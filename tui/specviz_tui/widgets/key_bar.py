"""The footer: keys by importance, as many as fit. Made from the table of keys, so it cannot name one that does
nothing."""

from dataclasses import replace

from rich.text import Text
from textual import events
from textual.reactive import reactive
from textual.widget import Widget

from specviz_tui.common.keymap import PAIRS, Key
from specviz_tui.common.messages import Pressed
from specviz_tui.common.paint import FAINT, STRONG
from specviz_tui.common.pane import all_panes, screen_keys

NARROW = 100


class KeyBar(Widget):
    """One line; a click on an entry is the key."""

    chosen: reactive[str] = reactive("tree")
    moving: reactive[bool] = reactive(False)  # then space pauses
    ended: reactive[bool] = reactive(False)  # the end is on screen: playing begins again
    pace: reactive[str] = reactive("")  # what the key of the pace would bring; "" where there is no core

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._spots: list[tuple[int, int, str]] = []

    def render(self) -> Text:
        """`space play   , . step   [ ] round`."""
        panes = [pane for pane in all_panes() if pane.PANEL.id == self.chosen]
        own = {key.keys: key for pane in panes for key in pane.KEYS if key.short}
        narrow = self.size.width < NARROW
        ranked = sorted((self._now(key, narrow) for key in screen_keys() if key.rank), key=lambda key: key.rank)
        line, self._spots = Text(" ", no_wrap=True), []
        for key in (own.get(key.keys, key) for key in ranked if key.short and (key.narrow or not narrow)):
            entry = _entry(key, narrow)
            if line.cell_len + entry.cell_len > self.size.width:
                break
            action = key.action if key.keys not in own else f"focused.{key.action}"
            self._spots.append((line.cell_len, line.cell_len + entry.cell_len, action))
            line.append_text(entry).append("  " if narrow else "   ")
        return line

    def _now(self, key: Key, narrow: bool) -> Key:
        """The key with the word for what it does now."""
        if key.id == "pace":
            return replace(key, short=self.pace)
        if key.id == "play" and self.ended:
            return replace(key, short="again" if narrow else "again from round 1")
        if key.id == "play" and self.moving:
            return replace(key, short="pause")
        return key

    def on_click(self, event: events.Click) -> None:
        for x0, x1, action in self._spots:
            if x0 <= event.x < x1:
                self.post_message(Pressed(action))


def _entry(key: Key, narrow: bool) -> Text:
    caps = PAIRS.get(key.id, key.caps)
    return Text(f"{caps.split()[-1] if narrow else caps} ", style=STRONG).append(key.short, style=FAINT)
