"""Which layer of a target lies where, when no single device holds it: decided by size, before a weight is read.

Embedding, last norm, rotary tables and head stay whole on the first device, so laws, exit heads and drafters find them
where rows begin and end. Layers fill the devices in turn, by the library's own rule; what no memory holds is read from
disk whenever a pass comes to it.
"""

import re
from collections.abc import Mapping
from typing import Any, TypeGuard

import torch

from specviz.errors import ModelError
from specviz.text import byte_size

AUTO = "auto"
_LIMIT = re.compile(r"(cpu|cuda:\d+)=(\d+(?:\.\d+)?[KMGT]i?B)")
_FREE = 0.9  # share of the memory that is free which weights may take: caches and passes need the rest


def is_auto(device: str | None) -> TypeGuard[str]:
    """Whether a device name asks for a target to be spread over what is here."""
    return device is not None and device.partition(":")[0] == AUTO


def limits(device: str) -> dict[int | str, str] | None:
    """The most memory of each device that `auto:cpu=2GiB,cuda:0=20GiB` allows; None for plain `auto`.

    Raises ModelError for anything else.
    """
    _, given, rest = device.partition(":")
    if not given:
        return None
    found: dict[int | str, str] = {}
    for word in rest.split(","):
        match = _LIMIT.fullmatch(word)
        if match is None:
            raise ModelError(
                f"--device {device}: '{word}' is no limit; write auto, or limits like auto:cuda:0=20GiB,cpu=64GiB"
            )
        place = torch.device(match[1])
        if place.type == "cuda" and (place.index or 0) >= torch.cuda.device_count():
            raise ModelError(
                f"--device {device}: this machine has {torch.cuda.device_count()} CUDA device(s), counted from 0"
            )
        found["cpu" if place.type == "cpu" else place.index or 0] = match[2]
    return dict(sorted(found.items(), key=lambda limit: limit[0] == "cpu"))  # rows begin on a GPU where one is named


def main_of(device: str) -> torch.device:
    """Where rows begin and end: the device that is filled first. Raises ModelError."""
    return device_of(next(iter(limits(device) or _free())))


def device_map(option: str, device: str, model: Any) -> dict[str, int | str]:
    """The library's map, from names of modules to devices; empty where the first device holds all.

    `model`: it without weights (`meta`), in the dtype that it will have. Raises ModelError where its ends do not fit.
    """
    from accelerate import infer_auto_device_map
    from accelerate.utils import get_balanced_memory

    prefix, layers = _layers(option, model)
    ends = _n_bytes(model) - _n_bytes(layers)
    whole = sorted({type(layer).__name__ for layer in layers})
    room = get_balanced_memory(layers, limits(device) or _free(), no_split_module_classes=whole)
    first = next(iter(room))
    if room[first] < ends:
        raise ModelError(
            f"{option}: embedding and head take {byte_size(ends)}, and {byte_size(room[first])} may be taken on "
            f"{device_of(first)}, where rows begin and end: allow more, or take a smaller model"
        )
    room[first] -= ends
    found = infer_auto_device_map(layers, max_memory=room, clean_result=False, no_split_module_classes=whole)
    places = [_place_of(found, index) for index in range(len(layers))]
    if set(places) == {first}:
        return {}
    ends_map = dict.fromkeys(_others(model, prefix), first)
    return ends_map | {f"{prefix}.{index}": place for index, place in enumerate(places)}


def _layers(option: str, model: Any) -> tuple[str, Any]:
    """The list of layers of a model, and its name in it."""
    base = model.get_decoder()
    names = dict(base.named_children())
    layers = names.get("layers") or names.get("h")
    if layers is None:
        raise ModelError(f"{option}: no decoder layers found in {type(model).__name__}; leave out --device {AUTO}")
    return next(name for name, module in model.named_modules() if module is layers), layers


def _others(model: Any, prefix: str) -> list[str]:
    """The names of all that is no layer, as few as can be."""
    out, owner = [], ""
    for part in prefix.split("."):
        here = model.get_submodule(owner) if owner else model
        out += [f"{owner}.{name}".lstrip(".") for name, _ in here.named_children() if name != part]
        owner = f"{owner}.{part}".lstrip(".")
    return out


def _place_of(found: Mapping[str, Any], index: int) -> Any:
    return next(place for name, place in found.items() if name in ("", str(index)) or name.startswith(f"{index}."))


def _free() -> dict[int | str, int]:
    from accelerate.utils import get_max_memory

    return {device: int(_FREE * n) for device, n in get_max_memory().items()}


def device_of(name: int | str) -> torch.device:
    """A device as the library names it: a number is a GPU."""
    return torch.device("cuda", name) if isinstance(name, int) else torch.device(name)


def _n_bytes(module: Any) -> int:
    return sum(int(weight.nbytes) for weight in module.parameters())
