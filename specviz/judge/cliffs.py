"""Cliffs: a position of a draft that is kept far less often than the one before it, told the same way of rounds and of
counts by position."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from specviz.judge.evidence import LEAST_TESTS

EDGE = 0.5  # of what the position before keeps: a cliff loses more than half, where a weak drafter goes down a slope
WORKS = 0.5  # of the tokens at the position before: a drafter that is mostly wrong there has no edge to fall off
FEW = 30  # tests of the position before, below which a few drafts may fall so by chance


class TestedPosition(NamedTuple):
    """`at`: from 1; `kept` of `n` drafts that came so far."""

    at: int
    kept: int
    n: int

    @property
    def share(self) -> float:
        return self.kept / self.n


class Cliff(NamedTuple):
    """The two places that it lies between. `doubt`, `decides`: in words, "" where nothing speaks against a fault;
    `others`: faults that look the same then."""

    before: TestedPosition
    here: TestedPosition
    doubt: str
    decides: str
    others: tuple[int, ...]


def deepest_cliff(positions: Sequence[TestedPosition]) -> Cliff | None:
    """The drop that surely keeps the least of the position before, of those that lose more than half, in intervals that
    allow for every position looked at."""
    from specviz.metrics import wilson_interval, z_of_looks

    pairs = [
        (before, here)
        for before, here in pairwise(positions)
        if here.at == before.at + 1 and min(before.n, here.n) >= LEAST_TESTS
    ]
    z = z_of_looks(max(1, len(pairs)))
    drops = []
    for before, here in pairs:
        if before.kept > before.n or here.kept > here.n:
            continue  # such counts contradict each other, which is another finding
        least, most = wilson_interval(before.kept, before.n, z)[0], wilson_interval(here.kept, here.n, z)[1]
        if here.share <= EDGE * before.share and most < least:
            drops.append((most / least, before, here))
    if not drops:
        return None
    _, before, here = min(drops)
    return Cliff(before, here, *_doubt(before))


def _doubt(before: TestedPosition) -> tuple[str, str, tuple[int, ...]]:
    from specviz.metrics import wilson_interval

    if wilson_interval(before.kept, before.n)[1] < WORKS:
        why = " The position before is mostly lost as well, so the drafter may just be weak."
        return why, "The same files under another version of the engine, and the folders (specviz check).", (1, 6)
    if before.n < FEW:
        return f" {before.n} tests are few.", "A few more answers: so few drafts may fall so by chance.", (14,)
    return (
        "",
        "Another version of the engine (norm, position ids, cache between the drafter's steps); a drafter trained for "
        "so many tokens ends there too.",
        (14,),
    )
