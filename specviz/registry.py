"""Named parts found in a folder, so that a new part touches one file."""

import importlib
import importlib.util
import pkgutil
from collections.abc import Mapping
from typing import Protocol, TypeVar

from specviz.errors import SpecvizError, suggestion


class Named(Protocol):
    """A part with a name of its own."""

    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=Named)
T = TypeVar("T")


def discover(package: str, kind: type[N], module: str = "") -> dict[str, N]:
    """Every object of a kind in the modules of a package, by its `name`, sorted.

    `module`: looked for in the module of that name of every sub-package; those without it hold what others share.
    """
    parts: dict[str, N] = {}
    for module_info in pkgutil.iter_modules(importlib.import_module(package).__path__):
        home = f"{package}.{module_info.name}.{module}".rstrip(".")
        if not module or (module_info.ispkg and importlib.util.find_spec(home)):
            here = vars(importlib.import_module(home)).values()
            parts |= {part.name: part for part in here if isinstance(part, kind)}
    return dict(sorted(parts.items()))


def pick(kind: str, name: str, known: Mapping[str, T]) -> T:
    """The part of that name. Raises SpecvizError with the nearest name."""
    if name not in known:
        raise SpecvizError(f"no {kind} '{name}'{suggestion(name, known)}")
    return known[name]
