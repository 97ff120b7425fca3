"""The lines of a round go out together, and nothing else waits."""

import pytest

from specviz.events import Commit, Event, Knob, RoundStart, Span, Warn, decode
from specviz.events.batch import LineBatch

START = RoundStart(n=3, root=1, knob_version=0)
SPAN = Span(lane="draft", name="draft", t0=1, dur_ns=2)
COMMIT = Commit(tokens=[1], texts=["a"], kinds=["bonus"], n=4)
WARN = Warn(code="x", message="y")


def test_a_round_is_written_once_and_in_order() -> None:
    sent: list[bytes] = []
    batch = LineBatch(sent.append)
    for event in (START, SPAN, COMMIT):
        batch.take(event)
        assert sent == []
    batch.take(WARN)  # part of no round: what waits must stand before it
    assert [decode(line) for line in sent[0].splitlines()] == [START, SPAN, COMMIT, WARN]
    batch.take(WARN)
    assert len(sent) == 2
    batch.flush()
    assert len(sent) == 2


def test_what_waits_is_written_at_the_end() -> None:
    sent: list[bytes] = []
    batch = LineBatch(sent.append)
    batch.take(START)
    batch.flush()
    assert decode(sent[0]) == START


def test_a_record_that_no_line_can_hold_keeps_back_no_later_one() -> None:
    sent: list[bytes] = []
    batch = LineBatch(sent.append)
    bad: Event = Knob(name="a", old=object(), new=1, requested_r=0, applied_r=1)
    with pytest.raises(TypeError):
        batch.take(bad)
    batch.take(WARN)
    assert [decode(line) for line in sent[0].splitlines()] == [WARN]
