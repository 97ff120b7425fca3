"""`PanelPane`: a panel of the view in place of the tree, and where panes are found: a module each in `panels`.

A pane declares everything about its screen: the key that opens it, its own keys, its pages of the guide. Its style
sheet, if it has one, lies beside its module. Panes from elsewhere are handed to `register`.
"""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, cast

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.geometry import Region
from textual.reactive import reactive
from textual.widgets import Static

from specviz.view.blocks import TableBlock, ordered
from specviz.view.frame.frame import Frame, PanelOptions
from specviz.view.panels import AnyPanel, Panel, PanelModel
from specviz.view.panels.built import BlockModel, BlockPanel, block_panels
from specviz_tui.common.blocks import cursor_line, painted
from specviz_tui.common.frame_widget import KEEP, Asked, Keep, OfferTaken, PanelBox
from specviz_tui.common.keymap import Key, bindings, page_keys
from specviz_tui.common.paint import Painter

HOME = "specviz_tui.panels"
NARROW = 100  # cells of a screen below which one part is shown at a time

OptionsT = TypeVar("OptionsT", bound=PanelOptions)
ModelT = TypeVar("ModelT", bound=PanelModel)
AnyPane = type["PanelPane[Any, Any]"]


def opens(id: str, digit: str, panel: AnyPanel, help: str) -> Key:
    """The key that brings a panel on screen."""
    return Key(id, digit, f"go_to('{panel.id}')", digit, help, "Screen")


class PanelPane(VerticalScroll, Generic[OptionsT, ModelT], can_focus=True, inherit_bindings=False):
    """Everything of a screen below the text strip. Without a model to show it says why."""

    PANEL: ClassVar[AnyPanel]
    BESIDE: ClassVar[tuple[AnyPanel, ...]] = ()  # other panels whose models it shows
    OPEN: ClassVar[Key]  # how the screen is called up
    KEYS: ClassVar[tuple[Key, ...]] = ()  # while it has the focus, of one group
    PAGES: ClassVar[Mapping[str, tuple[str, str]]]  # of the guide: name to title and text, its own first
    EXPLAIN: ClassVar[str] = ""  # the page of F1
    frame: reactive[Frame | None] = reactive(None, repaint=False, init=False)
    offer: reactive[str] = reactive("", init=False)  # a recording that fills it, in words

    def __init_subclass__(cls, **how: Any) -> None:
        """Keys are bound, F1 leads to the first page."""
        if cls.KEYS:
            cls.BINDINGS, cls.EXPLAIN = bindings(cls.KEYS), next(iter(cls.PAGES))
        super().__init_subclass__(**how)

    def __init__(self) -> None:
        super().__init__(id=self.PANEL.id)
        self.chosen = self._start()
        self._said: str | None = None

    def _start(self) -> OptionsT:
        return cast(OptionsT, self.PANEL.options())

    def compose(self) -> ComposeResult:
        """The reason that stands in place of the parts, then the parts."""
        yield Static("", classes="reason", markup=False)
        yield from self.parts()

    def parts(self) -> ComposeResult:
        raise NotImplementedError

    def box(
        self, paint: Callable[[ModelT, Painter, int], Text], title: Text | str = "", id: str | None = None
    ) -> PanelBox:
        """A part of the model as text, see `PanelBox`."""
        return PanelBox(self.PANEL, paint, title, id).data_bind(PanelPane.frame)

    @property
    def model(self) -> ModelT | None:
        """The panel's model in the frame on screen."""
        return cast("type[Panel[OptionsT, ModelT]]", self.PANEL).of(self.frame)

    @property
    def narrow(self) -> bool:
        """Whether only one part fits."""
        return self.app.size.width < NARROW

    def watch_frame(self, frame: Frame | None) -> None:
        """The reason in place of the parts, when there is nothing to show."""
        model = self.model
        if frame is None or model is None:
            return
        self._say(model.missing)
        self.show(frame, model)

    def _say(self, missing: str | None) -> None:
        """Why there is nothing to show, and what would show it."""
        words = "\n\n".join(filter(None, (missing, self.offer))) if missing is not None else ""
        if words != self._said:
            self._said = words
            self.set_class(missing is not None, "-missing")
            self.query_one(".reason", Static).update(words)

    @property
    def missing(self) -> str | None:
        """Why there is nothing to show; None where there is."""
        return self.model.missing if self.model is not None else None

    def watch_offer(self) -> None:
        self._say(self.missing)

    def on_key(self, event: events.Key) -> None:
        """Where there is nothing to show, enter takes what is offered."""
        if event.key == "enter" and self.missing is not None and self.offer:
            event.stop()
            event.prevent_default()
            self.post_message(OfferTaken())

    def show(self, frame: Frame, model: ModelT) -> None:
        """Another moment."""

    # What a person chose ---------------------------------------------------------------------------------------------

    def choose(
        self,
        node: int | Keep | None = KEEP,
        *,
        index: int | None = None,
        tree: bool = False,
        hold: bool = False,
        **changes: Any,
    ) -> None:
        """Other options of the panel; and have the screen look elsewhere, see `Asked`."""
        self.chosen = replace(self.chosen, **changes)
        self.post_message(Asked(node, index, tree, hold))

    def back(self) -> bool:
        """Escape: leave what is open inside. Whether anything was."""
        return False

    def restart(self) -> None:
        """Another run: as in the beginning."""
        self.chosen, self.offer = self._start(), ""

    def action_scroll(self, lines: int) -> None:
        self.scroll_relative(y=lines, animate=False)


