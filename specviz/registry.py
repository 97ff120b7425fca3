"""Named parts found in a folder: one file each with one upper-case object, so that a new part touches one file."""

import importlib
import importlib.util
import pkgutil
from collections.abc import Mapping
from typing import Any, TypeVar

from specviz.errors import SpecvizError, suggestion

T = TypeVar("T")


def discover(package: str, attribute: str) -> dict[str, Any]:
    """The `attribute` of every module of a package that has one, by its `name`, sorted."""
    folder = importlib.import_module(package).__path__
    modules = [importlib.import_module(f"{package}.{found.name}") for found in pkgutil.iter_modules(folder)]
    parts = [getattr(module, attribute) for module in modules if hasattr(module, attribute)]
    return {part.name: part for part in sorted(parts, key=lambda part: part.name)}


def discover_kind(package: str, kind: type[T], module: str) -> dict[str, T]:
    """Every object of a kind in the module of that name of every sub-package of a package, by its `name`, sorted.

    Sub-packages without such a module hold what others share.
    """
    parts: dict[str, T] = {}
    for folder in pkgutil.iter_modules(importlib.import_module(package).__path__):
        home = f"{package}.{folder.name}.{module}"
        if folder.ispkg and importlib.util.find_spec(home):
            found = [part for part in vars(importlib.import_module(home)).values() if isinstance(part, kind)]
            parts |= {part.name: part for part in found}  # type: ignore[attr-defined]
    return dict(sorted(parts.items()))


def pick(kind: str, name: str, known: Mapping[str, T]) -> T:
    """The part of that name. Raises SpecvizError with the nearest name."""
    if name not in known:
        raise SpecvizError(f"no {kind} '{name}'{suggestion(name, known)}")
    return known[name]
