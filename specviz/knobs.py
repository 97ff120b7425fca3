"""Knobs: one table per method, from which command-line flags, controls and checks are made.

A spec is keyed by (method, name): range, default and help may differ between methods. `Knobs` is the frozen snapshot
a round runs with; a change makes a new snapshot with the next version, and takes effect at the next round (applies
R), query (Q) or run (X).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import msgspec

from specviz.errors import KnobError, suggestion

Applies = Literal["R", "Q", "X"]
Kind = Literal["int", "float", "choice", "bool", "texts"]
# What a smaller draft leaves out: levels below this one; children beyond so many, of nodes below the root or of the
# root (heads); what follows a place where the draft was less sure.
Cut = Literal["", "depth", "children", "heads", "unsure"]


class KnobSpec(msgspec.Struct, kw_only=True, frozen=True):
    """One knob of one method. `text`: K keeps the tokens under walk, T changes the text, L is lossy."""

    name: str
    kind: Kind
    default: Any
    help: str
    symbol: str = ""
    lo: float | None = None
    hi: float | None = None
    lo_open: bool = False  # the range is (lo, hi]
    choices: tuple[str, ...] = ()
    applies: Applies = "R"
    text: Literal["K", "T", "L"] = "K"
    needs: dict[str, list[str]] = {}  # has an effect only while these knobs have one of these values
    cuts: Cut = ""  # a draft of another value is this part of the one that was drafted, where it asks for less

    @property
    def flag(self) -> str:
        """The command-line option."""
        return "--" + self.name.replace("_", "-")

    @property
    def range(self) -> str:
        """The allowed values, for help and errors."""
        if self.kind == "choice":
            return ", ".join(self.choices)
        if self.kind in ("bool", "texts"):
            return {"bool": "on, off", "texts": "texts"}[self.kind]
        lo, hi = ("" if v is None else f"{v:.16g}" for v in (self.lo, self.hi))
        return f"{'above ' if self.lo_open else ''}{lo}..{hi}"

    def check(self, value: Any) -> Any:
        """The value in its own type. Raises KnobError with the value seen and the range."""
        try:
            parsed = _PARSERS[self.kind](value)
        except (TypeError, ValueError, OverflowError):
            raise self._error(value) from None
        if self.kind == "choice" and parsed not in self.choices:
            raise KnobError(f"knob {self.name}: no value '{value}'{suggestion(str(value), self.choices)}")
        if self.kind in ("int", "float") and not self._inside(parsed):
            raise self._error(value)
        return parsed

    def _inside(self, value: float) -> bool:
        above = self.lo is None or (value > self.lo if self.lo_open else value >= self.lo)
        return above and (self.hi is None or value <= self.hi)

    def _error(self, value: Any) -> KnobError:
        if self.kind == "texts":
            texts = list(value) if isinstance(value, tuple) else value
            return KnobError(f"knob {self.name}: {texts!r} is no text; give one or more, none of them empty")
        wanted = {"int": "a whole number", "float": "a number"}.get(self.kind, "a value")
        default = {True: "on", False: "off"}[self.default] if self.kind == "bool" else self.default
        return KnobError(f"knob {self.name}: {value!r} is not {wanted} in {self.range} (default {default})")


def whole(name: str, lo: float, hi: float, default: int, help: str, **more: Any) -> KnobSpec:
    """A whole number in [lo, hi]. `more`: other fields of `KnobSpec`."""
    return KnobSpec(name=name, kind="int", lo=lo, hi=hi, default=default, help=help, **more)


def real(name: str, lo: float, hi: float, default: float, help: str, **more: Any) -> KnobSpec:
    """A number in [lo, hi], or (lo, hi] with `lo_open`. `more`: other fields of `KnobSpec`."""
    return KnobSpec(name=name, kind="float", lo=lo, hi=hi, default=default, help=help, **more)


def choice(name: str, choices: tuple[str, ...], default: str, help: str, **more: Any) -> KnobSpec:
    """One of a few words. `more`: other fields of `KnobSpec`."""
    return KnobSpec(name=name, kind="choice", choices=choices, default=default, help=help, **more)


def _int(value: Any) -> int:
    if isinstance(value, bool) or (isinstance(value, float) and value != int(value)):
        raise ValueError(value)
    return int(value)


def _float(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number) or isinstance(value, bool):  # NaN passes no range; JSON has no infinity
        raise ValueError(value)
    return number


def _bool(value: Any) -> bool:
    words = {"on": True, "off": False, "true": True, "false": False, "1": True, "0": False}
    if isinstance(value, bool):
        return value
    if str(value).lower() in words:
        return words[str(value).lower()]
    raise ValueError(value)


def _texts(value: Any) -> list[str]:
    texts = [value] if isinstance(value, str) else list(value)
    if all(isinstance(v, str) and v for v in texts):
        return texts
    raise ValueError(value)


_PARSERS: dict[str, Any] = {"int": _int, "float": _float, "choice": str, "bool": _bool, "texts": _texts}


@dataclass(frozen=True, slots=True)
class Knobs:
    """A snapshot: `knobs["gamma"]`, `knobs.get("w_max")`, `knobs.version`."""

    values: Mapping[str, Any]
    version: int = 0

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def get(self, name: str, default: Any = None) -> Any:
        """The knob's value, or `default` where the method has no knob of that name."""
        return self.values.get(name, default)

    def with_(self, **changes: Any) -> "Knobs":
        """The next version with some values changed (already checked)."""
        return Knobs({**self.values, **changes}, self.version + 1)