class PartedPane(PanelPane[OptionsT, ModelT]):
    """A pane of which one part is seen at a time, or one with its companions where there is room."""

    WIDE: ClassVar[tuple[str, ...]]
    SMALL: ClassVar[tuple[str, ...]]  # on a narrow screen
    part: reactive[str] = reactive("", init=False)

    def __init__(self) -> None:
        super().__init__()
        self.set_reactive(PartedPane.part, self.WIDE[0])

    def put_parts(self) -> None:
        """Show the part that is chosen."""
        raise NotImplementedError

    def on_mount(self) -> None:
        self.put_parts()

    def on_resize(self) -> None:
        self.put_parts()

    def watch_part(self) -> None:
        self.put_parts()

    def action_view(self, by: int) -> None:
        """The part behind or before."""
        parts = self.SMALL if self.narrow else self.WIDE
        at = parts.index(self.part) if self.part in parts else 0
        self.part = parts[(at + by) % len(parts)]


class BlockPane(PanelPane[PanelOptions, BlockModel]):
    """A panel that is nothing but blocks, in one box. Of its tables one is in hand: its lines have a cursor, its
    columns sort it."""

    def __init__(self) -> None:
        super().__init__()
        self._table = self._line = 0
        self._column: int | None = None  # that sorts the table in hand; None: as it came
        self._descending = True
        self._cursor_line: int | None = None

    def parts(self) -> ComposeResult:
        yield self.box(self._painted, self.PANEL.title)

    def restart(self) -> None:
        super().restart()
        self._take(0)

    def _tables(self) -> list[TableBlock]:
        blocks = self.model.blocks if self.model is not None else ()
        return [block for block in blocks if isinstance(block, TableBlock) and block.rows and block.places]

    def _take(self, table: int) -> None:
        self._table, self._line, self._column, self._descending = table, 0, None, True

    def _in_hand(self) -> TableBlock | None:
        """That table as it is sorted, with its cursor; None without one."""
        tables = self._tables()
        if not tables:
            return None
        table = tables[self._table % len(tables)]
        heads = table.heads
        if self._column is not None:
            table = ordered(table, self._column, self._descending)
            sign = "▾" if self._descending else "▴"
            heads = tuple(f"{head} {sign}" if k == self._column else head for k, head in enumerate(heads))
        return replace(table, heads=heads, cursor=min(self._line, len(table.rows) - 1))

    def _painted(self, model: BlockModel, painter: Painter, cells: int) -> Text:
        table, lines = self._in_hand(), list[Text]()
        self._cursor_line = None
        for block in model.blocks:
            lines += [Text("")] if lines else []
            if table is None or not isinstance(block, TableBlock) or block.key != table.key:
                lines += painted([block], painter, cells, titles=True).split(allow_blank=True)
                continue
            here = painted([table], painter, cells, titles=True).split(allow_blank=True)
            body = len(painted([table], painter, cells).split(allow_blank=True))
            self._cursor_line = len(lines) + len(here) - body + cursor_line(table)
            lines += here
        return Text("\n").join(lines)

    def _changed(self) -> None:
        """Paint again, with the cursor in sight."""
        box = self.query_one(PanelBox)
        box.refresh(layout=True)
        self.call_after_refresh(self._follow)

    def _follow(self) -> None:
        if self._cursor_line is not None:
            self.scroll_to_region(Region(0, self._cursor_line + 1, 1, 1), center=True, animate=False)

    def action_option(self, name: str) -> None:
        self.choose(**{name: not getattr(self.chosen, name)})

    def action_line(self, by: int) -> None:
        """The cursor to another line; without a table it scrolls."""
        table = self._in_hand()
        if table is None:
            self.action_scroll(by)
        else:
            self._line = max(0, min(len(table.rows) - 1, self._line + by))
            self._changed()

    def action_sort(self, by: int) -> None:
        """By another column, the largest first; beyond the last one as the table came. 0: turned round."""
        table = self._in_hand()
        if table is None:
            return
        if by:
            at = -1 if self._column is None else self._column
            at = (at + by + 1) % (len(table.heads) + 1) - 1
            self._column, self._descending = (None if at < 0 else at), True
        else:
            self._descending = not self._descending
        self._line = 0
        self._changed()

    def action_table(self) -> None:
        """The next table."""
        self._take(self._table + 1)
        self._changed()

    def action_place(self) -> None:
        """To the round, or the node of it, that the line under the cursor speaks of."""
        table = self._in_hand()
        place = table.places[table.cursor or 0] if table is not None else None
        if place is not None:
            self.choose(KEEP if place.node is None else place.node, index=place.index, tree=True)


