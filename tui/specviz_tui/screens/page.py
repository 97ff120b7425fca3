"""Pages to read over the screen: keys, a panel explained (`F1`), an error. Esc, q or the key that opened it closes it.

`F1` opens the page of the panel in focus; not every panel can have it, so from each page arrows lead to all others."""

from collections.abc import Mapping

from rich.console import Group
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from specviz.text import NEWLINE, SPACE
from specviz.view.frame.series import header_metrics
from specviz.view.words import palette
from specviz_tui.common.key_tables import groups, key_tables
from specviz_tui.common.paint import FAINT, STRONG, Painter
from specviz_tui.common.pane import all_panes
from specviz_tui.common.remapped import remapped

_PAGES: dict[str, tuple[str, str]] = {
    "tree": (
        "Draft tree",
        "What was drafted in this round, one column per depth. The root on the left is the last committed token; "
        "it was text before the round began. Each node shows a glyph for its fate, the token, and one value: "
        "press v for q (probability the drafter gave it), p (probability the target gives it), p/q, u (the "
        "uniform draw of its test) or its rank under the target.\n\n"
        "The target looks at the whole tree in one pass. Then the rule walks it from the root: siblings are "
        "tested in the order they stand, the first one kept opens the next column, and where all fail a token is "
        "drawn from the residual (recovered, ↻). When a whole path is kept, one more token is free (bonus, "
        "★).\n\n"
        "Places are fixed for the whole round: . and , step through its phases, { and } jump between rejections.\n\n"
        "A tree that is larger than its box shows the kept path, the neighbours of the cursor and the tests first, "
        "then what the draft was surest of; the rest is counted where it stood. Columns far from the cursor shrink to "
        "their glyphs. The bars on the right of the first line are the nodes of each depth. X shows every node, x "
        "folds the losers, O gives the tree the whole screen. On a wide screen the tests stand beside it in numbers, "
        "with a map of all nodes, where drafted tokens are kept, how the target ranks them and where a round's time "
        "goes.",
    ),
    "why": (
        "Why",
        "The decision on the selected node, from what was recorded.\n\n"
        "tokenwise: keep when u < min(1, p/q). After a rejection the next candidate, and in the end the recovered"
        " token, meet the residual max(0, p - q), scaled to sum to one. That is what makes the text follow the "
        "target exactly.\n\n"
        "walk: a token is drawn from the target; if it is in the draft, the draft was right. The interval is the "
        "stretch of [0, 1) that falls to the token; u says where the draw fell.\n\n"
        "Flip is the smallest change that would change this one decision: of u, of the target's logit where nothing is "
        "drawn, or of the token that stood in its way. Text after it could differ. u decides the node again with "
        "another u, and by every rule that takes this draft.",
    ),
    "text": (
        "Text",
        "The prompt, then the committed tokens, coloured and marked by how they came: accepted ✓, recovered ↻, "
        "bonus ★, plain ◦ where no draft was kept before it. A bar │ begins a round. Behind the last one stand the "
        "tokens that are still on the table; they may vanish. t goes through words, raw tokens and ids. A click on a "
        "token goes to its round.",
    ),
    "knobs": (
        "Knobs",
        "Every knob of the running method. Arrows choose and change, a sends what is staged, z takes a change "
        "back, x stages the default, enter takes a typed value. The core applies a knob when the next round "
        "begins and says in which one; → is staged, ⇒ is sent and not yet confirmed.\n\n"
        "No knob of a lossless method changes the law of the text; the sampling knobs (temperature, top_p, ..) "
        "do, since "
        "they change what is asked for. In a recording nothing can be changed.",
    ),
    "timeline": (
        "Time line",
        "Tokens per round; the lowest bar is the least a round can bring. The line below is the whole run: ● is "
        "where you are, ◆ a knob change, ⚑ a bookmark, ⚠ a warning; of several in one cell the gravest shows. w lists "
        "the warnings, B the bookmarks. Click or drag to go there, g to type a place. Live, End follows the newest "
        "round; pausing freezes the view while the recording goes on.",
    ),
    "judgement": (
        "The run in one line",
        "Tokens a round: what one pass of the target brings, the drawn token included; plain decoding brings 1. Then "
        "how many times as fast as plain decoding the run was. measured: what a plain round takes was timed, in this "
        "run or alone; modelled: nothing was timed, so a plain pass counts like those of the run less what their rows "
        "may cost, a range. cannot tell: the run's own passes took another time than those timed alone, so other "
        "programs worked beside one of them. What recording cost is left out.\n\n"
        "Then what stands out: rules look for a draft that is never kept, a position from which on little is, a draft "
        "that is surer than the target, a draft dearer than it pays, a tree of which next to nothing is "
        "kept, and speak only where chance does not explain what they see. i lists them with the rounds that show "
        "them; 6 shows the numbers they rest on.",
    ),
    "numbers": (
        "Numbers",
        "tok/round is the mean acceptance length: tokens per round, the recovered or bonus token included. "
        "kept/drafted is the acceptance rate: accepted over drafted tokens; kept/tested the same of tested ones. "
        "± is half of the 95 % interval over the rounds of the run; [a, b] is the interval itself, where the number "
        "does not stand in its middle, as near 0 and 1. Rounds that are all alike show no spread, so a mean of them "
        "has no interval: n too small, or all alike.\n\n"
        "tok/s counts the time of the rounds, not of the prompt. overhead is what recording cost beside the rest of "
        "the rounds; from a doubling on, how many times as long they took.",
    ),
}
_STATUS = {
    "lessons": (
        "Lessons",
        "A lesson stands above the keys and says what is seen and what to press. It watches what you do on the real "
        "screen and goes on by itself when a step is done. L goes on without, backspace goes back, esc leaves the "
        "lesson; the recording stays. Where it asks, a digit chooses, a number is typed, arrows lead to a token or "
        "move a slider, and enter gives the answer; the verdict stays hidden until then, and L shows it. Behind the "
        "end L begins the next lesson. o and L lead to the list, and so does specviz learn.",
    ),
    "status": (
        "Status",
        "State, models (target ⇐ draft), method and verifier with what they promise about the text, sampling, "
        "recording, and "
        "what recording cost (overhead).",
    ),
}


