"""Paired ratios, spreads, Student's points, bars: against other ways to the same numbers."""

import math
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from specviz.metrics.differences import student
from specviz_lab.bench.measure import Sample, Split
from specviz_lab.bench.results import arm_result, bars_of, ratios_of
from specviz_lab.bench.settings import contestants
from specviz_lab.bench.statistics import PairedRatio, paired, spread


@pytest.mark.parametrize("df", [*range(1, 31), 60, 500])
def test_student_points_are_those_of_scipy(df: int) -> None:
    assert student(df) == pytest.approx(scipy_stats.t.ppf(0.975, df), rel=2e-4)


def test_spread_of_nothing_and_of_five() -> None:
    assert spread([]) is None
    quartiles = spread([5, 1, 4, 2, 3])
    assert quartiles is not None
    assert (quartiles.low, quartiles.median, quartiles.high, quartiles.n) == (2, 3, 4, 5)


TIMES = st.dictionaries(st.tuples(st.integers(0, 4), st.integers(0, 3)), st.floats(0.001, 10), min_size=1, max_size=20)


@given(TIMES, st.floats(0.1, 10))
def test_an_arm_that_always_takes_a_fixed_multiple_has_that_ratio(
    times: Mapping[tuple[int, int], float], k: float
) -> None:
    """However the turns differ from each other: what slows both cancels, and the interval is a point."""
    pairs = paired("a", "b", times, {key: k * t for key, t in times.items()})
    assert pairs is not None
    assert pairs.value == pytest.approx(k)
    assert pairs.n == len({prompt for prompt, _ in times})
    if pairs.interval is not None:
        assert pairs.interval == pytest.approx((k, k), rel=1e-6)


@given(TIMES, st.data())
def test_swapping_the_arms_inverts_the_ratio_and_its_interval(
    times: Mapping[tuple[int, int], float], data: st.DataObject
) -> None:
    """With one repeat a prompt; the median of an even number of ratios is not the inverse of that of inverses."""
    mine = {key: t for key, t in times.items() if key[1] == min(r for p, r in times if p == key[0])}
    other = {key: data.draw(st.floats(0.001, 10)) for key in mine}
    there, back = paired("a", "b", mine, other), paired("b", "a", other, mine)
    assert there is not None
    assert back is not None
    assert there.value * back.value == pytest.approx(1)
    if there.interval is not None and back.interval is not None and math.isfinite(there.interval[1]):
        assert there.interval[0] * back.interval[1] == pytest.approx(1)


def test_one_disturbed_repeat_does_not_move_a_ratio() -> None:
    """The median over repeats; a mean would say 1.1 at this prompt."""
    mine = {(0, r): 1.0 for r in range(5)} | {(1, r): 1.0 for r in range(5)}
    other = dict.fromkeys(mine, 2.0) | {(0, 3): 40.0}
    pairs = paired("a", "b", mine, other)
    assert pairs is not None
    assert pairs.value == pytest.approx(2)


def test_the_interval_is_student_s_over_prompts_not_over_repeats() -> None:
    ratios = np.array([1.0, 1.2, 1.5, 2.0])
    mine = {(p, r): 1.0 for p in range(4) for r in range(7)}
    other = {(p, r): float(ratios[p]) for p, r in mine}
    pairs = paired("a", "b", mine, other)
    assert pairs is not None
    logs = np.log(ratios)
    low, high = scipy_stats.t.interval(0.95, 3, logs.mean(), scipy_stats.sem(logs))
    assert pairs.interval == pytest.approx((math.exp(low), math.exp(high)), rel=1e-4)
    assert pairs.n == 4


def test_only_turns_that_both_ran_count() -> None:
    pairs = paired("a", "b", {(0, 0): 1.0, (1, 0): 1.0}, {(0, 0): 3.0, (2, 0): 9.0})
    assert pairs is not None
    assert (pairs.value, pairs.interval, pairs.n) == (pytest.approx(3), None, 1)
    assert paired("a", "b", {(0, 0): 1.0}, {(1, 0): 1.0}) is None


def _ratio(arm: str, base: str, value: float) -> PairedRatio:
    return PairedRatio(arm=arm, base=base, value=value, interval=(value * 0.9, value * 1.1), n=3)


def test_bars_hold_speeds_from_below_and_costs_from_above() -> None:
    good = bars_of([_ratio("ar", "hf-generate", 1.06), _ratio("chain+summary", "chain", 0.99)], True)
    bad = bars_of([_ratio("chain", "hf-assisted", 1.29), _ratio("chain+full", "chain", 0.9)], True)
    assert [bar.met for bar in good] == [True, True]
    assert [bar.met for bar in bad] == [False, False]
    assert bad[1].found == pytest.approx(1 / 0.9 - 1)
    assert bad[1].interval is not None
    assert bad[1].interval[0] < bad[1].found < bad[1].interval[1]
    assert bars_of([_ratio("tree", "ar", 0.5), _ratio("chain+none", "chain", 0.5)], True) == []


def test_recording_is_compared_with_level_none_where_that_was_measured() -> None:
    samples = [_sample(k, 0, 0, seconds) for k, seconds in enumerate((2.0, 2.5, 3.0))]
    ratios = ratios_of(contestants("chain,chain+none,chain+full"), samples)
    none, full = ratios
    assert (none.arm, none.base, full.arm, full.base) == ("chain+none", "chain", "chain+full", "chain+none")
    (bar,) = bars_of(ratios, True)
    assert bar.found == pytest.approx(3.0 / 2.5 - 1)
    assert bar.is_cost


def _sample(arm: int, prompt: int, repeat: int, seconds: float) -> Sample:
    return Sample(arm, prompt, repeat, seconds, [1, 2, 3, 4])


def test_ratios_are_of_time_a_token_and_name_the_faster_arm_above_one() -> None:
    arms = contestants("ar,hf-generate,ar+full")
    samples = [_sample(0, 0, 0, 2.0), _sample(1, 0, 0, 3.0), _sample(2, 0, 0, 2.5)]
    ratios = {(r.arm, r.base): r.value for r in ratios_of(arms, samples)}
    assert ratios == {("ar", "hf-generate"): pytest.approx(1.5), ("ar+full", "ar"): pytest.approx(0.8)}


def test_an_arm_s_numbers_come_from_its_runs_and_its_rounds() -> None:
    samples = {(0, 0): _sample(0, 0, 0, 2.0), (0, 1): _sample(0, 0, 1, 4.0)}
    splits = [
        Split(
            8, 4, 10, 4, [{"draft": 1.0, "target": 5.0}, {"draft": 3.0, "target": 5.0}, {"draft": 2.0, "target": 9.0}]
        )
    ]
    result = arm_result("x", samples, splits)
    assert (result.n_runs, result.tokens_per_second.median, result.ms_per_token.median) == (2, 1.5, 750)
    assert (result.tokens_per_round, result.draft_acceptance_rate) == (2, 0.4)
    assert result.stage_ms == {"draft": 2.0, "target": 5.0}
    assert result.round_ms is not None
    assert result.round_ms.median == 8.0