def _table_keys(panel: type[BlockPanel[Any]]) -> tuple[Key, ...]:
    id, group = panel.id, panel.title
    return (
        Key(f"{id}.up", "up,k", "line(-1)", "↑ k", "the line above; without a table: scroll", group),
        Key(f"{id}.down", "down,j", "line(1)", "↓ j", "the line below; without a table: scroll", group),
        Key(f"{id}.sort_before", "left", "sort(-1)", "←", "sort by the column before", group),
        Key(f"{id}.sort", "right", "sort(1)", "→", "sort by the next column, the largest first", group, "sort"),
        Key(f"{id}.turn", "s", "sort(0)", "s", "the smallest first, or the largest again", group),
        Key(f"{id}.table", "v", "table", "v", "the next table", group, "table"),
        Key(f"{id}.place", "enter", "place", "enter", "to the place in the draft tree", group, "go"),
    )


@cache
def block_pane(panel: type[BlockPanel[Any]]) -> AnyPane:
    """The pane of such a panel: its keys, and what it says of itself in the guide."""
    toggles = (
        Key(f"{panel.id}.{t.name}", t.key, f"option('{t.name}')", t.key, t.help, panel.title, t.word)
        for t in panel.toggles
    )
    parts = {
        "PANEL": panel,
        "OPEN": opens(f"screen.{panel.id}", panel.key, panel, f"{panel.title}: {panel.about.partition('.')[0]}"),
        "KEYS": (*toggles, *_table_keys(panel), *page_keys(panel.id, panel.title)),
        "PAGES": {panel.id: (panel.title, panel.about)},
    }
    return type(f"{panel.__name__}Pane", (BlockPane,), parts)


_brought: dict[str, AnyPane] = {}


def register(pane: AnyPane) -> AnyPane:
    """Add a pane that does not lie in `specviz_tui.panels`. To be used as a decorator."""
    _brought[pane.PANEL.id] = pane
    return pane


def unregister(id: str) -> None:
    """Forget a pane that was brought."""
    _brought.pop(id, None)


def all_panes() -> tuple[AnyPane, ...]:
    """Every pane, by the key that opens it: a panel that is nothing but blocks needs none of its own."""
    built = {panel.id: block_pane(panel) for panel in block_panels()}  # type: ignore[arg-type]
    return tuple(sorted({**built, **_found(), **_brought}.values(), key=lambda pane: pane.OPEN.keys))


@cache
def _found() -> dict[str, AnyPane]:
    places = {}
    for module in pkgutil.iter_modules(importlib.import_module(HOME).__path__):
        home = f"{HOME}.{module.name}"
        for pane in vars(importlib.import_module(home)).values():
            if isinstance(pane, type) and issubclass(pane, PanelPane) and pane.__module__ == home:
                places[pane.PANEL.id] = pane
    return places


def style_sheets() -> list[Path]:
    """Those that lie beside the panes."""
    return sorted(Path(importlib.import_module(HOME).__path__[0]).glob("*.tcss"))
