"""Screen 2: the layers a round climbed. One view at a time on the left, the cell under the cursor on the right.

Moves over the map of screen 2. Mixed into the main screen: the row under the cursor is the tree's selected node.
"""

from typing import TYPE_CHECKING, Literal

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Container, VerticalScroll
from textual.reactive import reactive
from textual.widgets import Static

from specviz.view.frame.frame import Frame
from specviz.view.panels.exits.build import ExitsPanel
from specviz.view.panels.exits.model import BANDS, CellInfo, HeatMap, Layers
from specviz.view.words import palette
from specviz.view.words.numbers import number, percent
from specviz_tui.common.feed import RunFeed
from specviz_tui.common.keymap import LAYER_KEYS, bindings
from specviz_tui.common.messages import CellMoved, CellPicked
from specviz_tui.common.paint import FAINT, PLAIN, STRONG, Painter, bar, fitted, joined, painter_of, wrapped
from specviz_tui.panels import FrameWidget
from specviz_tui.panels.exits_views import curves, ledger, sentence, staircase
from specviz_tui.widgets.heat_map import Spot, drawn

View = Literal["map", "staircase", "ledger", "curves", "cell"]
VIEWS: tuple[View, ...] = ("map", "staircase", "ledger", "curves")
TITLES: dict[View, str] = {
    "map": "Exit confidence · layers × rows",
    "staircase": "How cells came about · staircase",
    "ledger": "Ledger · layer calls paid and earned",
    "curves": "Thresholds · what the tests ask, and other settings",
    "cell": "Cell",
}
NARROW = 100
LEFT = 5  # lines under the map that are in view at least


class LayersPane(Container, can_focus=True, inherit_bindings=False):
    """Everything of the screen below the text strip. Without climbs it says why, and what to run."""

    BINDINGS = bindings(LAYER_KEYS)
    EXPLAIN = "layers"
    frame: reactive[Frame | None] = reactive(None, repaint=False, init=False)

    def compose(self) -> ComposeResult:
        """The view that is chosen, and the inspector."""
        yield Static("", id="no-layers", markup=False)
        with VerticalScroll(id="layer-view", can_focus=False):
            yield LayerView(id="layers-painted").data_bind(LayersPane.frame)
        with VerticalScroll(id="cell-box", can_focus=False):
            yield Static("", id="cell", markup=False)

    def watch_frame(self, frame: Frame | None) -> None:
        """The reason in place of the round's parts, when there is nothing to show."""
        found = ExitsPanel.of(frame)
        if frame is None or found is None:
            return
        self.set_class(found.missing is not None, "-missing")
        self.query_one("#no-layers", Static).update(found.missing or "")
        self._title(frame)
        box = self.query_one("#cell-box")
        box.border_title = Text(f"Cell {found.cell.title}" if found.cell else "Cell")
        box.border_subtitle = "enter → tree"
        width = max(20, box.content_size.width - 2)
        self.query_one("#cell", Static).update(cell(found.cell, painter_of(self.app), width))

    def _title(self, frame: Frame) -> None:
        view = self.query_one("#layer-view")
        painted = self.query_one(LayerView)
        view.border_title = Text(f"{TITLES[painted.view]} · round {frame.round}")
        names = " ".join(f"[{name}]" if name == painted.view else name for name in VIEWS)
        view.border_subtitle = Text(f"v {names}")

    def on_resize(self) -> None:
        """Another width of the inspector."""
        self.call_after_refresh(self.watch_frame, self.frame)

    def action_move(self, direction: str) -> None:
        """To the cell beside."""
        self.post_message(CellMoved(direction))

    def action_view(self, by: int) -> None:
        """Another view of the same round. On a narrow screen the cell is one of them."""
        painted = self.query_one(LayerView)
        views: tuple[View, ...] = VIEWS if self.app.size.width >= NARROW else (*VIEWS, "cell")
        at = views.index(painted.view) if painted.view in views else 0
        painted.view = views[(at + by) % len(views)]
        self.query_one("#layer-view").scroll_home(animate=False)
        if self.frame is not None:
            self._title(self.frame)

    def action_node(self) -> None:
        """To the tree."""
        self.screen.cell_to_tree()  # type: ignore[attr-defined]

    def action_scroll(self, lines: int) -> None:
        """By some lines."""
        for name in ("#layer-view", "#cell-box"):
            self.query_one(name).scroll_relative(y=lines, animate=False)


