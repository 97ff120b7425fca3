"""Why the selected node is what it is: verdict, rule, numbers, words, residual, cost and what would flip it."""

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.reactive import reactive
from textual.widgets import Static

from specviz.text import clip, pad
from specviz.view.frame import Frame, Residual, Why, WhyRow
from specviz_tui.paint import FAINT, STRONG, Painter, bar, painter_of

NOTHING = "No node is selected. Arrows choose one, a click does too."


class WhyPanel(VerticalScroll, can_focus=True):
    """A side panel, or a sheet at the bottom of a narrow screen. Repainted only for another explanation."""

    EXPLAIN = "why"
    frame: reactive[Frame | None] = reactive(None, repaint=False, init=False)
    pinned: reactive[bool] = reactive(False, init=False)

    def compose(self) -> ComposeResult:
        """One text; the panel scrolls over it."""
        yield Static(NOTHING, id="why-body")

    def watch_frame(self, old: Frame | None, new: Frame | None) -> None:
        """Explain another node, or the same one later."""
        if new is not None and (old is None or old.why != new.why):
            self._explain(new.why)
            if old is None or old.why is None or new.why is None or old.why.node != new.why.node:
                self.scroll_home(animate=False)

    def watch_pinned(self, pinned: bool) -> None:
        """A pinned panel says so."""
        self.set_class(pinned, "-pinned")
        self._titles(self.frame.why if self.frame else None)

    def on_resize(self) -> None:
        """Bars as long as the panel is wide."""
        if self.frame is not None:
            self._explain(self.frame.why)

    def _explain(self, why: Why | None) -> None:
        self._titles(why)
        body = self.query_one("#why-body", Static)
        body.update(NOTHING if why is None else explained(why, painter_of(self.app), max(self.content_size.width - 1, 20)))

    def _titles(self, why: Why | None) -> None:
        what = f" · {clip(why.title, max(self.size.width - 14, 8))}" if why else ""
        self.border_title = Text(f"Why{what}").markup if not what else Text(f"Why{what}")
        self.border_subtitle = "pinned · enter lets go" if self.pinned else "enter pins · y copies"


def explained(why: Why, painter: Painter, cells: int) -> Text:
    """The panel's text at a width."""
    out = Text()
    _line(out, Text(f"{why.glyph} {why.headline}", style=painter.tint(why.mark) + STRONG))
    _line(out, _labelled("rule", why.rule))
    out.append("\n")
    label = max((len(row.label) for row in why.rows), default=0)
    for row in why.rows:
        _line(out, _row(row, label, painter, why, cells))
    out.append("\n")
    _line(out, Text(why.words))
    if why.residual is not None:
        out.append("\n")
        _residual(out, why.residual, painter, cells)
    for word, text in (("Cost", why.cost), ("Flip", why.flip.text if why.flip else None), ("Rank", why.rank)):
        if text:
            out.append("\n")
            _line(out, _labelled(word, text))
    if why.flip is not None:
        _line(out, Text(why.flip.caveat, style=FAINT))
    out.rstrip()
    return out


def _line(out: Text, line: Text) -> None:
    out.append_text(line).append("\n")


def _labelled(label: str, text: str) -> Text:
    return Text(f"{label}  ", style=FAINT).append(text, style="not dim")


def _row(row: WhyRow, label: int, painter: Painter, why: Why, cells: int) -> Text:
    line = Text(f"{row.label:<{label}}  ", style=FAINT)
    line.append(f"{row.value:>6}", style=STRONG)
    room = cells - line.cell_len - 1
    if row.bar is not None and room > 4:
        line.append(" ").append(bar(row.bar, min(room, 20)).rstrip(), style=painter.tint(why.mark))
    if row.note:
        line.append(f" {row.note}", style=FAINT)
    return line


def _residual(out: Text, residual: Residual, painter: Painter, cells: int) -> None:
    _line(out, Text(residual.title, style=STRONG))
    widest = min(max((len(entry.shown) for entry in residual.entries), default=0), 12)
    for entry in residual.entries:
        mark = "recovered" if entry.drawn else "untested"
        line = Text("→ " if entry.drawn else "  ", style=painter.tint("recovered"))
        line.append(pad(entry.shown, widest), style=STRONG if entry.drawn else "")
        line.append(f" {entry.text:>5} ")
        line.append(bar(entry.prob, max(min(cells - line.cell_len - 8, 14), 3)).rstrip(), style=painter.tint(mark))
        line.append(" drafted" if entry.drafted else "", style=FAINT)
        _line(out, line)
    if residual.note:
        _line(out, Text(residual.note, style=FAINT))
