"""What is tried: each knob that has a symbol in its paper and keeps the text, from the method's own table of knobs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from specviz.knobs import RUN, SAMPLING, KnobSpec
from specviz.methods import Method

_WHOLE = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 60)
_SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_TIMES = (0.25, 0.5, 1.0, 2.0)  # of the default, where a knob is no share
_FAR = 4  # times the default: whole numbers beyond are not tried
_FIXED = frozenset(spec.name for spec in (*SAMPLING, *RUN))


@dataclass(frozen=True, slots=True)
class KnobSetting:
    """A method and the knobs that are searched, where they are not at their defaults; what all share is not in it."""

    method: str
    knobs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """`draft, gamma 6`; the method alone where all stands at its default."""
        return ", ".join([self.method, *(f"{name} {value}" for name, value in self.knobs.items())])

    def with_(self, **knobs: Any) -> "KnobSetting":
        return KnobSetting(self.method, {**self.knobs, **knobs})


def tunable(method: Method, fixed: Mapping[str, Any]) -> list[KnobSpec]:
    """The knobs that are searched: numbers that shape the draft and have an effect beside `fixed`, which are not."""
    values = method.table.knobs(fixed)
    return [
        spec
        for spec in method.table.specs
        if spec.kind in ("int", "float") and spec.symbol and spec.text == "K"
        if spec.name not in _FIXED and spec.name not in fixed
        if all(str(values[name]) in allowed for name, allowed in spec.needs.items())
    ]


def ladder(spec: KnobSpec) -> list[Any]:
    """The values of a knob that are tried, rising, its default among them."""
    low, high = spec.lo, spec.hi
    if spec.kind == "float":
        shares = high is not None and high < _TIMES[-1]
        values: Iterable[float] = _SHARES if shares else (spec.default * times for times in _TIMES)
        inside = [value for value in values if (low is None or value >= low) and (high is None or value <= high)]
        return sorted({*inside, spec.default})
    most = _FAR * spec.default if spec.default > 0 else _WHOLE[-1]
    if high is not None:
        most = min(most, high)
    return sorted({*(value for value in _WHOLE if (low is None or value >= low) and value <= most), spec.default})


def one_at_a_time(method: Method, fixed: Mapping[str, Any], asked: Mapping[str, list[Any]]) -> list[KnobSetting]:
    """The method as it is, then every knob by itself at every other value. `asked`: values that were named by hand."""
    base = KnobSetting(method.name)
    own = {name for name in asked if any(spec.name == name for spec in method.table.specs)}
    specs = [method.table.spec(name) for name in own] if own else tunable(method, fixed)
    tried = [
        base.with_(**{spec.name: value})
        for spec in specs
        for value in (asked[spec.name] if own else ladder(spec))
        if value != spec.default
    ]
    return [base, *tried]