class LayerView(FrameWidget):
    """The chosen view, painted."""

    EXPLAIN = "layers"
    view: reactive[View] = reactive("map", layout=True)

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._spots: list[Spot] = []
        self._layers: tuple[int, ...] = ()

    def part(self, frame: Frame) -> object:
        """The layers of this moment."""
        return ExitsPanel.of(frame), frame.cursor.index

    def show(self, frame: Frame | None) -> None:
        """Heights differ from round to round."""
        self.refresh(layout=True)

    def render(self) -> Text:
        """The view in the room there is."""
        frame = self.frame
        found = ExitsPanel.of(frame)
        if frame is None or found is None or found.heat is None:
            return Text("")
        width, height = self.size.width or 80, self.screen.query_one("#layer-view").content_size.height
        index, painter = frame.cursor.index, self.painter
        if self.view == "staircase":
            return staircase(found, index, painter, width)
        if self.view == "ledger":
            timing = f"Time: {found.timing.text}." if found.timing else ""
            return ledger(found.ledger, timing, painter, width) if found.ledger else Text("")
        if self.view == "curves":
            return curves(found.gates, found.sweeps, found.oracle, painter, width)
        if self.view == "cell":
            return cell(found.cell, painter, width)
        return self._map(found, found.heat, index, width, height)

    def _map(self, found: Layers, heat: HeatMap, index: int, width: int, height: int) -> Text:
        below = _below(found, heat, self.painter, width)
        if self.app.size.width < NARROW and found.cell is not None:
            below[1:1] = sentence(found.cell.words, width, STRONG)[:3]
        room = min(heat.n_layers + 2, max(6, height - LEFT))
        text, self._spots, plans = drawn(heat, index, self.painter, width, room)
        self._layers = plans.layers
        return Text("\n").join([text, *below])

    def on_click(self, event: events.Click) -> None:
        """The cell under the pointer."""
        offset = event.get_content_offset(self)
        if offset is None or self.view != "map" or not 1 <= offset.y <= len(self._layers):
            return
        for spot in self._spots:
            if spot.x0 <= offset.x < spot.x1:
                self.post_message(CellPicked(spot.column, self._layers[offset.y - 1]))


def _below(found: Layers, heat: HeatMap, painter: Painter, width: int) -> list[Text]:
    """Legend, numbers, the round's ledger and time, what other thresholds would have done; the cell in words."""
    parts = [(k, _band(k, painter)) for k in range(len(BANDS))]
    exits = Text(palette.STYLES["exit"].glyph, style=painter.mark("exit")).append(" exited", style=FAINT)
    what = Text(heat.what_text[:1], style=painter.style(palette.WOULD)).append(heat.what_text[1:], style=FAINT)
    lines = [fitted([(9, t) for _, t in parts] + [(1, exits), (2, what)], width - 1, "  ")]
    lines = [Text(" ", no_wrap=True).append_text(line) for line in lines]
    known = [
        Text(f"{m.label} ", style=FAINT).append(m.text, style=STRONG) for m in found.numbers if m.value is not None
    ]
    if known:
        lines.append(Text(" ", no_wrap=True).append_text(joined(known, width - 2)))
    if found.ledger is not None and not found.ledger.missing:
        lines += sentence(found.ledger.calls, width)
    if found.timing is not None:
        lines += sentence(f"round {found.timing.text}", width)
    lines += _sweep_line(found, width)
    lines += sentence(heat.words, width, FAINT)
    lines += sentence(heat.note, width, FAINT) if heat.note else []
    return lines


def _band(k: int, painter: Painter) -> Text:
    return Text(palette.BANDS[k].glyph, style=painter.band(k)).append(f" {BANDS[k][1]}", style=FAINT)


