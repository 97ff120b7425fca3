"""JSON in a line of text."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from specviz.engines.texts.numbers import unstamped

_DEEP = 6  # levels that are looked into
_MOST = 2**40


def decoded(line: str) -> Any:
    """The value that a line holds, which may be an event of a stream (`data: {..}`); None where it is none."""
    text = unstamped(line).strip().removeprefix("data:").strip()
    if text[:1] not in ("{", "["):
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def objects_with(value: Any, name: str, depth: int = _DEEP) -> Iterator[Mapping[str, Any]]:
    """Every object in a value that has a member of that name, in order."""
    if isinstance(value, Mapping):
        if name in value:
            yield value
        below: Sequence[Any] = [*value.values()]
    else:
        below = value if isinstance(value, list) else []
    for inner in below if depth else ():
        if isinstance(inner, Mapping | list):
            yield from objects_with(inner, name, depth - 1)


def count(value: Any) -> int | None:
    """A count; None for what is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST else None


def real(value: Any) -> float | None:
    """A number at least 0; None for what is none."""
    ok = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _MOST
    return float(value) if ok else None


def counts(value: Any, most: int = 1 << 20) -> list[int] | None:
    """A list of counts; None for what is none."""
    if not isinstance(value, list) or len(value) > most:
        return None
    out = [count(n) for n in value]
    return None if any(n is None for n in out) else [n for n in out if n is not None]


def kept_of(histogram: Sequence[int]) -> list[int]:
    """Rounds that kept a token at each position, from rounds by accepted tokens."""
    return [sum(histogram[k + 1 :]) for k in range(len(histogram) - 1)]