@dataclass(frozen=True, slots=True)
class KnobTable:
    """All knobs of one method, in the order they are shown."""

    method: str
    specs: tuple[KnobSpec, ...]

    def spec(self, name: str) -> KnobSpec:
        """The spec of a knob. Raises KnobError with the nearest name."""
        for spec in self.specs:
            if spec.name == name:
                return spec
        raise KnobError(f"method {self.method} has no knob '{name}'{suggestion(name, (s.name for s in self.specs))}")

    def check(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Checked values; raises KnobError."""
        return {name: self.spec(name).check(value) for name, value in values.items()}

    def knobs(self, values: Mapping[str, Any] | None = None) -> Knobs:
        """A snapshot of the defaults with `values` on top."""
        defaults = {spec.name: spec.default for spec in self.specs}
        return Knobs({**defaults, **self.check(values or {})})


LAST_SEED = 2**53 - 1  # where JSON and browsers still count exactly

_law = partial(KnobSpec, kind="float", text="T")
_query = partial(KnobSpec, applies="Q", text="T")

SAMPLING: tuple[KnobSpec, ...] = (
    _law(name="temperature", default=0.0, help="0 decodes greedily", symbol="T", lo=0),
    _law(name="top_k", kind="int", default=0, help="keep the k most likely tokens, 0 all", lo=0),
    _law(name="top_p", default=1.0, help="keep the smallest set with this mass", lo=0, lo_open=True, hi=1),
    _law(name="min_p", default=0.0, help="drop tokens below this share of the top one", lo=0, hi=1),
    _law(name="repetition_penalty", default=1.0, help="divide the logits of tokens seen before", lo=0, lo_open=True),
    _query(name="ban", kind="texts", default=[], help="never emit this token: its text, or id:N"),
)
RUN: tuple[KnobSpec, ...] = (
    _query(name="seed", kind="int", default=0, help="key of all random draws", lo=0, hi=LAST_SEED),
    _query(name="draw", kind="choice", default="cdf", choices=("cdf", "race"), help="how a token is drawn from a row"),
    _query(name="stop", kind="texts", default=[], help="end when this text appears"),
    _query(name="max_new_tokens", kind="int", default=128, help="most tokens to decode", lo=1),
)


def table(method: str, own: Iterable[KnobSpec]) -> KnobTable:
    """The table of a method: its own knobs, then those that all methods have."""
    return KnobTable(method, (*own, *SAMPLING, *RUN))
