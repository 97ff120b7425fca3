"""`search(..)`: goes through rounds after a filter, from where somebody stands and round again, one round at a time, so
that a long run is searched without a screen that waits."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from specviz.runlog.fold import Run
from specviz.runlog.run import RoundRecord
from specviz.runlog.tree import RoundTree
from specviz.view.find.expression import Filter, parsed
from specviz.view.find.fields import FilterSubject, fields


@dataclass(frozen=True, slots=True)
class FoundPlace:
    """A round, by its number over the whole run, and the node in it; None where the filter asks of rounds."""

    index: int
    node: int | None
    number: int = 1  # among the matches of its round, from 1
    of: int = 1


def filter_for(run: Run, text: str) -> Filter:
    """What was typed, with the knobs of the run as names. Raises SpecvizError."""
    knobs = [*run.header.knobs, *run.header.sampling] if run.header is not None else []
    return parsed(text, fields(knobs))


def matches(record: RoundRecord, wanted: Filter) -> list[int | None]:
    """The nodes of a round that match, in id order; a single None for a round that does itself."""
    tree = RoundTree(record)
    if not wanted.of_node:
        return [None] if wanted.matches(FilterSubject(tree, None)) else []
    return [node for node in tree.nodes if wanted.matches(FilterSubject(tree, node))]


def search(run: Run, wanted: Filter, index: int, node: int | None, by: int = 1) -> Iterator[FoundPlace | None]:
    """Matches after a place (before it with `by` -1), the place itself last. None after every round without one.

    `node`: the one that is looked at; None: matches of the round itself come first.
    """
    n = len(run.rounds)
    for step in range(n + 1):
        at = (index + by * step) % n
        if wanted.of_node and run.rounds.point(at).n_drafted == 0 and step:
            continue  # by its row: it need not be read
        matched = matches(run.rounds[at], wanted)
        numbered = [FoundPlace(at, matched_node, k, len(matched)) for k, matched_node in enumerate(matched, 1)]
        if by < 0:
            numbered.reverse()
        if step in (0, n):
            numbered = [match for match in numbered if _beyond(match.node, node, by) == (step == 0)]
        yield from numbered
        if not numbered:
            yield None


def first_matches(run: Run, wanted: Filter, most: int, seconds: float) -> tuple[list[FoundPlace], int]:
    """Matches from the first round on, and how many rounds were looked through: at most so many, in so much time."""
    until, places = time.monotonic() + seconds, list[FoundPlace]()
    for index in range(len(run.rounds)):
        if time.monotonic() >= until:
            return places, index
        places += (FoundPlace(index, node) for node in matches(run.rounds[index], wanted))
        if len(places) >= most:
            return places[:most], index + 1
    return places, len(run.rounds)


def _beyond(match: int | None, node: int | None, by: int) -> bool:
    """Whether a match of the round one stands in comes after the place there."""
    if match is None:
        return False
    return node is None or (match > node if by > 0 else match < node)
