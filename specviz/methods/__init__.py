"""Named methods: one short file each with a `METHOD`, found by looking at this folder.

A method names its parts by path (`"package.module:attribute"`), so that reading the table, `--help` and the catalogue
import no torch.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from specviz.errors import SpecvizError, suggestion
from specviz.knobs import KnobSpec, KnobTable, table


@dataclass(frozen=True, slots=True)
class Method:
    """Drafter + verifier + knobs. `drafter` names a factory `(models, knobs) -> Drafter`; None drafts nothing."""

    name: str
    help: str
    drafter: str | None
    knobs: tuple[KnobSpec, ...] = ()
    needs_draft: bool = False
    verifiers: tuple[str, ...] = ("walk",)
    default_verifier: tuple[str, str] = ("walk", "walk")  # at T = 0, at T > 0

    @property
    def table(self) -> KnobTable:
        """All knobs, those of sampling and run included."""
        return table(self.name, self.knobs)

    def verifier_for(self, knobs: Mapping[str, Any]) -> str:
        """The default verifier under these knob values; `walk` for point-mass trees and shared noise."""
        if knobs.get("shape") == "tree" or knobs.get("draft_mode") == "shared":
            return "walk"
        return self.default_verifier[0 if knobs.get("temperature", 0) == 0 else 1]


@cache
def all_methods() -> dict[str, Method]:
    """Every method by name."""
    modules = [importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)]
    found = [m.METHOD for m in modules if hasattr(m, "METHOD")]
    return {m.name: m for m in sorted(found, key=lambda m: m.name)}


def get_method(name: str) -> Method:
    """The method of that name. Raises SpecvizError with the nearest name."""
    known = all_methods()
    if name not in known:
        raise SpecvizError(f"no method '{name}'{suggestion(name, known)}")
    return known[name]
