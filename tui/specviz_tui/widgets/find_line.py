"""One line while something is looked for: the filter, where it was found, and the keys that go on."""

from rich.text import Text
from textual.widgets import Static

from specviz.text import clip, running
from specviz_tui.common.paint import FAINT, STRONG

KEYS = ("n next · N before · / other · esc ends", "n N · esc ends")  # wide and narrow


class FindLine(Static):
    """Takes a line of the screen only while there is something in it."""

    DEFAULT_CSS = """
    FindLine { display: none; height: 1; width: 1fr; padding: 0 1; background: $boost; }
    FindLine.-on { display: block; }
    """

    def say(self, wanted: str, text: str) -> None:
        """`/ p/q < .3   r37 n14 · 2 of 3 in this round`; an empty filter ends it."""
        self.set_class(bool(wanted), "-on")
        keys = KEYS[self.app.size.width < 100]
        room = max(8, self.app.size.width - len(keys) - len(text) - 10)
        line = Text("/ ", style=STRONG).append(clip(running(wanted), room), style=STRONG)
        self.update(line.append(f"   {text}").append(f"   {keys}", style=FAINT))
