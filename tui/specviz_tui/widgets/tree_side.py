"""What stands beside the tree on a wide screen: the tests in numbers, a small map, where tokens are kept, how the
target ranks them, where the time goes. Cards below each other, as many as there is room for."""

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.geometry import Region
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from specviz.numerals import prob
from specviz.view.frame.frame import Frame, TreeMap
from specviz.view.frame.parts import Series
from specviz.view.panels.glance.build import Glance, GlanceBar, GlancePanel
from specviz.view.words import palette
from specviz_tui.common.frame_widget import NodePicked
from specviz_tui.common.paint import CURSOR, FAINT, STRONG, Painter, bar, painter_of
from specviz_tui.common.titled import OneStyle
from specviz_tui.widgets.tree_line import Row, cut_to
from specviz_tui.widgets.tree_rows import fits_below, tests


class RowView(OneStyle, Widget):
    """Lines of a frame; a click on a node of them picks it."""

    frame: reactive[Frame | None] = reactive(None, repaint=False, init=False)

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: list[Row] = []

    @property
    def painter(self) -> Painter:
        return painter_of(self.app)

    def rows(self, frame: Frame, width: int, height: int) -> list[Row]:
        """The lines of a frame; at most `height`."""
        raise NotImplementedError

    def watch_frame(self, frame: Frame | None) -> None:
        self.put()

    def on_resize(self) -> None:
        self.put()
        self.refresh()

    def notify_style_update(self) -> None:
        """Another theme."""
        super().notify_style_update()
        self.forget_style()

    def put(self) -> None:
        """Show the frame, line by line where it is another."""
        width, height = self.size
        if self.frame is None or not width or not height:
            return
        old, self._rows = self._rows, self.rows(self.frame, width, height)[:height]
        for y in range(max(len(old), len(self._rows))):
            if y >= len(old) or y >= len(self._rows) or old[y].pieces != self._rows[y].pieces:
                self.refresh(Region(0, y, width, 1))

    def render_line(self, y: int) -> Strip:
        width, base = self.size.width, self.base_style
        if y >= len(self._rows):
            return Strip.blank(width, base)
        strip = Strip([Segment(text, base + style) for text, style in self._rows[y].pieces])
        return cut_to(strip, width, base)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or not 0 <= offset.y < len(self._rows):
            return
        node = next((n for x0, x1, n in self._rows[offset.y].spots if x0 <= offset.x < x1), None)
        if node is not None:
            self.post_message(NodePicked(node))


_MOST_PLACES = 12  # of the curve


class TreeRuler(RowView):
    """The line above the columns: it is handed over by the canvas."""

    def lay(self, row: Row) -> None:
        """Show this one."""
        if not self._rows or self._rows[0].pieces != row.pieces:
            self._rows = [row]
            self.refresh()

    def put(self) -> None:
        """It stays until another is laid."""


class TreeSide(RowView):
    """The column of cards."""

    def rows(self, frame: Frame, width: int, height: int) -> list[Row]:
        """A card that does not fit is left out; the tests take what the others leave them."""
        glance, painter = GlancePanel.of(frame) or Glance(), self.painter
        cards = [
            _map(frame.tree.map, painter),
            _curve(glance.curve, painter, width),
            _bars(_title("Target's rank of drafted tokens", "up to here"), glance.ranks, painter, width),
            _bars(_title("Where a round's time goes", "whole run"), glance.stages, painter, width),
        ]
        below = fits_below(frame.tree, height - 1, True)
        least = 0 if below else min(5, height)
        chosen: list[list[Row]] = []
        for card in cards:
            if card and least + sum(map(len, chosen)) + len(card) + 1 <= height:
                chosen.append([Row(), *card])
        if below:
            return [row for card in chosen for row in card][1:]
        room = height - sum(map(len, chosen))
        table = [_title("Tests"), *(tests(frame.tree, painter, width, room - 1) or [_faint(" none yet")])]
        table += [Row() for _ in range(room - len(table))] if frame.tree.nodes else []
        return [*table[:room], *(row for card in chosen for row in card)]


def _title(words: str, note: str = "") -> Row:
    row = Row()
    row.add(f" {words}", STRONG)
    row.add(f"  {note}" if note else "", FAINT)
    return row


def _faint(words: str) -> Row:
    row = Row()
    row.add(words, FAINT)
    return row


def _map(minimap: TreeMap | None, painter: Painter) -> list[Row]:
    """Two cells for each depth; a spot that stands on the map only is faint."""
    if minimap is None or not minimap.n_folded:
        return []
    lines = [_title("Map", f"{minimap.n_nodes - minimap.n_folded} of {minimap.n_nodes} nodes shown · X shows all")]
    for cells in minimap.cells:
        row = Row()
        row.add(" ")
        for cell in cells:
            if cell is None:
                row.add("  ")
                continue
            style = painter.tint(cell.mark) + (CURSOR if cell.cursor else FAINT if not cell.shown else STRONG)
            row.add(palette.glyph(cell.mark), style)
            row.add(" ")
        lines.append(row)
    return lines


def _curve(series: Series | None, painter: Painter, width: int) -> list[Row]:
    """A bar for each place in the draft."""
    if series is None or not series.xs:
        return []
    lines = [_title("Kept by place in the draft", "whole run, 95 %")]
    for k, x in enumerate(series.xs[:_MOST_PLACES]):
        low, high = series.lows[k], series.highs[k]
        around = "" if low is None or high is None else f" {prob(low)} .. {prob(high)}"
        lines.append(
            _bar(GlanceBar(f"{x}", series.values[k], f"{prob(series.values[k]):>4}{around}"), 2, painter, width)
        )
    return lines


def _bars(title: Row, bars: tuple[GlanceBar, ...], painter: Painter, width: int) -> list[Row]:
    if not bars:
        return []
    label = max(cell_len(bar.label) for bar in bars)
    return [title, *(_bar(bar, label, painter, width) for bar in bars)]


def _bar(glance: GlanceBar, label: int, painter: Painter, width: int) -> Row:
    row = Row()
    row.add(f" {glance.label:>{label}} ", FAINT)
    row.add(bar(glance.fill, max(min(width - label - 22, 24), 4)), painter.tint("accepted"))
    row.add(f" {glance.text}")
    return row
