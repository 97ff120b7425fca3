"""Intervals against the formulas of the books, and against what they promise: 95 of 100 cover."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from specviz.metrics import Estimate, delta_interval, measure, wilson_interval
from specviz.metrics.estimate import Z, mean, ratio, share
from trace_factory import plain_round, plain_run


def test_z_is_the_normal_quantile() -> None:
    assert pytest.approx(stats.norm.ppf(0.975), rel=1e-14) == Z


@given(n=st.integers(1, 500), data=st.data())
def test_wilson_is_scipy_s(n: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, n))
    expected = stats.binomtest(hits, n).proportion_ci(0.95, method="wilson")
    assert wilson_interval(hits, n) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_a_share_of_nothing_is_null() -> None:
    assert share(0, 0) is None


def test_the_delta_interval_of_a_mean_is_the_normal_one() -> None:
    values = np.array([1.0, 4.0, 2.0, 2.0, 7.0])
    half = stats.norm.ppf(0.975) * values.std(ddof=1) / np.sqrt(5)
    assert delta_interval(values, np.ones(5)) == pytest.approx((values.mean() - half, values.mean() + half))
    of_list = mean([1, 4, 2, 2, 7])
    assert of_list is not None
    assert of_list.interval == pytest.approx((values.mean() - half, values.mean() + half))


def test_one_unit_has_no_interval() -> None:
    assert delta_interval(np.array([3.0]), np.array([4.0])) is None
    assert mean([]) is None


def test_intervals_stay_where_the_quantity_can_be() -> None:
    found = ratio(np.array([0, 1]), np.array([1, 1]), np.arange(2), most=1.0)
    assert found == Estimate(value=0.5, interval=(0.0, 1.0), n=2)


def test_rows_of_one_unit_are_added_before_the_spread_is_taken() -> None:
    top, bottom, units = np.array([1, 3, 2, 2]), np.array([4, 4, 4, 4]), np.array([7, 7, 9, 9])
    found = ratio(top, bottom, units)
    assert found is not None
    assert found.n == 2
    assert found.interval == pytest.approx((0.5, 0.5)), "both units have 4 of 8"


@pytest.mark.parametrize(("queries", "unit"), [(7, "rounds"), (8, "queries")])
def test_from_eight_queries_on_queries_are_the_units(queries: int, unit: str) -> None:
    rounds = [
        plain_round(r, 5 * r, 4, (q + r) % 5 if (q + r) % 5 < 4 else 4, q=q) for q in range(queries) for r in (1, 2, 3)
    ]
    metrics = measure(plain_run(rounds))
    n = queries * 3 if unit == "rounds" else queries
    for estimate in (metrics.draft_acceptance_rate, metrics.mean_acceptance_length, metrics.block_efficiency):
        assert estimate is not None
        assert estimate.n == n
    assert metrics.share_above is not None
    assert metrics.share_above[1].n == queries * 3, "shares count blocks, whatever the number of queries"


def test_the_delta_interval_covers_as_often_as_it_says() -> None:
    """2,000 runs of 200 rounds with a known rate. 95 % nominal; a false failure of this band has chance below 1e-6.

    The binomial spread of the coverage is .0049, the band .92 .. .975 is at least 5 of them wide on either side. An
    interval that is narrower by a fifth (z 1.57) covers .884 and fails.
    """
    rng = np.random.default_rng(1)
    hits = narrow = 0
    for _ in range(2000):
        drafted = rng.integers(1, 6, size=200)
        accepted = rng.binomial(drafted, 0.6)
        interval = delta_interval(accepted.astype(float), drafted.astype(float))
        assert interval is not None
        hits += interval[0] <= 0.6 <= interval[1]
        middle, half = sum(interval) / 2, (interval[1] - interval[0]) / 2 * 0.8
        narrow += middle - half <= 0.6 <= middle + half
    assert 0.92 <= hits / 2000 <= 0.975
    assert not narrow / 2000 >= 0.92, "the control must fail"
