"""JSON in a line of text."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from specviz.engines.texts.numbers import unstamped

_NESTED = (dict, list)
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
    if type(value) is dict:
        if name in value:
            yield value
        below: Iterable[Any] = value.values()
    else:
        below = value if type(value) is list else ()
    for inner in below if depth else ():
        if type(inner) in _NESTED:  # a list may be long, and holds mostly numbers
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
    if value and (set(map(type, value)) != {int} or min(value) < 0 or max(value) >= _MOST):
        return None
    return value


def kept_of(histogram: Sequence[int]) -> list[int]:
    """Rounds that kept a token at each position, from rounds by accepted tokens."""
    return [sum(histogram[k + 1 :]) for k in range(len(histogram) - 1)]
