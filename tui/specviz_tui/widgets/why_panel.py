"""Why the selected node is what it is: verdict, rule, numbers, words, residual, cost and what would flip it."""

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.reactive import reactive
from textual.widgets import Static

from specviz.text import pad
from specviz.view.frame.frame import Frame
from specviz.view.frame.parts import Residual, Why, WhyRow
from specviz_tui.common.paint import FAINT, PLAIN, STRONG, Painter, bar, painter_of

SIDE_BY_SIDE = 70


class WhyPanel(VerticalScroll, can_focus=True):
    """A side panel, or a sheet at the bottom of a narrow screen. Repainted only for another explanation."""

    EXPLAIN = "why"
    frame: reactive[Frame | None] = reactive(None, repaint=False, init=False)
    pinned: reactive[bool] = reactive(False, init=False)

    def compose(self) -> ComposeResult:
        """One text; the panel scrolls over it."""
        yield Static("", id="why-body")

    def watch_frame(self, old: Frame | None, new: Frame | None) -> None:
        """Explain another node, or the same one later."""
        if new is not None and (old is None or old.why != new.why):
            self._explain(new.why)
            if old is None or old.why is None or new.why is None or old.why.node != new.why.node:
                self.scroll_home(animate=False)

    def watch_pinned(self, pinned: bool) -> None:
        self.set_class(pinned, "-pinned")
        self._titles(self.frame.why if self.frame else None)

    def on_resize(self) -> None:
        """Bars as long as the panel is wide."""
        if self.frame is not None:
            self._explain(self.frame.why)

    def _explain(self, why: Why | None) -> None:
        self._titles(why)
        body = self.query_one("#why-body", Static)
        width = max(self.content_size.width - 1, 20)
        body.update("" if why is None else explained(why, painter_of(self.app), width))

    def _titles(self, why: Why | None) -> None:
        self.border_title = Text(f"Why · {why.title}" if why else "Why")
        self.border_subtitle = "pinned · enter lets go" if self.pinned else "enter pins · y copies"


def explained(why: Why, painter: Painter, cells: int) -> Text | Table:
    """The panel's text at a width; wide sheets have numbers left and words right."""
    if cells < SIDE_BY_SIDE:
        words, *more = _words(why)
        return Text("\n\n").join([*_numbers(why, painter, cells), words, *_rest(why, painter, cells), *more])
    half = cells // 2 - 2
    table = Table.grid(
        padding=0
    )  # the gap is a column: rich counts the padding of grids otherwise from version to version
    for width in (half, 2, cells - half - 2):
        table.add_column(width=width)
    numbers = Text("\n\n").join([*_numbers(why, painter, half), *_rest(why, painter, half)])
    table.add_row(numbers, "", Text("\n\n").join(_words(why)))
    return table


def _numbers(why: Why, painter: Painter, cells: int) -> list[Text]:
    """Verdict and rule, then the numbers, then the residual."""
    head = Text(f"{why.glyph} {why.headline}", style=painter.tint(why.mark) + STRONG)
    blocks = [Text("\n").join([head, _labelled("rule", why.rule)])]
    if why.rows:
        label = max(len(row.label) for row in why.rows)
        blocks.append(Text("\n").join(_row(row, label, painter, why, cells) for row in why.rows))
    return blocks


def _rest(why: Why, painter: Painter, cells: int) -> list[Text]:
    """The residual, when there is one."""
    return [] if why.residual is None else [_residual(why.residual, painter, cells)]


def _words(why: Why) -> list[Text]:
    """The sentence, then cost, flip and rank."""
    flip = why.flip
    more = [_labelled(word, text) for word, text in (("Cost", why.cost), ("Rank", why.rank)) if text]
    if flip is not None:
        more.insert(min(1, len(more)), _labelled("Flip", flip.text).append(f"\n{flip.caveat}", style=FAINT))
    return [Text(why.words), *more]


def _labelled(label: str, text: str) -> Text:
    return Text().append(f"{label}  ", style=FAINT).append(text)


def _row(row: WhyRow, label: int, painter: Painter, why: Why, cells: int) -> Text:
    line = Text().append(f"{row.label:<{label}}  ", style=FAINT)
    line.append(f"{row.value:>6}", style=STRONG)
    note = cell_len(row.note) + 1 if row.note else 0
    room = cells - line.cell_len - 1 - note
    if row.bar is not None and room > 4:
        line.append(" ").append(bar(row.bar, min(room, 20)).rstrip(), style=painter.tint(why.mark))
    if row.note:
        line.append(f" {row.note}", style=FAINT)
    return line


def _residual(residual: Residual, painter: Painter, cells: int) -> Text:
    lines = [Text(residual.title, style=STRONG)]
    widest = min(max((cell_len(entry.shown) for entry in residual.entries), default=0), 12)
    for entry in residual.entries:
        line = Text().append("→ " if entry.drawn else "  ", style=painter.tint("recovered"))
        line.append(pad(entry.shown, widest), style=STRONG if entry.drawn else PLAIN)
        line.append(f" {entry.text:>5} ", style=PLAIN)
        room = max(min(cells - line.cell_len - 8, 14), 3)
        line.append(bar(entry.prob, room).rstrip(), style=painter.tint("recovered" if entry.drawn else "untested"))
        line.append(" drafted" if entry.drafted else "", style=FAINT)
        lines.append(line)
    if residual.note:
        lines.append(Text(residual.note, style=FAINT))
    return Text("\n").join(lines)
