"""The pages of the dashboard, found where they are: a module of `screens` with a `PAGE`, or one handed to
`register_page`. Nothing else lists them.

A page binds and places; figures are made in `figures`, numbers in `specviz.view`. The folder is not named `pages`:
Streamlit would take every file in such a folder for a page of its own.
"""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specviz.view import Frame
from specviz.view.panels import AnyPanel

if TYPE_CHECKING:
    from specviz_app.ui.viewer import Viewer

HOME = "specviz_app.screens"
NOTHING = "No round yet. Choose a run at the top, or start one on the page Live."


@dataclass(frozen=True, slots=True)
class Below:
    """What stands below the stage when its tab is open: the body of a page, about the round under the cursor.

    `id` in the address; `asks`: the panels whose models `show` wants in its frames; `lacks`: why a run has nothing of
    it, "" where it has, by a frame with all panels; `panel`: whose recording is offered then.
    """

    id: str
    title: str
    show: Callable[["Viewer", bool], object]
    asks: tuple[str, ...] = ()
    lacks: Callable[[Frame], str] = lambda frame: ""
    panel: AnyPanel | None = None


def lacks(panel: AnyPanel) -> Callable[[Frame], str]:
    """What a panel says where it has nothing."""

    def missing(frame: Frame) -> str:
        found = panel.of(frame)
        return (found.missing or "") if found is not None else ""

    return missing


@dataclass(frozen=True, slots=True)
class Page:
    """`path` in the address, `icon` by its Material name, `order` in the navigation, `help` when it is pointed at.

    `nothing`: what the page says while there is no run to show. `below`: what of it stands below the stage.
    """

    path: str
    title: str
    icon: str
    order: int
    help: str
    show: Callable[[], None]
    nothing: str = NOTHING
    below: tuple[Below, ...] = ()


_brought: dict[str, Page] = {}


def register_page(page: Page) -> Page:
    """Add a page that does not lie in `screens`, or put another in place of one."""
    _brought[page.path] = page
    return page


def unregister_page(path: str) -> None:
    _brought.pop(path, None)


def all_below() -> list[Below]:
    """Every panel below the stage, in the order of their pages."""
    return [below for page in all_pages() for below in page.below]


def all_pages() -> list[Page]:
    """Every page, in the order of the navigation."""
    names = [found.name for found in pkgutil.iter_modules(importlib.import_module(HOME).__path__)]
    modules = [importlib.import_module(f"{HOME}.{name}") for name in names]
    found = {page.path: page for module in modules if isinstance(page := vars(module).get("PAGE"), Page)}
    return sorted({**found, **_brought}.values(), key=lambda page: page.order)
