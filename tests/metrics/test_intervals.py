"""Intervals against the formulas of the books, and against what they promise: 95 of 100 cover."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from specviz.metrics import Estimate, delta_interval, measure, wilson_interval
from specviz.metrics.estimate import Unknown, Z, mean_difference, share
from support.estimates import mean, ratio
from support.traces import plain_round, plain_run


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
    estimate = ratio(np.array([0, 1]), np.array([1, 1]), np.arange(2), most=1.0)
    assert estimate == Estimate(value=0.5, interval=(0.0, 1.0), n=2)


def test_rows_of_one_unit_are_added_before_the_spread_is_taken() -> None:
    top, bottom, units = np.array([1, 3, 2, 4]), np.array([4, 4, 4, 4]), np.array([7, 7, 9, 9])
    estimate = ratio(top, bottom, units)
    assert estimate is not None
    assert estimate.n == 2
    assert estimate.interval == delta_interval(np.array([4.0, 6.0]), np.array([8.0, 8.0]))


@pytest.mark.parametrize(("kept", "drafted"), [(0, 4), (4, 4), (1, 4), (1, 3)], ids=["none", "all", ".25", "third"])
@pytest.mark.parametrize("rounds", [2, 7, 40])
def test_a_share_of_equal_rounds_has_wilson_s_interval_over_the_rounds(kept: int, drafted: int, rounds: int) -> None:
    estimate = ratio(np.full(rounds, kept), np.full(rounds, drafted), np.arange(rounds), most=1.0)
    assert estimate is not None
    assert estimate.interval == pytest.approx(wilson_interval(kept / drafted * rounds, rounds))
    assert estimate.interval is not None
    assert estimate.interval[1] - estimate.interval[0] > 0.05, "40 rounds alike are no certainty"
    assert estimate.interval[0] <= estimate.value <= estimate.interval[1]


def test_rounds_that_drafted_nothing_say_nothing_of_a_share() -> None:
    """One token was drafted in 55 rounds, and kept: that is no acceptance of 1 without a doubt."""
    drafted = np.array([1, *[0] * 54])
    assert ratio(drafted, drafted, np.arange(55), most=1.0) == Estimate(value=1.0, n=1, unknown="few")


@pytest.mark.parametrize(("rounds", "why"), [(1, "few"), (2, "few"), (19, "few"), (20, "alike"), (400, "alike")])
def test_a_mean_of_equal_rounds_says_why_it_has_no_interval(rounds: int, why: Unknown) -> None:
    expected = Estimate(value=3.0, n=rounds, unknown=why)
    assert mean([3] * rounds) == expected
    assert ratio(np.full(rounds, 3), np.ones(rounds), np.arange(rounds)) == expected
    assert mean_difference(np.full(rounds, 3), np.arange(rounds)) == expected


def test_equal_up_to_rounding_is_equal() -> None:
    thirds = ratio(np.array([0.1, 0.2, 0.3]), np.array([0.3, 0.6, 0.9]), np.arange(3))
    assert thirds is not None
    assert thirds.interval is None
    small = ratio(np.array([1.0, 1.001]), np.ones(2), np.arange(2))
    assert small is not None
    assert small.interval is not None, "little spread is spread"


@given(
    rows=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)).map(lambda t: (min(t), max(t))), min_size=1),
    most=st.sampled_from([None, 1.0]),
)
def test_no_interval_has_width_zero(rows: list[tuple[int, int]], most: float | None) -> None:
    kept, drafted = np.array(rows).T
    estimate = ratio(kept, drafted, np.arange(len(rows)), most=most)
    if estimate is None:
        assert not drafted.sum()
    elif estimate.interval is None:
        assert estimate.why_unknown is not None
    else:
        assert estimate.interval[1] > estimate.interval[0]
        assert estimate.interval[0] <= estimate.value <= estimate.interval[1]
        assert estimate.why_unknown is None


def test_only_an_estimate_without_an_interval_writes_why() -> None:
    assert msgspec.to_builtins(Estimate(value=1.0, n=3, unknown="few")) == {
        "value": 1.0,
        "interval": None,
        "n": 3,
        "unknown": "few",
    }
    assert msgspec.to_builtins(share(1, 2)).keys() == {"value", "interval", "n"}


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
