"""The curve of draft lengths against the exact law of i.i.d. acceptance, and the roofline against its definition."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz.cost import pipelines
from specviz.cost.payoff import LEAST_TESTS, PositionChance, RoundCosts, expected, payoff
from specviz.cost.roofline import bound, of_round
from specviz.events import Calibration, MachineRates, PassParts, PassWork

alphas = st.floats(0.05, 0.98)
WORK = PassWork(
    layer_bytes=3_000_000,
    head_bytes=1_000_000,
    cache_bytes=1_000,
    layer_flops=6_000_000,
    head_flops=2_000_000,
    cache_flops=500,
    bits=16.0,
)
RATES = MachineRates(read_gbs=10.0, copy_gbs=8.0, gflops=100.0)


def chances(alpha: float, to: int = 20, n: int = 1000, off: float = 0.0) -> dict[int, PositionChance]:
    return {t: PositionChance(alpha, max(0.0, alpha - off), min(1.0, alpha + off), n) for t in range(1, to + 1)}


@given(alphas, st.floats(1, 40), st.integers(1, 16))
def test_equal_chances_give_the_exact_latency_of_drafting_then_verifying(alpha: float, c: float, own: int) -> None:
    costs = RoundCosts((1, 32), (c, c), step_s=1.0)
    found = payoff(chances(alpha), costs, own)
    assert found is not None
    for gamma in found.gammas:
        assert found.speeds[gamma] == pytest.approx(1 / pipelines.sps(alpha, gamma, c))
    assert found.speeds[found.best] == max(found.speeds)


def test_a_position_is_reached_only_behind_all_before_it() -> None:
    assert expected(lambda t: {1: 0.5, 2: 0.0}.get(t, 1.0), 5) == 1.5


def test_what_no_draft_has_reached_is_carried_on_from_what_was() -> None:
    few = {
        1: PositionChance(0.9, 0.8, 1.0, 90),
        2: PositionChance(0.6, 0.5, 0.7, 30),
        3: PositionChance(0.1, 0.0, 0.9, LEAST_TESTS - 1),
    }
    found = payoff(few, RoundCosts((1, 17), (1.0, 1.0), 0.0))
    assert found is not None
    assert found.reached == 2
    beyond = (0.9 * 90 + 0.6 * 30) / 120
    assert found.speeds[3] == pytest.approx(1 + 0.9 + 0.9 * 0.6 * (1 + beyond))


def test_too_few_tests_say_nothing_and_wide_intervals_tell_nothing_apart() -> None:
    costs = RoundCosts((1, 17), (1.0, 1.0), 0.05)
    assert payoff(chances(0.5, n=LEAST_TESTS - 1), costs, 4) is None
    sure, unsure = (payoff(chances(0.6, off=off), costs, 16) for off in (0.0, 0.39))
    assert sure is not None
    assert unsure is not None
    assert sure.told_apart
    assert not unsure.told_apart


@given(st.floats(1, 64), st.floats(0, 4096), st.floats(1, 9))
def test_a_pass_is_bound_by_the_slower_of_reading_and_multiplying(rows: float, context: float, calls: float) -> None:
    found = bound(WORK, RATES, rows, context, calls)
    read = calls * (4e6 + 1e3 * context) / 10e9
    computed = calls * rows * (8e6 + 500 * context) / 100e9
    assert found.seconds == pytest.approx(max(read, computed))
    assert found.by == ("bandwidth" if read >= computed else "arithmetic")


def test_the_parts_of_a_round_add_up_to_what_was_measured() -> None:
    costs = Calibration(
        rates=RATES, target_work=WORK, draft_work=WORK, target_parts=PassParts(layers=600, head=300, host=100)
    )
    stages = {"draft": 2.0, "target": 10.0, "verdict": 0.5}
    found = of_round(costs, stages, rows=5, context=0, draft_calls=4)
    assert found is not None
    assert found.measured_s * 1e3 == pytest.approx(sum(stages.values()))
    assert {part.name: round(part.measured_s * 1e3, 6) for part in found.parts} == {
        "layers": 6.0,
        "head": 3.0,
        "host": 1.0,
        "draft": 2.0,
        "verdict": 0.5,
    }
    assert found.bound_s == pytest.approx(bound(WORK, RATES, 5).seconds + bound(WORK, RATES, 1, 0, 4).seconds)
    assert math.isclose(found.share, found.bound_s / found.measured_s)
    assert of_round(Calibration(), stages, 5, 0) is None, "an older trace has no work on record"
