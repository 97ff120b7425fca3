"""Pages to read over the screen: keys, a panel explained, an error. Esc, q or the key that opened it closes it."""

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from specviz.view import palette
from specviz_tui.keymap import GROUPS, KNOB_KEYS, SCREEN_KEYS, TREE_KEYS, Key
from specviz_tui.paint import FAINT, STRONG, Painter


class PageScreen(ModalScreen[None]):
    """A titled, scrolling page."""

    BINDINGS = [
        Binding("escape,q,question_mark,f1,enter", "close", "close", show=False),
        Binding("j", "scroll(1)", "down", show=False),
        Binding("k", "scroll(-1)", "up", show=False),
    ]

    def __init__(self, title: str, body: Text | Table, kind: str = "page") -> None:
        super().__init__()
        self._title, self._body, self._kind = title, body, kind

    def compose(self) -> ComposeResult:
        """One scrolling text in a frame."""
        with VerticalScroll(classes=f"page -{self._kind}") as box:
            box.border_title = Text(self._title).markup
            box.border_subtitle = "esc closes"
            yield Static(self._body)

    def action_close(self) -> None:
        """Back to the run."""
        self.dismiss(None)

    def action_scroll(self, lines: int) -> None:
        """Scroll by a line."""
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)


def help_page(painter: Painter) -> PageScreen:
    """All keys by group, and what the glyphs mean."""
    table = Table.grid(padding=(0, 3, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    every = (*SCREEN_KEYS, *TREE_KEYS, *KNOB_KEYS)
    for group in GROUPS:
        table.add_row(Text(group, style="bold underline"))
        for key in every:
            if key.group == group:
                table.add_row(_caps(key), key.help)
        table.add_row()
    table.add_row(Text("Glyphs", style="bold underline"))
    for mark, style in palette.STYLES.items():
        if style.glyph.strip():
            table.add_row(Text(f" {style.glyph}", style=painter.mark(mark)), style.word)
    return PageScreen("Keys", table)


def _caps(key: Key) -> Text:
    where = " (knobs)" if key in KNOB_KEYS else ""
    return Text(f" {key.caps}", style=STRONG).append(where, style=FAINT)


def error_page(title: str, message: str, tail: list[str]) -> PageScreen:
    """What went wrong, in words, and the last lines the core said."""
    body = Text(message)
    if tail:
        body.append("\n\nThe core's last words:\n", style=FAINT)
        body.append("\n".join(tail[-12:]), style=FAINT)
    return PageScreen(title, body, "error")
