"""Screen 2: the layers a round climbed. One view at a time on the left, the cell under the cursor on the right.

On the map rows of the round on screen are wide, with tokens and numbers; earlier ones take one cell each, oldest left.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from rich.style import Style
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.reactive import reactive
from textual.widgets import Static

from specviz.numerals import prob
from specviz.text import clip, pad
from specviz.view.frame.frame import Frame
from specviz.view.panels.exits.build import ExitsPanel
from specviz.view.panels.exits.model import Column, ExitCell, ExitOptions, HeatMap, LayersModel
from specviz.view.words import palette
from specviz.view.words.labels import LAYER_CALLS, LAYERS_PASSED
from specviz_tui.common.frame_widget import FrameWidget
from specviz_tui.common.keymap import Key, page_keys
from specviz_tui.common.paint import CURSOR, FAINT, PLAIN, STRONG, Painter, indented, painter_of
from specviz_tui.common.pane import NARROW, PanelPane, opens
from specviz_tui.panels import exits_views as views

View = Literal["map", "passed", "calls", "curves", "cell"]
VIEWS: tuple[View, ...] = ("map", "passed", "calls", "curves")
TITLES: dict[View, str] = {
    "map": "Exit confidence · layers × rows",
    "passed": f"{LAYERS_PASSED} · how cells came about",
    "calls": LAYER_CALLS,
    "curves": "Thresholds · what the tests ask, and other settings",
    "cell": "Cell",
}
LEFT = 5  # lines under the map that are in view at least
EXIT_KEYS: tuple[Key, ...] = (
    Key("layers.left", "left,h", "move('left')", "← h", "to the row before, of earlier rounds too", "Layers"),
    Key("layers.right", "right,l", "move('right')", "→ l", "to the row after", "Layers"),
    Key("layers.up", "up,k", "move('up')", "↑ k", "to the layer above", "Layers"),
    Key("layers.down", "down,j", "move('down')", "↓ j", "to the layer below", "Layers"),
    Key("layers.view", "v", "view(1)", "v", "next view: map, passed, calls, curves, cell", "Layers", "view"),
    Key("layers.view_before", "V", "view(-1)", "V", "view before", "Layers"),
    Key(
        "layers.tau_up",
        "t",
        "tau(.05)",
        "t",
        "would rows stop at a larger τ; escape: τ under the cursor",
        "Layers",
        "τ",
    ),
    Key("layers.tau_down", "z", "tau(-.05)", "z", "at a smaller τ", "Layers"),
    Key("layers.node", "enter", "node", "enter", "to this row's token in the draft tree", "Layers", "tree"),
    *page_keys("layers", "Layers"),
)
EXIT_PAGES = {
    "layers": (
        "Layers: early exits",
        "One column a row of the model: a token that climbs, layer by layer. Under it stands its outcome; earlier "
        "rounds lie to the left, one cell a row. Where a layer has a test, its head says which token comes next; conf "
        "is its largest probability at temperature T = 1 + α (1 − l/L). At conf ≥ τ the row stops (⇥) and that token "
        "is the next row. The last row climbs to the top: that climb is the target pass, for all rows at once.\n\n"
        "░▒▓█ are bands of conf. Values in brackets decided nothing: watched after the verdict (--observe-all on), or "
        "asked in a pass over the finished text (specviz whatif .. --sweep --write). ⇢ is where a row would stop if τ "
        "were the confidence under the cursor.\n\n"
        "Passed: o the row climbed by itself, c a later row took it along (catch-up), a and s the last climb, below "
        "and above the deepest test. A number is the rows of that call. Every row passes every layer exactly once, so "
        "skipped layers are not saved arithmetic: what is saved are calls, that is time on one sequence.\n\n"
        "Calls: a draft pays the layers of its climb and, if the target agrees, earns the L calls of a token. The "
        "sum is a L − Σ e; a round may lose. Right: the first layer whose head said what the target chose, and the "
        "first from which all did; regret is the stop less the first right layer.",
    )
}


class LayersPane(PanelPane[ExitOptions, LayersModel]):
    """The view that is chosen, and the inspector. The row under the cursor is the tree's selected node."""

    PANEL = ExitsPanel
    OPEN = opens("screen.layers", "2", ExitsPanel, "Layers: early exits, who climbed how far and what it earned")
    KEYS, PAGES = EXIT_KEYS, EXIT_PAGES

    def parts(self) -> ComposeResult:
        with VerticalScroll(id="layer-view", can_focus=False):
            yield LayerView(self.pick).data_bind(PanelPane.frame)
        with VerticalScroll(id="cell-box", can_focus=False):
            yield Static("", id="cell", markup=False)

    def show(self, frame: Frame, model: LayersModel) -> None:
        """The cell, and the names of both."""
        self._title(frame)
        box = self.query_one("#cell-box")
        box.border_title = Text(f"Cell {model.cell.title}" if model.cell else "Cell")
        box.border_subtitle = "enter → tree"
        width = max(20, box.content_size.width - 2)
        self.query_one("#cell", Static).update(views.cell(model.cell, painter_of(self.app), width))

    def _title(self, frame: Frame) -> None:
        box, view = self.query_one("#layer-view"), self.query_one(LayerView).view
        box.border_title = Text(f"{TITLES[view]} · round {frame.round}")
        names = " ".join(f"[{name}]" if name == view else name for name in VIEWS)
        box.border_subtitle = Text(f"v {names}")

    def on_resize(self) -> None:
        self.call_after_refresh(self.watch_frame, self.frame)

    @property
    def _heat(self) -> HeatMap | None:
        return self.model.heat if self.model is not None else None

    def action_move(self, direction: str) -> None:
        """To the cell beside: another row, or another layer of the same one."""
        heat = self._heat
        if heat is None or heat.column is None:
            return
        by = {"left": (-1, 0), "right": (1, 0), "up": (0, 1), "down": (0, -1)}[direction]
        column = max(0, min(len(heat.columns) - 1, heat.column + by[0]))
        self.pick(column, max(1, min(heat.n_layers, heat.layer + by[1])))

    def pick(self, column: int, layer: int) -> None:
        """Look at a cell. A row of this round is the node the tree shows; one of an earlier round stays apart."""
        heat, frame = self._heat, self.frame
        if heat is None or frame is None or not 0 <= column < len(heat.columns):
            return
        cell = heat.columns[column]
        if cell.index == frame.cursor.index:
            self.choose(cell.node, layer=layer, column=None)
        else:
            self.choose(hold=True, layer=layer, column=(cell.index, cell.row))

    def action_view(self, by: int) -> None:
        """Another view of the same round. On a narrow screen the cell is one of them."""
        painted = self.query_one(LayerView)
        names: tuple[View, ...] = (*VIEWS, "cell") if self.narrow else VIEWS
        at = names.index(painted.view) if painted.view in names else 0
        painted.view = names[(at + by) % len(names)]
        self.query_one("#layer-view").scroll_home(animate=False)
        if self.frame is not None:
            self._title(self.frame)

    def action_tau(self, by: float) -> None:
        """Where rows would stop at another threshold."""
        heat = self._heat
        if heat is not None and heat.what_tau is not None:
            self.choose(hold=True, what_tau=round(min(max(heat.what_tau + by, 0.0), 1.0), 2))

    def action_node(self) -> None:
        """The tree, at the token of the row under the cursor; in its own round."""
        heat, frame = self._heat, self.frame
        if heat is None or frame is None or heat.column is None:
            return
        cell = heat.columns[heat.column]
        away = None if cell.index == frame.cursor.index else cell.index
        self.choose(cell.node, index=away, tree=True, column=None)

    def action_scroll(self, lines: int) -> None:
        for name in ("#layer-view", "#cell-box"):
            self.query_one(name).scroll_relative(y=lines, animate=False)


