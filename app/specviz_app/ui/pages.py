"""The pages of the dashboard, found where they are: a module of `screens` with a `PAGE`, or one handed to
`register_page`. Nothing else lists them.

A page binds and places; figures are made in `figures`, numbers in `specviz.view`. The folder is not named `pages`:
Streamlit would take every file in such a folder for a page of its own.
"""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

HOME = "specviz_app.screens"
NOTHING = "No round yet. Choose a run on the left, or start one on the page Live."


@dataclass(frozen=True, slots=True)
class Page:
    """`path` in the address, `icon` by its Material name, `order` in the navigation, `help` when it is pointed at.

    `nothing`: what the page says while there is no run to show.
    """

    path: str
    title: str
    icon: str
    order: int
    help: str
    show: Callable[[], None]
    nothing: str = NOTHING


_brought: dict[str, Page] = {}


def register_page(page: Page) -> Page:
    """Add a page that does not lie in `screens`, or put another in place of one."""
    _brought[page.path] = page
    return page


def unregister_page(path: str) -> None:
    _brought.pop(path, None)


def all_pages() -> list[Page]:
    """Every page, in the order of the navigation."""
    names = [found.name for found in pkgutil.iter_modules(importlib.import_module(HOME).__path__)]
    modules = [importlib.import_module(f"{HOME}.{name}") for name in names]
    found = {page.path: page for module in modules if isinstance(page := vars(module).get("PAGE"), Page)}
    return sorted({**found, **_brought}.values(), key=lambda page: page.order)
