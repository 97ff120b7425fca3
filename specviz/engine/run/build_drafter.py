"""A method's drafter for a run, room for its drafts, and its knobs with the ranges that its models give them."""

import importlib
from collections.abc import Mapping
from typing import Any

from specviz.engine.decode.drafter import Drafter
from specviz.engine.model.adapter import FactoryModels
from specviz.knobs import Knobs, KnobTable
from specviz.methods import Method


def make_drafter(method: Method, models: FactoryModels, knobs: Knobs) -> Drafter | None:
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
    if drafter is None:
        return table, table.knobs(given)
    own = KnobTable(table.method, tuple(drafter.fitted(spec) for spec in table.specs))
    chosen = {name: value for name, value in table.check(given).items() if value != table.spec(name).default}
    return own, own.knobs(chosen)
