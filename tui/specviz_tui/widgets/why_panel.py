"""Why the selected node is what it is: verdict, rule, numbers, words, residual, cost and what would flip it."""

from rich.cells import cell_len
from rich.segment import Segment
from rich.table import Table
from rich.text import Text
from textual.binding import Binding
from textual.geometry import Region
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from specviz.text import pad
from specviz.view.frame.frame import Frame
from specviz.view.frame.parts import Residual, Why, WhyRow
from specviz_tui.common.paint import FAINT, PLAIN, STRONG, Painter, bar, painter_of
from specviz_tui.common.titled import OneStyle, Titled

SIDE_BY_SIDE = 70


class WhyPanel(OneStyle, Titled, Widget, can_focus=True):
    """A side panel, or a sheet at the bottom of a narrow screen. It scrolls by itself, and paints only lines that are
    new: another explanation lays nothing out."""

    EXPLAIN = "why"
    BINDINGS = [
        Binding("down", "scroll(1)", show=False),
        Binding("up", "scroll(-1)", show=False),
        Binding("pagedown", "scroll(8)", show=False),
        Binding("pageup", "scroll(-8)", show=False),
    ]
    frame: reactive[Frame | None] = reactive(None, repaint=False, init=False)
    pinned: reactive[bool] = reactive(False, init=False)

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: list[list[Segment]] = []
        self._top = 0  # the first line in sight

    def watch_frame(self, old: Frame | None, new: Frame | None) -> None:
        """Explain another node, or the same one later."""
        if new is not None and (old is None or old.why != new.why):
            if old is None or old.why is None or new.why is None or old.why.node != new.why.node:
                self._top = 0
            self._explain(new.why)

    def watch_pinned(self, pinned: bool) -> None:
        self.set_class(pinned, "-pinned")
        self._titles(self.frame.why if self.frame else None)

    def on_resize(self) -> None:
        """Bars as long as the panel is wide."""
        if self.frame is not None:
            self._explain(self.frame.why)
            self.refresh()

    def notify_style_update(self) -> None:
        """Another theme: other colours."""
        super().notify_style_update()
        self.forget_style()
        if self.frame is not None:
            self._explain(self.frame.why)

    def _explain(self, why: Why | None) -> None:
        self._titles(why)
        width = self.content_size.width
        if not width:
            return
        text = Text("") if why is None else explained(why, painter_of(self.app), max(width - 1, 20))
        options = self.app.console.options.update(width=max(width - 1, 20), height=None)
        lines = self.app.console.render_lines(text, options, pad=False)
        while lines and not "".join(piece.text for piece in lines[-1]).strip():
            lines.pop()
        self._put(lines, self._top)

    def _put(self, lines: list[list[Segment]], top: int) -> None:
        """Show lines from `top` on; those that look as before are left alone."""
        height = self.content_size.height
        old, self._lines = [self._seen(y) for y in range(height)], lines
        self._top = max(0, min(top, len(lines) - height))
        for y in range(height):
            if self._seen(y) != old[y]:
                self.refresh(Region(0, y, self.content_size.width, 1))

    def _seen(self, y: int) -> list[Segment]:
        """A line of the panel; the last one says how much more there is."""
        height, left = self.content_size.height, len(self._lines) - self._top - self.content_size.height
        if y == height - 1 and left > 0 and height > 2:
            return [Segment(f"▾ {left + 1} more lines", FAINT)]
        at = y + self._top
        return self._lines[at] if at < len(self._lines) else []

    def render_line(self, y: int) -> Strip:
        width, base = self.content_size.width, self.base_style
        strip = Strip([Segment(piece.text, base + (piece.style or PLAIN)) for piece in self._seen(y)])
        return strip.crop_extend(0, width, base)

    def action_scroll(self, lines: int) -> None:
        self._put(self._lines, self._top + lines)

    def on_mouse_scroll_down(self) -> None:
        self.action_scroll(2)

    def on_mouse_scroll_up(self) -> None:
        self.action_scroll(-2)

    def _titles(self, why: Why | None) -> None:
        below = "pinned · enter lets go" if self.pinned else "enter pins · u what if · y copies"
        self.entitle(f"Why · {why.title}" if why else "Why", below)


def explained(why: Why, painter: Painter, cells: int) -> Text | Table:
    """The panel's text at a width; wide sheets have numbers left and words right."""
    words, changes = Text(why.words), _changes(why)
    rest = [*_rest(why, painter, cells if cells < SIDE_BY_SIDE else cells // 2 - 2)]
    rank = [_labelled("Rank", why.rank)] if why.rank else []
    if cells < SIDE_BY_SIDE:
        head, *numbers = _numbers(why, painter, cells)
        return Text("\n\n").join([head, words, *numbers, *changes, *rest, *rank])  # the reason: the rest may need room
    half = cells // 2 - 2
    # The gap is a column: rich counts the padding of grids otherwise from version to version.
    table = Table.grid(padding=0)
    for width in (half, 2, cells - half - 2):
        table.add_column(width=width)
    left = Text("\n\n").join([*_numbers(why, painter, half), *rest])
    table.add_row(left, "", Text("\n\n").join([words, *changes, *rank]))
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


def _changes(why: Why) -> list[Text]:
    """What the verdict cost, and the nearest change that would have made another; nothing between them."""
    lines = [_labelled("Cost", why.cost)] if why.cost else []
    lines += [_labelled("Flip", why.what_flips)] if why.what_flips else []
    return [Text("\n").join(lines)] if lines else []


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
