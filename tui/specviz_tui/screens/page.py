"""Pages to read over the screen: keys, a panel explained, an error. Esc, q or the key that opened it closes it."""

from rich.console import Group
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from specviz.view.words import palette
from specviz_tui.common import guide
from specviz_tui.common.paint import FAINT, STRONG, Painter
from specviz_tui.common.pane import all_panes, key_tables

SIDE_BY_SIDE = 110


class PageScreen(ModalScreen[None]):
    """A titled, scrolling page."""

    BINDINGS = [
        Binding("escape,q,question_mark,f1,enter", "close", "close", show=False),
        Binding("j", "scroll(1)", "down", show=False),
        Binding("k", "scroll(-1)", "up", show=False),
    ]

    def __init__(self, title: str, body: Text | Table | Group, kind: str = "page") -> None:
        super().__init__()
        self._title, self._body, self._kind = title, body, kind

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes=f"page -{self._kind}") as box:
            box.border_title = Text(self._title).markup
            box.border_subtitle = "esc closes"
            yield Static(self._body)

    def action_close(self) -> None:
        self.dismiss(None)

    def action_scroll(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)


class GuideScreen(PageScreen):
    """A page of the guide. Arrows turn to all the others: header, numbers and time line cannot have the focus."""

    BINDINGS = [
        Binding("left,h", "turn(-1)", "page before", show=False),
        Binding("right,l", "turn(1)", "next page", show=False),
    ]

    def __init__(self, name: str) -> None:
        self.page_name = name
        title, text = guide.page(name)
        super().__init__(title, Text(text))

    def on_mount(self) -> None:
        self._show()

    def action_turn(self, step: int) -> None:
        self.page_name = guide.beside(self.page_name, step)
        self._show()

    def _show(self) -> None:
        title, text = guide.page(self.page_name)
        box = self.query_one(VerticalScroll)
        box.border_title = Text(title).markup
        box.border_subtitle = f"page {guide.number(self.page_name)} · ← → turn pages · esc closes"
        self.query_one(".page Static", Static).update(Text(text))
        box.scroll_home(animate=False)


def help_page(painter: Painter, width: int) -> PageScreen:
    """All keys by group, and what the glyphs mean."""
    panes = [pane.KEYS[0].group for pane in all_panes()]
    groups = ("Time", "Tree", *panes, "Knobs", "Run", "Screen")
    blocks = {
        group: _block(
            group,
            [
                (Text(f" {key.caps}", style=STRONG), key.help)
                for table in key_tables()
                for key in table
                if key.group == group
            ],
        )
        for group in groups
    }
    glyphs = _block(
        "Glyphs",
        [
            (Text(f" {s.glyph}", style=painter.mark(m)), s.word)
            for m, s in [(mark, style) for mark, style in palette.STYLES.items() if style.glyph.strip()]
        ],
    )
    if width < SIDE_BY_SIDE:
        return PageScreen("Keys", Group(*blocks.values(), glyphs))
    table = Table.grid(padding=(0, 3, 0, 0), expand=True)
    table.add_column(ratio=1)
    table.add_column(ratio=1)
    left = (blocks["Time"], blocks["Screen"], blocks["Run"], glyphs)
    right = [blocks[group] for group in ("Tree", *panes, "Knobs")]
    table.add_row(Group(*left), Group(*right))
    return PageScreen("Keys", table, "keys")


def _block(title: str, rows: list[tuple[Text, str]]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, min_width=7)
    table.add_column()
    table.add_row(Text(title, style="bold"))
    for caps, words in rows:
        table.add_row(caps, words)
    table.add_row()
    return table


def error_page(title: str, message: str, tail: list[str]) -> PageScreen:
    """What went wrong, in words, and the last lines the core said."""
    body = Text(message)
    if tail:
        body.append("\n\nThe core's last words:\n", style=FAINT)
        body.append("\n".join(tail[-12:]), style=FAINT)
    return PageScreen(title, body, "error")
