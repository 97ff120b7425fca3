"""The geometric fit: worked out by hand, beside the test acceptance rate, and where there is none."""

import pytest

from specviz.events import RoundEnd, Verify
from specviz.metrics import Tally, geometric_fit, measure
from support.traces import make_events


def test_on_a_chain_alpha_is_the_test_acceptance_rate_and_the_curve_is_geometric() -> None:
    events = make_events(temperature=0.8, new_tokens=60)
    fit = geometric_fit(Tally().add_all(events))
    rate = measure(events).test_acceptance_rate
    assert fit is not None
    assert rate is not None
    assert fit.alpha.value == pytest.approx(rate.value)
    depths = [0] * sum(isinstance(e, RoundEnd) for e in events)
    for event in events:
        if isinstance(event, Verify):
            depths[event.r - 1] += 1
    a = fit.alpha.value
    for j, n in fit.expected.items():
        by_hand = sum(a**j if d == j else a**j * (1 - a) if d > j else 0.0 for d in depths)
        assert n == pytest.approx(by_hand)


def test_on_a_tree_a_position_counts_once_however_many_siblings_were_tested() -> None:
    events = make_events(shape="tree", temperature=0.7, new_tokens=40)
    fit = geometric_fit(Tally().add_all(events))
    rate = measure(events).test_acceptance_rate
    assert fit is not None
    assert rate is not None
    assert fit.alpha.value > rate.value
    assert sum(fit.expected.values()) == pytest.approx(fit.n)


def test_there_is_none_without_a_draft_or_without_nodes_on_record() -> None:
    assert geometric_fit(Tally().add_all(make_events(shape="none"))) is None
    assert geometric_fit(Tally().add_all(make_events(level="none"))) is None
    assert geometric_fit(Tally()) is None
