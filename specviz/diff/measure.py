"""Numbers of two sets and of their difference, with 95 % intervals by bootstrap.

Where both sets have two prompts or more in common, these alone are compared and prompts are drawn again, the same ones
in both sets (paired). Else rounds are: stretches of consecutive rounds, as rounds that stand together are alike, drawn
in each set by itself. The draws are keyed, so the same files give the same intervals.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from specviz.diff.requests import ACCEPTED, DRAFTED, EMITTED, NS, REACH, RecordedSet, Request
from specviz.probability.draws import uniforms

_AGAIN = 2000  # samples drawn again
_STRETCHES = 200  # of rounds, at most
_MOST_POSITIONS = 64
Column = Any  # numpy [rounds]
Parts = Callable[["np.ndarray[Any, Any]"], tuple[Column, Column]]  # of rounds: terms above and below the line

WHOLE: dict[str, tuple[Parts, str]] = {
    "block_efficiency": (lambda r: (r[:, EMITTED], np.ones(len(r))), "committed tokens per round (target call)"),
    "acceptance": (lambda r: (r[:, ACCEPTED], r[:, DRAFTED]), "accepted / drafted tokens"),
    "tokens_per_s": (lambda r: (r[:, EMITTED], r[:, NS] / 1e9), "committed tokens per second, in the rounds' stages"),
}
PLACED = {
    "position": "share of rounds drafted so far that kept the first K tokens",
    "depth": "share kept at depth K where K − 1 were kept",
}


class SetChange(msgspec.Struct, frozen=True, kw_only=True):
    """A number in both sets. `ratio`: b / a - 1, with its interval; None where a is 0 or nothing was counted."""

    metric: str
    a: float | None
    b: float | None
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    difference: float | None = None
    difference_interval: tuple[float, float] | None = None


class TextParting(msgspec.Struct, frozen=True, kw_only=True):
    """Where the texts of one prompt part first: `at` tokens are alike; what follows in each."""

    a_request: str
    b_request: str
    at: int
    before: str
    a_text: str
    b_text: str


class DiffReport(msgspec.Struct, frozen=True, kw_only=True):
    """`units`: what was drawn again for the intervals, in words; `settings`: that differ, in each set."""

    a: str
    b: str
    n_requests: tuple[int, int]
    n_rounds: tuple[int, int]
    n_paired: int
    units: str
    whole: list[SetChange]
    position: list[SetChange]
    depth: list[SetChange]
    domain: dict[str, list[SetChange]]
    n_same_text: int
    partings: list[TextParting]
    settings: dict[str, tuple[list[str], list[str]]]

    def find(self, metric: str) -> SetChange | None:
        """The change of `block_efficiency`, `position@3` ..; None: there is none of that name."""
        return next((each for each in (*self.whole, *self.position, *self.depth) if each.metric == metric), None)


def compare_sets(a: RecordedSet, b: RecordedSet, seed: int = 0) -> DiffReport:
    """Everything there is to say of the two."""
    by_key = {request.key: request for request in b.requests}
    pairs = [(request, by_key[request.key]) for request in a.requests if request.key in by_key]
    paired = len(pairs) > 1
    mine, other = ([p[0] for p in pairs], [p[1] for p in pairs]) if paired else (a.requests, b.requests)
    units = _Units(mine, other, paired, seed)
    deepest = int(min(_MOST_POSITIONS, max((r.rounds[:, REACH].max() for r in (*mine, *other)), default=0)))
    partings = [found for pair in pairs if (found := _parting(*pair)) is not None]
    names = sorted({*a.settings, *b.settings})
    return DiffReport(
        a=a.name,
        b=b.name,
        n_requests=(len(a.requests), len(b.requests)),
        n_rounds=(sum(len(r.rows) for r in a.requests), sum(len(r.rows) for r in b.requests)),
        n_paired=len(pairs),
        units=f"{len(pairs)} prompts, paired" if paired else "stretches of rounds, not paired",
        whole=[units.change(name, parts) for name, (parts, _) in WHOLE.items()],
        position=[units.change(f"position@{k}", _position(k)) for k in range(1, deepest + 1)],
        depth=[units.change(f"depth@{k}", _depth(k)) for k in range(1, deepest + 1)],
        domain=dict(_domains(mine, other, paired, seed)),
        n_same_text=len(pairs) - len(partings),
        partings=partings,
        settings={
            name: (list(a.settings.get(name, ())), list(b.settings.get(name, ())))
            for name in names
            if a.settings.get(name) != b.settings.get(name)
        },
    )


def _position(k: int) -> Parts:
    return lambda r: ((r[:, ACCEPTED] >= k) & (r[:, REACH] >= k), r[:, REACH] >= k)


def _depth(k: int) -> Parts:
    return lambda r: ((r[:, ACCEPTED] >= k), (r[:, REACH] >= k) & (r[:, ACCEPTED] >= k - 1))


def _domains(
    a: Sequence[Request], b: Sequence[Request], paired: bool, seed: int
) -> Iterator[tuple[str, list[SetChange]]]:
    names = sorted({r.domain for r in a} & {r.domain for r in b} - {""})
    for name in names:
        where = [k for k, request in enumerate(a) if request.domain == name]
        mine = [a[k] for k in where]
        other = [b[k] for k in where] if paired else [r for r in b if r.domain == name]
        units = _Units(mine, other, paired and len(where) > 1, seed)
        yield name, [units.change(each, parts) for each, (parts, _) in WHOLE.items()]


class _Units:
    """What is drawn again: a list of rounds for each unit and set, and the draws themselves."""

    def __init__(self, a: Sequence[Request], b: Sequence[Request], paired: bool, seed: int) -> None:
        self._sets = [[r.rounds for r in each] if paired else _stretches(each) for each in (a, b)]
        draws = [self._draw(len(units), seed, which) for which, units in enumerate(self._sets)]
        self._draws = [draws[0], draws[0]] if paired else draws

    def _draw(self, n: int, seed: int, which: int) -> "np.ndarray[Any, Any]":
        noise = uniforms(seed, "other", 0, which, 0, _AGAIN * n).reshape(_AGAIN, n)
        chosen: np.ndarray[Any, Any] = np.minimum((noise * n).astype(int), n - 1)
        return chosen

    def change(self, metric: str, parts: Parts) -> SetChange:
        values, again = [], []
        for units, draw in zip(self._sets, self._draws, strict=True):
            sums = np.array([[float(np.sum(side)) for side in parts(rounds)] for rounds in units]).reshape(-1, 2)
            top, bottom = sums.sum(axis=0)
            values.append(float(top / bottom) if bottom else None)
            drawn = sums[draw].sum(axis=1)
            with np.errstate(divide="ignore", invalid="ignore"):
                again.append(drawn[:, 0] / drawn[:, 1])
        a, b = values
        if a is None or b is None:
            return SetChange(metric=metric, a=a, b=b)
        enough = min(len(units) for units in self._sets) > 1
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = again[1] / again[0] - 1
        return SetChange(
            metric=metric,
            a=a,
            b=b,
            ratio=b / a - 1 if a else None,
            interval=_interval(ratios) if enough and a else None,
            difference=b - a,
            difference_interval=_interval(again[1] - again[0]) if enough else None,
        )


def _interval(values: "np.ndarray[Any, Any]") -> tuple[float, float] | None:
    finite = values[np.isfinite(values)]
    if len(finite) < _AGAIN // 2:
        return None
    low, high = np.percentile(finite, (2.5, 97.5))
    return float(low), float(high)


def _stretches(requests: Sequence[Request]) -> "list[np.ndarray[Any, Any]]":
    rounds = np.concatenate([request.rounds for request in requests])
    return np.array_split(rounds, min(_STRETCHES, len(rounds)))


_AROUND = 8  # tokens


def _parting(a: Request, b: Request) -> TextParting | None:
    n = min(len(a.tokens), len(b.tokens))
    at = next((k for k in range(n) if a.tokens[k] != b.tokens[k]), n)
    if at == len(a.tokens) == len(b.tokens):
        return None
    return TextParting(
        a_request=a.name,
        b_request=b.name,
        at=at,
        before="".join(a.texts[max(0, at - _AROUND) : at]),
        a_text="".join(a.texts[at : at + _AROUND]),
        b_text="".join(b.texts[at : at + _AROUND]),
    )
