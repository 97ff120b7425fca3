"""Values of knobs as they are listed on a command line."""

from collections.abc import Mapping, Sequence
from typing import Any

from specviz.errors import KnobError, SpecvizError, suggestion
from specviz.knobs import KnobSpec


def each_value(spec: KnobSpec, text: str) -> list[Any]:
    """`1,2,5` or `1..5`, each a value that the knob may have. Raises SpecvizError."""
    out: list[Any] = []
    for word in text.split(","):
        first, dots, last = word.strip().partition("..")
        ends = [first, last] if dots and spec.kind == "int" else [word.strip()]
        try:
            low, high = (spec.check(end) for end in (ends[0], ends[-1]))
        except KnobError as error:
            example = "0..6 or 2,4,6" if spec.kind == "int" else "0.5,0.75"
            raise SpecvizError(f"{spec.flag}: {error}; write values such as {example}") from None
        out += range(low, high + 1) if len(ends) > 1 else [low]
    if not out:
        raise SpecvizError(f"{spec.flag} {text}: the range is empty; write the lower end first")
    return out


def varied(
    words: Sequence[str], specs: Mapping[str, KnobSpec], of: str, fixed: Mapping[str, str]
) -> dict[str, list[Any]]:
    """The values of the knobs that `--vary gamma=2,4,8` names, each once. Raises SpecvizError.

    `of`: the methods whose knobs `specs` are; `fixed`: what sets a knob that is one for all settings.
    """
    out: dict[str, list[Any]] = {}
    for word in words:
        typed, _, values = word.partition("=")
        name = typed.strip().removeprefix("--").replace("-", "_")
        if name in fixed:
            raise SpecvizError(f"--vary {name}: all settings have the same; give {fixed[name]}")
        if name not in specs or not values:
            near = suggestion(name, specs) if name not in specs else "; write --vary gamma=2,4,8"
            raise SpecvizError(f"--vary {word[:40]}: no knob of {of} with values{near}")
        if name in out:
            raise SpecvizError(f"--vary names '{name}' twice; write all its values in one")
        out[name] = list(dict.fromkeys(each_value(specs[name], values)))
    return out
