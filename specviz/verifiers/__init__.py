"""Verifiers: one file each with a `VERIFIER`, found by looking at this folder. Array-agnostic, no torch."""

import importlib
import pkgutil
from functools import cache

from specviz.errors import SpecvizError, suggestion
from specviz.plan import Verifier


@cache
def all_verifiers() -> dict[str, Verifier]:
    """Every verifier by name."""
    modules = [importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)]
    found = [m.VERIFIER for m in modules if hasattr(m, "VERIFIER")]
    return {v.name: v for v in sorted(found, key=lambda v: v.name)}


def get_verifier(name: str) -> Verifier:
    """The verifier of that name. Raises SpecvizError with the nearest name."""
    known = all_verifiers()
    if name not in known:
        raise SpecvizError(f"no verifier '{name}'{suggestion(name, known)}")
    return known[name]