class LayerView(FrameWidget):
    """The chosen view, painted. A click on the map chooses a cell."""

    EXPLAIN = "layers"
    view: reactive[View] = reactive("map", layout=True)

    def __init__(self, pick: Callable[[int, int], None]) -> None:
        super().__init__(id="layers-painted")
        self._pick = pick
        self._spots: list[MapColumn] = []
        self._layers: tuple[int, ...] = ()

    def part(self, frame: Frame) -> object:
        model = ExitsPanel.of(frame)
        return None if model is None else (model, frame.cursor.index)  # nothing is laid out while another screen is up

    def show(self, frame: Frame | None) -> None:
        self.refresh(layout=True)

    def render(self) -> Text:
        """The view in the room there is."""
        frame, model = self.frame, ExitsPanel.of(self.frame)
        if frame is None or model is None or model.heat is None:
            return Text("")
        width, painter = self.size.width or 80, self.painter
        if self.view == "passed":
            return views.staircase(model, frame.cursor.index, painter, width)
        if self.view == "calls":
            return views.ledger(model, painter, width)
        if self.view == "curves":
            return views.curves(model, painter, width)
        if self.view == "cell":
            return views.cell(model.cell, painter, width)
        return self._map(model, model.heat, frame.cursor.index, width)

    def _map(self, model: LayersModel, heat: HeatMap, index: int, width: int) -> Text:
        below = views.below(model, heat, self.painter, width)
        if self.app.size.width < NARROW and model.cell is not None:
            below[1:1] = indented(model.cell.words, width, STRONG)[:3]
        height = self.screen.query_one("#layer-view").content_size.height
        room = min(heat.n_layers + 2, max(6, height - LEFT))
        text, self._spots, self._layers = drawn(heat, index, self.painter, width, room)
        return Text("\n").join([text, *below])

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or self.view != "map" or not 1 <= offset.y <= len(self._layers):
            return
        for spot in self._spots:
            if spot.x0 <= offset.x < spot.x1:
                self._pick(spot.column, self._layers[offset.y - 1])


