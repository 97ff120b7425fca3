"""What a tally holds does not grow with the run, nor the fold before it; its numbers are those of all its rounds."""

import gc
import itertools
import random
import sys
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest

from specviz.events import Event, Prefill
from specviz.metrics import Tally
from specviz.metrics import estimate as module
from specviz.metrics.estimate import Median, Ratio, settled
from specviz.runlog.fold import Run
from specviz.trace import read_events
from support.estimates import ratio
from support.recordings import RECORDINGS

TRACES = RECORDINGS


def _size(root: Any) -> int:
    """Bytes of everything that hangs on an object."""
    seen: set[int] = set()
    total, todo = 0, [root]
    while todo:
        thing = todo.pop()
        if id(thing) in seen or isinstance(thing, type) or type(thing).__name__ in ("module", "function"):
            continue
        seen.add(id(thing))
        total += sys.getsizeof(thing)
        todo += gc.get_referents(thing)
        if isinstance(thing, msgspec.Struct):
            todo += [getattr(thing, name) for name in thing.__struct_fields__]
    return total


def _again(events: list[Event], n: int) -> Iterator[Event]:
    """The rounds of a run as so many queries of a stream."""
    yield events[0]
    body = [event for event in events if event.q == 0 and (0 < event.r <= 8 or isinstance(event, Prefill))]
    for q in range(n):
        yield from (msgspec.structs.replace(event, q=q) for event in body)


@pytest.mark.parametrize("name", sorted(TRACES))
def test_a_tally_of_many_rounds_is_as_small_as_of_few(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EXACT", 8)
    events = read_events(TRACES[name])
    sizes = []
    for n in (10, 40):
        run, tally = Run(whole=False), Tally()
        for event in _again(events, n):
            run.apply(event)
            tally.follow(run)
        assert tally.summary().n_queries == n
        sizes.append(_size(tally))
        assert len(list(run.rounds)) <= 32 < len(run.rounds)
        assert len(run.queries) <= 2
    assert sizes[1] - sizes[0] < 4_000, sizes  # wider integers; a row a round would take a hundred times that


@pytest.mark.parametrize("seed", range(6))
def test_a_ratio_is_that_of_its_columns(seed: int) -> None:
    rng = random.Random(seed)
    n = rng.choice([1, 2, 5, 300])
    top, bottom = [rng.randrange(10**9) for _ in range(n)], [rng.randrange(1, 10**9) for _ in range(n)]
    units = sorted(rng.randrange(40) for _ in range(n))
    queries = [unit // 4 for unit in units]
    held = Ratio()
    for term in zip(units, queries, top, bottom, strict=True):
        held.add(*term)
    for by_query, keys in ((False, units), (True, queries)):
        wanted, ours = (
            ratio(np.array(top), np.array(bottom), np.array(keys), most=1e9),
            held.estimate(by_query, most=1e9),
        )
        assert ours is not None
        assert wanted is not None
        assert ours.n == wanted.n
        assert ours.value == pytest.approx(wanted.value, rel=1e-12)
        assert (ours.interval is None) == (wanted.interval is None)
        if ours.interval is not None:
            assert ours.interval == pytest.approx(wanted.interval, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("n", [0, 1, 2, 63, 64, 65, 5000])
def test_a_median_is_exact_and_later_within_a_thousandth(seed: int, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EXACT", 64)
    rng = random.Random(seed)
    values = [rng.choice([0, rng.randrange(50), rng.randrange(10**6), rng.randrange(10**12)]) for _ in range(n)]
    held = Median()
    for value in values:
        held.add(value)
    for zeros in (0, 3):
        column = values + [0] * zeros
        median = held.estimate(1e6, zeros)
        if not column:
            assert median is None
            continue
        assert median is not None
        wanted = float(np.median(np.array(column) / 1e6))
        assert median.n == len(column)
        assert median.value == (wanted if n <= 64 else pytest.approx(wanted, rel=1e-3, abs=1e-6))


def test_a_summary_in_between_changes_nothing() -> None:
    events = list(_again(read_events(TRACES["code-specbranch"]), 12))
    asked, silent = Tally(), Tally()
    for event, k in zip(events, itertools.count()):
        asked.add(event)
        silent.add(event)
        if k % 500 == 0:
            asked.summary()
    assert asked.summary() == silent.summary()


def test_a_share_above_one_is_shown_without_an_interval() -> None:
    """Another engine's counts may say that more was kept than tested."""
    assert settled(1.5, None, 4, 4, most=1.0).interval is None
    assert settled(1.0, None, 4, 4, most=1.0).interval is not None