# Signs within tokens, and words on the first lines that are no metric.
_SIGNS = (
    (SPACE, "a space; an underscore of the token itself is _"),
    (NEWLINE, "a new line"),
    ("⟨1B⟩", "a byte, or a character that cannot be seen, by its code"),
)
_ON_TOP = (
    ("±", "half of the 95 % interval; [a, b] where the number does not stand in its middle"),
    ("measured", "what a plain round takes was timed; modelled: it was worked out, 6 says how"),
    ("exact", "bitwise: a row has the same bits in every pass, so drafting moves no token"),
    ("overhead", "what recording cost beside the rest of the rounds"),
)
SIDE_BY_SIDE = 110


def pages() -> dict[str, tuple[str, str]]:
    """Every page by its name, in the order in which they are turned."""
    panes = sorted(all_panes(), key=lambda pane: pane.EXPLAIN)
    return {**_PAGES, **{name: text for pane in panes for name, text in pane.PAGES.items()}, **_STATUS}


def guide_page(name: str) -> tuple[str, str]:
    """Title and text of a panel; that of the tree for one without a page."""
    guides = pages()
    return guides.get(name, guides["tree"])


def page_beside(name: str, step: int) -> str:
    """The page so many further on, round and round: every page can be turned to from every other."""
    names = list(pages())
    return names[(names.index(name) + step) % len(names) if name in names else step % len(names)]


def page_number(name: str) -> str:
    """`3 of 15`."""
    names = list(pages())
    return f"{names.index(name) + 1 if name in names else 1} of {len(names)}"


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
    """A page of the guide. Arrows turn to all the others: header, numbers and time line cannot have the focus.

    `explained`: where to read on about what runs, below every page.
    """

    BINDINGS = [
        Binding("left,h", "turn(-1)", "page before", show=False),
        Binding("right,l", "turn(1)", "next page", show=False),
    ]

    def __init__(self, name: str, explained: str = "") -> None:
        self.page_name, self._explained = name, explained
        super().__init__(guide_page(name)[0], self._text())

    def on_mount(self) -> None:
        self._show()

    def action_turn(self, step: int) -> None:
        self.page_name = page_beside(self.page_name, step)
        self._show()

    def _show(self) -> None:
        title, _ = guide_page(self.page_name)
        box = self.query_one(VerticalScroll)
        box.border_title = Text(title).markup
        box.border_subtitle = f"page {page_number(self.page_name)} · ← → turn pages · esc closes"
        self.query_one(".page Static", Static).update(self._text())
        box.scroll_home(animate=False)

    def _text(self) -> Text:
        text = Text(guide_page(self.page_name)[1])
        return text.append(f"\n\nThis run: {self._explained}", FAINT) if self._explained else text


def help_page(painter: Painter, width: int, shown: str = "tree", own: Mapping[str, str] | None = None) -> PageScreen:
    """All keys by group, those of the screen that is `shown` first; what the glyphs mean. `own`: keys of one's own."""
    here = next((pane.KEYS[0].group for pane in all_panes() if pane.PANEL.id == shown), "Tree")
    blocks = {
        group: _block(
            group,
            [
                (Text(f" {key.caps}", style=STRONG), key.help)
                for table in key_tables()
                for key in remapped(table, own or {})
                if key.group == group
            ],
        )
        for group in groups()
    }
    glyphs = _block(
        "Glyphs",
        [
            (Text(f" {s.glyph}", style=painter.mark(m)), s.word)
            for m, s in [(mark, style) for mark, style in palette.STYLES.items() if style.glyph.strip()]
        ],
    )
    marks = _block("Tokens", [(Text(f" {sign}", style=STRONG), words) for sign, words in _SIGNS])
    top = [(Text(f" {m.label}", style=STRONG), m.help) for m in header_metrics(None)]
    words = _block("On top", [*top, *((Text(f" {sign}", style=STRONG), meaning) for sign, meaning in _ON_TOP)])
    signs = Group(glyphs, marks, words)
    if width < SIDE_BY_SIDE:
        first = [blocks[here], *(block for group, block in blocks.items() if group != here)]
        return PageScreen("Keys", Group(*first, signs))
    table = Table.grid(padding=(0, 3, 0, 0), expand=True)
    table.add_column(ratio=1)
    table.add_column(ratio=1)
    left = (blocks["Time"], blocks["Screen"], blocks["Run"], signs)
    others = [group for group in groups() if group not in (here, "Time", "Screen", "Run")]
    right = [blocks[group] for group in (here, *others)]
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
