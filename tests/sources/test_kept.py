"""Every event of a live run for whoever comes late, however long it is."""

import itertools

import pytest

from specviz.runlog import spool as kept
from specviz.runlog.spool import EventSpool, Spool
from specviz.trace import read_events
from support.recordings import RECORDINGS

EVENTS = read_events(RECORDINGS["code-draft"])


@pytest.mark.parametrize("tail", [1, 7, 100, len(EVENTS), 10 * len(EVENTS)])
def test_they_come_back_from_any_place(tail: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "TAIL", tail)
    spool = EventSpool()
    for event in EVENTS:
        spool.append(event)
    assert len(spool) == len(EVENTS)
    for n in (0, 1, 6, 7, 8, 50, len(EVENTS) - 1, len(EVENTS), len(EVENTS) + 5):
        assert list(spool.since(n)) == EVENTS[n:]


def test_few_are_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "TAIL", 16)
    spool = EventSpool()
    for event in itertools.islice(itertools.cycle(EVENTS), 2000):
        spool.append(event)
        assert len(spool._tail) <= 16
    assert len(spool) == 2000
    assert spool._spool.size > 0


def test_a_full_disk_loses_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Spool, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(kept, "TAIL", 16)
    spool = EventSpool()
    with monkeypatch.context() as broken:
        broken.setattr(Spool, "put", full)
        for event in EVENTS[:50]:
            spool.append(event)
    for event in EVENTS[50:]:
        spool.append(event)
    assert len(spool._tail) < 50  # written once there is room again
    assert list(spool.since(0)) == EVENTS
