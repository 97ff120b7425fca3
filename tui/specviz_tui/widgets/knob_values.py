"""The next value of a knob when an arrow is pressed, and how its range reads."""

from typing import Any

from specviz.view.frame.frame import KnobItem
from specviz.view.words.numbers import knob as shown

STEPS = 20  # a real range has so many steps; one without an end moves by a tenth


def has_slider(item: KnobItem) -> bool:
    """Whether the value stands in a range with two ends."""
    return item.fill is not None and item.lo is not None and item.hi is not None


def span(item: KnobItem) -> str:
    """`0..64`, `0..`, `chain, tree`."""
    if item.choices:
        return ", ".join(item.choices)
    if item.kind == "bool":
        return "on, off"
    if item.kind == "texts":
        return "texts"
    lo, hi = (shown(end) if end is not None else "" for end in (item.lo, item.hi))
    return f"{lo}..{hi}"


def stepped(item: KnobItem, value: Any, step: int) -> Any:
    """The value one step up or down from `value`, kept inside the range."""
    if item.kind == "bool":
        return not value
    if item.choices:
        at = item.choices.index(value) if value in item.choices else 0
        return item.choices[(at + step) % len(item.choices)]
    if item.kind == "int":
        return int(_inside(item, int(value) + step))
    if item.kind == "float":
        return _inside(item, round(float(value) + step * _grain(item), 6))
    return value


def _grain(item: KnobItem) -> float:
    if item.lo is None or item.hi is None:
        return 0.1
    return (item.hi - item.lo) / STEPS


def _inside(item: KnobItem, value: float) -> float:
    if item.hi is not None and value > item.hi:
        return item.hi
    if item.lo is not None and value < item.lo:
        return item.lo
    return value


def parsed(item: KnobItem, text: str) -> Any:
    """What was typed, as the kind of the knob; the core checks it again. Raises ValueError."""
    text = text.strip()
    if item.kind == "int":
        return int(text)
    if item.kind == "float":
        return float(text)
    if item.kind == "bool":
        return {"on": True, "off": False, "true": True, "false": False}[text.lower()]
    return [text] if item.kind == "texts" else text
