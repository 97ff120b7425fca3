"""Where models stand, and what follows from it when they do not stand in the same place."""

from dataclasses import replace
from typing import Any

import torch

from specviz.engine.decode.context import Models
from specviz.engine.model.adapter import Model
from specviz.probability.draft import Draft


def device_of(model: Model | None) -> torch.device:
    """The device a model computes on; the host for what has none."""
    found: torch.device | None = getattr(model, "device", None)
    return torch.device("cpu") if found is None else found


def cuda_devices(models: Models) -> tuple[torch.device, ...]:
    """Those a clock must wait for."""
    places = [device_of(models.target), device_of(models.draft)]
    return tuple(dict.fromkeys(place for place in places if place.type == "cuda"))


def beside(draft: Draft, target: Model) -> Draft:
    """The draft with its laws where the target's rows are: a draft model elsewhere leaves them there."""
    laws: Any = draft.law_rows
    place = device_of(target)
    if not isinstance(laws, torch.Tensor) or laws.device == place:
        return draft
    return replace(draft, law_rows=laws.to(place))