LABEL, LEAST, MOST = 8, 3, 10  # cells of `outcome`, of a wide column
EXIT = palette.STYLES["exit"].glyph


@dataclass(frozen=True, slots=True)
class MapColumn:
    """Cells `[x0, x1)` of a line belong to this column of the map."""

    x0: int
    x1: int
    column: int


@dataclass(frozen=True, slots=True)
class _Plan:
    """Which columns are drawn, how wide those of the present round are, and which layers."""

    first: int  # narrow ones from here
    wide: int  # those from here on are wide
    cells: int
    layers: tuple[int, ...]


def _plan(heat: HeatMap, index: int, width: int, height: int) -> _Plan:
    """As many rows of the present round as fit, then older ones for what is left."""
    mine = sum(column.index == index for column in heat.columns)
    room = width - LABEL - 1
    cells = max(LEAST, min(MOST, room // max(1, mine)))
    wide = len(heat.columns) - min(mine, max(1, room // cells))
    if heat.column is not None and heat.columns[heat.column].index == index:
        wide = min(wide, heat.column)
    older, left = wide, room - (len(heat.columns) - wide) * cells - 1
    while older and mine and left >= 1 + (heat.columns[older - 1].row == 0):
        older -= 1
        left -= 1 + (heat.columns[older].row == 0)
    return _Plan(older, wide, cells, _window(heat, height))


def _window(heat: HeatMap, height: int) -> tuple[int, ...]:
    """The layers drawn, from the top."""
    n = heat.n_layers
    if n <= height:
        return tuple(range(n, 0, -1))
    top = min(n, max(height, heat.layer + height // 2))
    return tuple(range(top, top - height, -1))


def drawn(
    heat: HeatMap, index: int, painter: Painter, width: int, height: int
) -> tuple[Text, list[MapColumn], tuple[int, ...]]:
    """Tokens, one line a layer, fates; which cells belong to which column, which line to which layer."""
    plans = _plan(heat, index, width, height - 2)
    columns = range(plans.first, len(heat.columns))
    spots, x = [], LABEL
    for k in columns:
        x += _bar(heat, plans, k)
        cells = 1 if k < plans.wide else plans.cells
        spots.append(MapColumn(x, x + cells, k))
        x += cells
    lines = [_tokens(heat, plans, painter)]
    lines += [_layer(heat, layer, plans, painter) for layer in plans.layers]
    lines.append(_fates(heat, plans, painter))
    for line in lines:
        line.truncate(width)
    return Text("\n").join(lines), spots, plans.layers


def _tokens(heat: HeatMap, plans: _Plan, painter: Painter) -> Text:
    """The token of every wide column, over its cells."""
    line = Text(" " * LABEL, no_wrap=True)
    narrow = sum(1 + (heat.columns[k].row == 0) for k in range(plans.first, plans.wide))
    line.append(pad("earlier rounds" if narrow > 15 else "", narrow), style=FAINT)
    for k in range(plans.wide, len(heat.columns)):
        column = heat.columns[k]
        style = painter.tint(column.mark) + (CURSOR if k == heat.column else PLAIN)
        line.append("│" if _bar(heat, plans, k) else "", style=FAINT)
        line.append(pad(clip(column.shown, plans.cells - 1), plans.cells - 1), style=style).append(" ")
    return line


def _bar(heat: HeatMap, plans: _Plan, k: int) -> bool:
    """Whether a round begins with this column, so that a bar stands before it: not before the very first thing."""
    return heat.columns[k].row == 0 and (k < plans.wide or plans.first < plans.wide)


def _layer(heat: HeatMap, layer: int, plans: _Plan, painter: Painter) -> Text:
    mark = "▸" if layer == heat.layer else " "
    style = STRONG if layer in heat.tested else FAINT
    line = Text(no_wrap=True).append(f"{mark}L{layer:<{LABEL - 2}}", style=style)
    for k in range(plans.first, len(heat.columns)):
        column, here = heat.columns[k], k == heat.column and layer == heat.layer
        cell, would = column.cells[layer - 1], heat.would[k] == layer
        line.append("│" if _bar(heat, plans, k) else "", style=FAINT)
        if k < plans.wide:
            line.append(*_narrow(cell, would, here, painter))
        else:
            _wide(line, column, cell, would, here, plans.cells, painter)
    return line


def _narrow(cell: ExitCell, would: bool, here: bool, painter: Painter) -> tuple[str, Style]:
    glyph, style = _sign(cell, would, painter)
    return glyph, style + (CURSOR if here else PLAIN)


def _sign(cell: ExitCell, would: bool, painter: Painter) -> tuple[str, Style]:
    """One cell: exit, would exit, band, or how it was computed when no head was asked."""
    if cell.took:
        return EXIT, painter.mark("exit") + STRONG
    if would:
        return palette.WOULD.glyph, painter.style(palette.WOULD)
    if cell.band is not None:
        style = painter.band(cell.band)
        return palette.BANDS[cell.band].glyph, style if cell.source == "test" else style + FAINT
    return ("·" if cell.kind else " "), FAINT


def _wide(line: Text, column: Column, cell: ExitCell, would: bool, here: bool, cells: int, painter: Painter) -> None:
    """Band, confidence and, at an exit, its sign; a watched value is faint and in brackets."""
    cursor = CURSOR if here else PLAIN
    if cell.band is None:
        glyph, style = _sign(cell, would, painter)
        line.append(pad(f" {glyph}" if glyph.strip() else "", cells - 1), style=style + cursor).append(" ")
        return
    style = painter.band(cell.band) + (PLAIN if cell.source == "test" else FAINT)
    sign, sign_style = _sign(cell, would, painter) if cell.took or would else ("", PLAIN)
    room = cells - 2 - len(sign)
    value = prob(cell.conf) if room >= 3 else ""
    if cell.source != "test" and room >= len(value) + 2:
        value = f"({value})"
    line.append(palette.BANDS[cell.band].glyph, style=style + cursor).append(value, style=style + cursor)
    line.append(sign, style=sign_style + cursor)
    line.append(" " * (cells - 1 - len(value) - len(sign)))


def _fates(heat: HeatMap, plans: _Plan, painter: Painter) -> Text:
    """What became of every row, below it."""
    line = Text(no_wrap=True).append("outcome ".ljust(LABEL), style=FAINT)
    for k in range(plans.first, len(heat.columns)):
        column = heat.columns[k]
        style = painter.tint(column.mark)
        line.append("│" if _bar(heat, plans, k) else "", style=FAINT)
        if k < plans.wide:
            line.append(column.glyph, style=style)
            continue
        wrong = " wrong" if column.wrong else ""
        line.append(pad(clip(f"{column.glyph}{wrong}", plans.cells - 1), plans.cells), style=style)
    return line