def _sweep_line(found: Layers, width: int) -> list[Text]:
    """`wrong at τ  .70 → 8 %   ▶.80 → 3 %`."""
    line = found.sweeps.line("tau") if found.sweeps and not found.sweeps.missing else None
    if line is None:
        return []
    parts = []
    for point in line.few(5):
        text = f"{'▶' if point.own else ''}{number(point.value)} → {percent(point.wrong_rate)}"
        parts.append(Text(text, style=STRONG if point.own else PLAIN))
    head = Text(f" wrong at {line.symbol}  ", style=FAINT, no_wrap=True)
    return [head.append_text(joined(parts, width - head.cell_len - 1))]


def cell(found: CellInfo | None, painter: Painter, width: int) -> Text:
    """The inspector: numbers, the way over the layers, and what happened in words."""
    if found is None:
        return Text("no row has climbed yet", style=FAINT)
    label = max(len(row.label) for row in found.rows)
    lines = []
    for row in found.rows:
        line = Text(no_wrap=True).append(f"{row.label:<{label}}  ", style=FAINT).append(row.value, style=STRONG)
        if row.bar is not None:
            room = min(10, width - line.cell_len - len(row.note) - 2)
            line.append(" ").append(bar(row.bar, room).rstrip() if room > 2 else "", style=painter.tint("exit"))
        note = [f" {row.note}"] if line.cell_len + len(row.note) < width else []
        line.append("".join(note), style=FAINT)
        lines.append(line)
        if row.note and not note:
            lines += [Text(f"  {part}", style=FAINT) for part in wrapped(row.note, width - 2)]
    lines += [Text(""), *[Text(line) for line in wrapped(found.words, width)]]
    if found.trace:
        lines.append(Text(""))
        lines.append(Text(f"conf over layers 1 to {len(found.trace[0].value)}", style=FAINT))
        token = min(12, max(len(row.label) for row in found.trace))
        for row in found.trace:
            line = Text(no_wrap=True).append(f"{row.label[:token]:<{token}} ", style=PLAIN)
            line.append(row.value, style=painter.tint("accepted" if row.note else "rejected"))
            lines.append(line.append(f" {row.note}", style=FAINT))
    return Text("\n").join(lines)


if TYPE_CHECKING:
    from textual.screen import Screen

    from specviz.view import Frame
    from specviz.view.panels.exits.model import HeatMap

    Base = Screen[None]
else:
    Base = object


class LayerActions(Base):
    """Actions of a screen that has `feed`, `frame`, `select` and `choose`."""

    feed: RunFeed
    if TYPE_CHECKING:
        frame: "Frame | None"

        def select(self, node: int | None) -> None: ...
        def choose(self, name: str) -> None: ...

    @property
    def _heat(self) -> "HeatMap | None":
        found = ExitsPanel.of(self.frame)
        return found.heat if found is not None else None

    def move_cell(self, direction: str) -> None:
        """To the cell beside: another row, or another layer of the same one."""
        heat = self._heat
        if heat is None or heat.column is None:
            return
        by = {"left": (-1, 0), "right": (1, 0), "up": (0, 1), "down": (0, -1)}[direction]
        column = max(0, min(len(heat.columns) - 1, heat.column + by[0]))
        self.pick_cell(column, max(1, min(heat.n_layers, heat.layer + by[1])))

    def pick_cell(self, column: int, layer: int) -> None:
        """Look at a cell. A row of this round is the node the tree shows; one of an earlier round stays apart."""
        heat, frame = self._heat, self.frame
        if heat is None or frame is None or not 0 <= column < len(heat.columns):
            return
        found = heat.columns[column]
        options = self.feed.options
        if found.index == frame.cursor.index:
            self.feed.options = ExitsPanel.choose(options, layer=layer, column=None)
            self.select(found.node)
        else:
            self.feed.options = ExitsPanel.choose(options, layer=layer, column=(found.index, found.row))
            self.select(options.selected)

    def cell_to_tree(self) -> None:
        """The tree, at the token of the row under the cursor; in its own round."""
        heat, frame = self._heat, self.frame
        if heat is None or frame is None or heat.column is None:
            return
        found = heat.columns[heat.column]
        if found.index != frame.cursor.index:
            self.feed.player.seek_index(found.index)
        self.feed.options = ExitsPanel.choose(self.feed.options, column=None)
        self.choose("tree")
        self.select(found.node)
