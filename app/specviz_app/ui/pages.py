"""The pages of the dashboard and the panels below the stage, found where they are: a module of `screens` with a `PAGE`,
with `PANELS`, or both; and panels handed to `register_below`. Nothing else lists them.

A page binds and places; figures are made in `figures`, numbers in `specviz.view`. The folder is not named `pages`:
Streamlit would take every file in such a folder for a page of its own.
"""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from specviz.view import Frame
from specviz.view.blocks import Destination
from specviz.view.panels import AnyPanel
from specviz.view.panels.built import BlockPanel, block_panels

if TYPE_CHECKING:
    from specviz_app.ui.viewer import Viewer

HOME = "specviz_app.screens"
# Addresses of pages that are panels now, or part of another page: the page, and what of it is opened.
MOVED: dict[str, tuple[str, dict[str, str]]] = {
    "live": ("stage", {"src": "live run"}),
    "rounds": ("stage", {"panel": "rounds"}),
    "watch": ("servers", {}),
}


@dataclass(frozen=True, slots=True)
class PanelBelow:
    """A panel below the stage, about the round under the cursor.

    `id` in the address; `order` in the row of panels; `asks`: the panels whose models `show` wants in its frames;
    `lacks`: why a run has nothing of it, "" where it has, by a frame with all panels; `panel`: whose recording is
    offered then.
    """

    id: str
    title: str
    order: int
    show: Callable[["Viewer", bool], object]
    asks: tuple[str, ...] = ()
    lacks: Callable[[Frame], str] = lambda frame: ""
    panel: AnyPanel | None = None


def lacks(panel: AnyPanel) -> Callable[[Frame], str]:
    """What a panel says where it has nothing."""

    def missing(frame: Frame) -> str:
        model = panel.of(frame)
        return (model.missing or "") if model is not None else ""

    return missing


def built(panel: type[BlockPanel[Any]]) -> PanelBelow:
    """A panel that is nothing but blocks; a line or a point of it leads to its round."""

    def show(viewer: "Viewer", dark: bool) -> None:
        import streamlit as st

        from specviz_app.ui import blocks

        def go(place: Destination) -> None:
            viewer.seek(place.index)
            viewer.choose(place.node)
            st.rerun()

        for toggle in panel.toggles:
            on = st.toggle(toggle.word, key=f"{panel.id}-{toggle.name}", help=toggle.help)
            viewer.options = panel.choose(viewer.options, **{toggle.name: on})
        model = panel.of(viewer.frame)
        if model is not None:
            blocks.show(model.blocks, dark, go)

    return PanelBelow(panel.id, panel.title, panel.order, show, (panel.id,), lacks(panel), panel)


@dataclass(frozen=True, slots=True)
class Page:
    """`path` in the address, `icon` by its Material name, `order` in the navigation, `help` when it is pointed at."""

    path: str
    title: str
    icon: str
    order: int
    help: str
    show: Callable[[], None]


_brought: dict[str, PanelBelow] = {}


def register_below(panel: PanelBelow) -> PanelBelow:
    """Add a panel that does not lie in `screens`, or put another in place of one."""
    _brought[panel.id] = panel
    return panel


def unregister_below(id: str) -> None:
    _brought.pop(id, None)


def _screens() -> list[ModuleType]:
    names = [module.name for module in pkgutil.iter_modules(importlib.import_module(HOME).__path__)]
    return [importlib.import_module(f"{HOME}.{name}") for name in names]


def all_below() -> list[PanelBelow]:
    """Every panel below the stage, in the order of their row."""
    panels = {panel.id: built(panel) for panel in block_panels()}
    panels |= {panel.id: panel for module in _screens() for panel in vars(module).get("PANELS", ())}
    return sorted({**panels, **_brought}.values(), key=lambda panel: panel.order)


def all_pages() -> list[Page]:
    """Every page, in the order of the navigation."""
    pages = [page for module in _screens() if isinstance(page := vars(module).get("PAGE"), Page)]
    return sorted(pages, key=lambda page: page.order)


def moved() -> dict[str, tuple[str, dict[str, str]]]:
    """Addresses that lead on: every panel has one of its own, where it has the window for itself."""
    own = {panel.id: ("stage", {"panel": panel.id, "large": "1"}) for panel in all_below()}
    pages = {page.path for page in all_pages()}
    return {path: to for path, to in {**own, **MOVED}.items() if path not in pages}
