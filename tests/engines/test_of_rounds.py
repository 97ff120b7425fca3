"""Rounds added up as counters tell them: nothing is lost of the sums, whatever the looks."""

from itertools import pairwise

import msgspec
import pytest

from specviz.engines.watch import picture_of
from specviz.engines.watch.of_rounds import counts_of_rounds
from specviz.events import Commit, Event, Header, RoundEnd
from specviz.runlog.fold import Run, fold
from specviz.trace import read_events
from support.judged import chain_round, judged_run
from support.recordings import RECORDINGS
from support.traces import make_events

SPEEDS = ["code-draft", "code-tree", "code-ngram"]


@pytest.mark.parametrize("every_s", [1e-4, 0.05, 1e6])
@pytest.mark.parametrize("name", SPEEDS)
def test_the_last_look_is_the_sum_of_all_rounds(name: str, every_s: float) -> None:
    run = fold(read_events(RECORDINGS[name]))
    looks = counts_of_rounds(run, every_s)
    ends = [end for record in run.rounds for end in record.every(RoundEnd)]
    last = looks[-1]
    assert (last.n_rounds, last.n_drafted, last.n_accepted, last.n_generated) == (
        len(ends),
        sum(end.n_drafted for end in ends),
        sum(end.n_accepted for end in ends),
        sum(end.n_emitted for end in ends),
    )
    assert last.per_position == [
        sum(end.n_accepted > k for end in ends) for k in range(max(end.n_accepted for end in ends))
    ]
    for before, after in pairwise(looks):
        assert after.wall >= before.wall
        assert after.n_rounds is not None
        assert before.n_rounds is not None
        assert after.n_rounds > before.n_rounds
    assert (len(looks) == len(ends) + 1) is (every_s == 1e-4)
    assert (len(looks) == 2) is (every_s == 1e6)


def test_the_picture_of_it_has_the_run_s_own_mean() -> None:
    run = fold(make_events(temperature=0.8, new_tokens=40))
    ends = [end for record in run.rounds for end in record.every(RoundEnd)]
    picture = picture_of(counts_of_rounds(run))
    assert picture.length == pytest.approx(sum(end.n_accepted for end in ends) / len(ends) + 1)


def test_an_answer_of_one_token_is_empty_unless_no_more_was_allowed() -> None:
    """Three answers: one runs on, one ends with its first token, one may have no more."""
    header, prefill, end = judged_run([])
    events: list[Event] = [header]
    for q, (n_rounds, finish) in enumerate([(5, "length"), (1, "eos"), (1, "length")]):
        events.append(msgspec.structs.replace(prefill, q=q))
        for r in range(1, n_rounds + 1):
            records = chain_round(r, [0.5], 0)
            for record in records:
                record.q = q
                if isinstance(record, Commit) and r == n_rounds:
                    record.finish = finish
            events += records
    for i, event in enumerate([*events, end]):
        event.i = i
    looks = counts_of_rounds(fold([*events, end]), 1e6)
    assert [(look.n_answers, look.n_empty) for look in looks] == [(0, 0), (3, 1)]
    assert counts_of_rounds(fold(events[:12]), 1e6)[-1].n_answers == 0, "the answer in hand is not over"


def test_where_there_is_nothing_to_add_up_there_is_no_look() -> None:
    assert counts_of_rounds(Run()) == []
    header = next(event for event in make_events() if isinstance(event, Header))
    assert counts_of_rounds(fold([header])) == []
