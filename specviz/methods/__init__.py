"""Named methods: one short file each with a `METHOD`, found by looking at this folder.

A method names its parts by path (`"package.module:attribute"`), so that reading the table, `--help` and the catalogue
import no torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from specviz.knobs import KnobSpec, KnobTable, table
from specviz.registry import discover, pick


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
    return discover(__name__, "METHOD")


def get_method(name: str) -> Method:
    """The method of that name. Raises SpecvizError with the nearest name."""
    return pick("method", name, all_methods())
