"""The curve of draft lengths against the exact law of i.i.d. acceptance."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz.cost.payoff import LEAST_TESTS, PositionChance, RoundCosts, expected, payoff
from specviz_lab.papers import pipelines

alphas = st.floats(0.05, 0.98)


def chances(alpha: float, to: int = 20, n: int = 1000, off: float = 0.0) -> dict[int, PositionChance]:
    return {t: PositionChance(alpha, max(0.0, alpha - off), min(1.0, alpha + off), n) for t in range(1, to + 1)}


@given(alphas, st.floats(1, 40), st.integers(1, 16))
def test_equal_chances_give_the_exact_latency_of_drafting_then_verifying(alpha: float, c: float, own: int) -> None:
    costs = RoundCosts((1, 32), (c, c), step_s=1.0)
    gain = payoff(chances(alpha), costs, own)
    assert gain is not None
    for gamma in gain.gammas:
        assert gain.speeds[gamma] == pytest.approx(1 / pipelines.sps(alpha, gamma, c))
    assert gain.speeds[gain.best] == max(gain.speeds)


def test_a_position_is_reached_only_behind_all_before_it() -> None:
    assert expected(lambda t: {1: 0.5, 2: 0.0}.get(t, 1.0), 5) == 1.5


def test_what_no_draft_has_reached_is_carried_on_from_what_was() -> None:
    few = {
        1: PositionChance(0.9, 0.8, 1.0, 90),
        2: PositionChance(0.6, 0.5, 0.7, 30),
        3: PositionChance(0.1, 0.0, 0.9, LEAST_TESTS - 1),
    }
    gain = payoff(few, RoundCosts((1, 17), (1.0, 1.0), 0.0))
    assert gain is not None
    assert gain.reached == 2
    beyond = (0.9 * 90 + 0.6 * 30) / 120
    assert gain.speeds[3] == pytest.approx(1 + 0.9 + 0.9 * 0.6 * (1 + beyond))


def test_too_few_tests_say_nothing_and_wide_intervals_tell_nothing_apart() -> None:
    costs = RoundCosts((1, 17), (1.0, 1.0), 0.05)
    assert payoff(chances(0.5, n=LEAST_TESTS - 1), costs, 4) is None
    sure, unsure = (payoff(chances(0.6, off=off), costs, 16) for off in (0.0, 0.39))
    assert sure is not None
    assert unsure is not None
    assert sure.told_apart
    assert not unsure.told_apart
