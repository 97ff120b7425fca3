"""Two sets beside each other: their numbers, from `specviz.metrics`, their texts and their settings.

Where both sets have two prompts or more in common, these alone are compared, in pairs.
"""

from collections import Counter
from collections.abc import Sequence

import msgspec

from specviz.diff.requests import RecordedSet, Request
from specviz.metrics.sets import NumberChange, changes
from specviz.view.compare.figures import ROWS, SERIES
from specviz.view.compare.texts import comparable, n_alike, numbered_alike, prompt_keys

WHOLE = {name: words for name, _, words in ROWS}
PLACED = dict(SERIES)  # numbers by place, and what the place is


class TextParting(msgspec.Struct, frozen=True, kw_only=True):
    """Where the texts of one prompt part first: `at` tokens are alike; what follows in each."""

    a_request: str
    b_request: str
    at: int
    before: str
    a_text: str
    b_text: str


class DiffReport(msgspec.Struct, frozen=True, kw_only=True):
    """`units`: what intervals are over, in words; `by_place`: changes by place, under the names of PLACED; `n_unknown`:
    requests whose prompt or text is not on record; `settings`: that differ, in each set."""

    a: str
    b: str
    n_requests: tuple[int, int]
    n_rounds: tuple[int, int]
    n_paired: int
    units: str
    whole: list[NumberChange]
    by_place: dict[str, list[NumberChange]]
    domain: dict[str, list[NumberChange]]
    n_same_text: int
    n_unknown: int
    partings: list[TextParting]
    settings: dict[str, tuple[list[str], list[str]]]

    def find(self, metric: str) -> NumberChange | None:
        """The change of `block_efficiency`, `survival@3` ..; None: there is none of that name."""
        placed = (change for rows in self.by_place.values() for change in rows)
        return next((each for each in (*self.whole, *placed) if each.metric == metric), None)


def compare_sets(a: RecordedSet, b: RecordedSet) -> DiffReport:
    """Everything there is to say of the two."""
    pairs, untold = _pairs(a.requests, b.requests)
    paired = len(pairs) > 1
    mine, other = ([p[0] for p in pairs], [p[1] for p in pairs]) if paired else (a.requests, b.requests)
    found = [_parting(*pair) for pair in pairs]
    partings = [each for each in found if isinstance(each, TextParting)]
    n_unknown = untold + found.count(None)
    placed = {name: _changes(mine, other, name, paired) for name in PLACED}
    names = sorted({*a.settings, *b.settings})
    return DiffReport(
        a=a.name,
        b=b.name,
        n_requests=(len(a.requests), len(b.requests)),
        n_rounds=(sum(r.tally.n_rounds for r in a.requests), sum(r.tally.n_rounds for r in b.requests)),
        n_paired=len(pairs),
        units=f"{len(pairs)} prompts, paired" if paired else "rounds, or prompts from 8 on, not paired",
        whole=_whole(mine, other, paired),
        by_place={name: rows for name, rows in placed.items() if rows},
        domain=_domains(mine, other, paired),
        n_same_text=found.count(True),
        n_unknown=n_unknown,
        partings=partings,
        settings={
            name: (list(a.settings.get(name, ())), list(b.settings.get(name, ())))
            for name in names
            if a.settings.get(name) != b.settings.get(name)
        },
    )


def _pairs(a: Sequence[Request], b: Sequence[Request]) -> tuple[list[tuple[Request, Request]], int]:
    """Requests with one prompt, repetition by repetition; and how many of the smaller set are of a prompt that is not
    on record."""
    keys = prompt_keys([[request.prefill for request in each] for each in (a, b)])
    named = []
    for requests, each in zip((a, b), keys, strict=True):
        seen: Counter[str] = Counter()
        of_set: dict[tuple[str, int], Request] = {}
        for request, key in zip(requests, each, strict=True):
            if key is not None:
                of_set[key, seen[key]] = request
                seen[key] += 1
        named.append(of_set)
    mine, other = named
    return [(request, other[key]) for key, request in mine.items() if key in other], max(
        each.count(None) for each in keys
    )


def _changes(a: Sequence[Request], b: Sequence[Request], name: str, paired: bool) -> list[NumberChange]:
    found = changes([r.tally for r in a], [r.tally for r in b], name, paired=paired)
    return [change for change in found if change.a is not None or change.b is not None]


def _whole(a: Sequence[Request], b: Sequence[Request], paired: bool) -> list[NumberChange]:
    return [change for name in WHOLE for change in _changes(a, b, name, paired)]


def _domains(a: Sequence[Request], b: Sequence[Request], paired: bool) -> dict[str, list[NumberChange]]:
    """By kind of prompt."""
    found = {}
    for name in sorted({r.domain for r in a} & {r.domain for r in b} - {""}):
        where = [k for k, request in enumerate(a) if request.domain == name]
        other = [b[k] for k in where] if paired else [r for r in b if r.domain == name]
        found[name] = _whole([a[k] for k in where], other, paired and len(where) > 1)
    return found


_AROUND = 8  # tokens


def _parting(a: Request, b: Request) -> TextParting | bool | None:
    """Where two texts part; True: they are the same; None: nobody knows."""
    keys = comparable([a.written, b.written], numbered_alike([a.header, b.header]))
    if keys is None:
        return None
    at = n_alike(*keys)
    if at == len(a.written) == len(b.written):
        return True
    before, a_text, b_text = (
        "".join(word for _, word in text)
        for text in (a.written[max(0, at - _AROUND) : at], a.written[at : at + _AROUND], b.written[at : at + _AROUND])
    )
    return TextParting(a_request=a.name, b_request=b.name, at=at, before=before, a_text=a_text, b_text=b_text)
