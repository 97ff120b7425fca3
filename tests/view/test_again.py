"""A node decided again: by other rules, and with another u."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from specviz.errors import SpecvizError
from specviz.runlog.fold import fold
from specviz.runlog.tree import RoundTree
from specviz.view.frame.steps import Moment
from specviz.view.why import explain
from specviz.view.why.again import NO_DRAW, NOT_DRAWN, least_u, node_again, with_u
from specviz.view.words.palette import CLOSING, ROOT, Phase
from support.traces import make_events

UNIT = st.floats(0, 1, exclude_max=True)


@settings(deadline=None)
@given(UNIT, UNIT, UNIT)
def test_the_first_u_that_is_offered_is_on_the_other_side(one: float, two: float, u: float) -> None:
    lo, hi = sorted((one, two))
    assume(hi - lo > 1e-9)
    assume(lo > 1e-9 or hi < 1 - 1e-9)
    other = float(least_u(lo, hi, u))
    assert 0 <= other < 1
    assert (lo <= other < hi) != (lo <= u < hi)


def test_the_rule_of_the_run_says_what_was_recorded_and_others_stand_beside_it() -> None:
    run = fold(make_events(temperature=0.8))
    seen = 0
    for record in run.rounds:
        for node, verdict in record.verdicts.items():
            decision = node_again(run, record, node)
            assert decision.rules[0].own
            assert decision.rules[0].mark == verdict.status
            assert {"tokenwise", "blockwise"} <= {rule.verifier for rule in decision.rules}
            assert decision.u == (verdict.u if verdict.order is not None else None)
            seen += 1
    assert seen > 5


def test_a_test_with_a_u_on_the_other_side_goes_the_other_way() -> None:
    run = fold(make_events(temperature=0.8))
    turned = 0
    for record in run.rounds:
        for node, verdict in record.verdicts.items():
            if verdict.order is None or verdict.thr is None or verdict.u is None or not 1e-6 < verdict.thr < 1 - 1e-6:
                continue
            again = with_u(run, record, node, float(least_u(0.0, verdict.thr, verdict.u)))
            here = next(wanted for wanted in again.nodes if wanted.node == node)
            assert here.now is not None
            assert (here.now == "accepted") == (verdict.status != "accepted")
            turned += 1
    assert turned > 3


def test_at_temperature_0_and_for_the_root_there_is_no_u() -> None:
    greedy = fold(make_events(temperature=0.0))
    record = greedy.rounds[0]
    assert node_again(greedy, record, next(iter(record.verdicts))).no_u == NO_DRAW
    sampled = fold(make_events(temperature=0.8))
    assert node_again(sampled, sampled.rounds[0], ROOT).no_u == NOT_DRAWN


def test_a_u_outside_its_range_is_refused() -> None:
    run = fold(make_events(temperature=0.8))
    node = next(iter(run.rounds[0].verdicts))
    with pytest.raises(SpecvizError, match="drawn from"):
        with_u(run, run.rounds[0], node, 1.0)


def test_of_the_last_token_the_panel_and_the_question_name_one_draw() -> None:
    run, n = fold(make_events(temperature=0.8)), 0
    for record in run.rounds:
        panel = explain.why(
            run, RoundTree(record), CLOSING, Moment(Phase.COMMIT, 9, record.verdicts, None, frozenset(), True, True)
        )
        decision = node_again(run, record, CLOSING).no_u
        if (held := record.closing and record.closing.interval) is None:
            continue
        n += 1
        (u,) = (row for row in panel.rows if row.label == "u")
        assert panel.otherwise == f"another token for u outside {u.note}"
        assert decision == f"u {u.value} drew this last token; for u outside {u.note} it would have been another", held
    assert n > 5
