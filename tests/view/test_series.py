"""Series are the metrics module's own numbers, put in order."""

import pytest

from specviz.events import Event
from specviz.metrics import measure
from specviz.runlog.fold import fold
from specviz.runlog.run import RoundRecord
from specviz.view import Player
from specviz.view.frame.series import Meter, histogram, series
from support.traces import make_events, plain_round, plain_run


@pytest.mark.parametrize("shape", ["chain", "tree", "none"])
def test_a_meter_counts_what_the_whole_stream_counts(shape: str) -> None:
    """Fed round by round from the records that the fold kept, all numbers come out as from the file."""
    events = make_events(shape=shape, temperature=0.8, seed=3, queries=2)
    meter, run = Meter(), fold([])
    for event in events:
        run.apply(event)
        meter.metrics(run)
    assert meter.metrics(run) == measure(events)


def test_an_open_round_is_not_counted_and_counts_once_it_ends() -> None:
    events = make_events(temperature=0.8, seed=3)
    cut = [k for k, e in enumerate(events) if type(e).__name__ == "RoundEnd"][3]
    run = fold(events[:cut])
    meter = Meter()
    before = meter.metrics(run)
    assert before is not None
    assert before.n_rounds == 3
    run.apply(events[cut])
    after = meter.metrics(run)
    assert after is not None
    assert after.n_rounds == 4


def test_columns_belong_together() -> None:
    events = make_events(temperature=0.8, seed=3)
    wanted, got = measure(events), series(measure(events))
    assert wanted.survival is not None
    survival = got["survival"]
    assert dict(zip(survival.xs, survival.values, strict=True)) == {k: e.value for k, e in wanted.survival.items()}
    for column in got.values():
        assert len({len(c) for c in (column.xs, column.values, column.lows, column.highs, column.ns)}) == 1
        assert bool(column.xs) != bool(column.missing)
        for lo, value, hi in zip(column.lows, column.values, column.highs, strict=True):
            assert lo is None or hi is None or lo <= value <= hi


def test_what_is_not_there_says_so() -> None:
    empty = series(None)
    assert all(s.missing for s in empty.values())
    level_none = series(measure(plain_run([plain_round(1, 6, 4, 2)])))
    assert level_none["depth_acceptance"].missing == "not defined for this run, or not recorded"
    assert histogram(None) == ()


def test_the_histogram_has_no_hole() -> None:
    rounds = [plain_round(1, 6, 4, 4, closing="bonus"), plain_round(2, 11, 4, 0), plain_round(3, 12, 4, 0)]
    assert histogram(measure(plain_run(rounds))) == ((0, 2), (1, 0), (2, 0), (3, 0), (4, 1))


def test_a_round_has_every_record_as_it_went_in() -> None:
    events = make_events(temperature=0.8, seed=3)
    kept = [e for record in Player(fold(events)).run.rounds for e in (record.start, *every(record))]
    assert sorted(kept, key=lambda e: e.i) == events[2:-1]


def every(record: RoundRecord) -> list[Event]:
    return [event for events in record.by_kind.values() for event in events]
