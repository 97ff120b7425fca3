"""Knobs as one types them in a line: `gamma=6 temperature=.8`."""

from typing import Any

from specviz.errors import SpecvizError, suggestion
from specviz.knobs import KnobSpec


def parse_settings(text: str, specs: list[KnobSpec]) -> dict[str, Any]:
    """`gamma=6 temperature=.8` as checked values. Raises SpecvizError with the nearest name or the range."""
    by_name = {spec.name: spec for spec in specs}
    values: dict[str, Any] = {}
    for word in text.split():
        name, equals, value = word.partition("=")
        if not equals:
            raise SpecvizError(f"'{word}' is no setting; write name=value, as in gamma=6")
        if name not in by_name:
            raise SpecvizError(f"no knob '{name}'{suggestion(name, by_name)}")
        values[name] = by_name[name].check(value)
    return values


def carried(text: str, old: list[KnobSpec], new: list[KnobSpec]) -> tuple[str, list[str]]:
    """What was typed for a method, for another one: without what only the first takes, which is told: `gamma=6`.

    A word that was wrong before stays, to be told as wrong.
    """
    kept, gone = [], []
    for word in text.split():
        try:
            parse_settings(word, old)
        except SpecvizError:
            kept.append(word)
            continue
        try:
            parse_settings(word, new)
            kept.append(word)
        except SpecvizError:
            gone.append(word)
    return " ".join(kept), gone


def settings(values: dict[str, Any], specs: list[KnobSpec]) -> str:
    """The values that differ from their defaults, as one types them."""
    plain = {spec.name: spec.default for spec in specs if spec.kind != "texts"}
    words = {True: "on", False: "off"}
    chosen = [(n, v) for n, v in values.items() if n in plain and v != plain[n]]
    return " ".join(f"{name}={words[v] if isinstance(v, bool) else v}" for name, v in chosen)
