"""Values of a knob as they are listed on a command line."""

from typing import Any

from specviz.errors import KnobError, SpecvizError
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
