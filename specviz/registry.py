"""Named parts found in a folder: one file each with one upper-case object, so that a new part touches one file."""

import importlib
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


def pick(kind: str, name: str, known: Mapping[str, T]) -> T:
    """The part of that name. Raises SpecvizError with the nearest name."""
    if name not in known:
        raise SpecvizError(f"no {kind} '{name}'{suggestion(name, known)}")
    return known[name]
