"""`excerpt(run, indexes)`: some rounds of a run as a run of their own."""

from collections.abc import Iterable

from specviz.events import Event
from specviz.runlog.fold import Run
from specviz.runlog.run import Query, RoundRecord


def excerpt(run: Run, indexes: Iterable[int]) -> Run:
    """A short run with only some rounds of a long one, for views of single rounds that need no totals.

    Each round comes with the one before it, in which its draft may have begun. Events of the run and of whole queries
    are kept; the text between the rounds is not.
    """
    small = Run()
    small.extend(event for event in (run.header, run.calibration) if event is not None)
    wanted = sorted({near for index in indexes for near in (index - 1, index) if near >= run.rounds.n_gone})
    query: Query | None = None
    for index in wanted:
        record = run.rounds[index]
        if record.query is not query:
            small.extend(_behind(query))
            query = record.query
            small.extend([query.prefill] if query.prefill is not None else [])
        small.extend(_events(record))
    small.extend(_behind(query))
    small.extend([run.end] if run.end is not None else [])
    return small


def _events(record: RoundRecord) -> list[Event]:
    """All of one round, in the order in which they were written."""
    inside = [event for events in record.by_kind.values() for event in events]
    return [record.start, *sorted(inside, key=lambda event: event.i)]


def _behind(query: Query | None) -> list[Event]:
    """What came when a query was over."""
    if query is None:
        return []
    return [*([query.adapt] if query.adapt is not None else []), *query.exit_table]
