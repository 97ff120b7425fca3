"""What a method's drafter brings to a run: itself, trained parts, and knobs with the ranges its models give them.

All but the factory is optional on a drafter: `fitted(spec) -> KnobSpec`, the knob as it is for the loaded models;
`parts() -> dict[str, str]`, trained parts in words, for the header; `calibrated`, whether views of this method want to
know what passes cost on this machine (by default those that overlap two models, or brought a clock of their own).
"""

import importlib
from collections.abc import Mapping
from typing import Any

from specviz.engine.decode.context import Drafter
from specviz.engine.model.adapter import Models
from specviz.knobs import Knobs, KnobTable
from specviz.methods import Method


def make_drafter(method: Method, models: Models, knobs: Knobs) -> Drafter | None:
    """The method's drafter, from the factory it names."""
    if method.drafter is None:
        return None
    module, _, attribute = method.drafter.partition(":")
    drafter: Drafter = getattr(importlib.import_module(module), attribute)(models, knobs)
    return drafter


def in_flight(method: Method, knobs: Knobs) -> int:
    """Slots a cache needs besides the text, for the widest draft a round may have under these knobs, changed live."""
    return max(2 * 256, method.cache_slots(knobs.values)) + 64


def fitted(table: KnobTable, drafter: Drafter | None, given: Mapping[str, Any]) -> tuple[KnobTable, Knobs]:
    """The table for the loaded models, and the snapshot of what was given under it.

    A value that only says the method's own default leaves the choice to the models.
    """
    fit = getattr(drafter, "fitted", None)
    if fit is None:
        return table, table.knobs(given)
    own = KnobTable(table.method, tuple(fit(spec) for spec in table.specs))
    chosen = {name: value for name, value in table.check(given).items() if value != table.spec(name).default}
    return own, own.knobs(chosen)


def parts(drafter: Drafter | None) -> dict[str, str]:
    """Trained parts by name, in words."""
    tell = getattr(drafter, "parts", None)
    return {} if tell is None else dict(tell())


def wants_calibration(drafter: Drafter | None) -> bool:
    """Whether a recorded run should say what passes cost here."""
    ahead = hasattr(drafter, "meanwhile") or getattr(drafter, "clock", None) is not None
    return bool(getattr(drafter, "calibrated", ahead))
