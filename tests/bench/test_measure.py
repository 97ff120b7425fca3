"""The measuring loop on fakes: order, balance, warm-up, time bound."""

from collections import Counter

import pytest

from bench.fakes import Clock, FakeArm
from specviz_lab.bench.measure import Measurement, MeasuringPlan, measure, turns
from specviz_lab.bench.results import ratios_of
from specviz_lab.bench.settings import contestants


def run(
    plan: MeasuringPlan, costs: tuple[float, ...] = (1.0, 2.0, 3.0), n_prompts: int = 2
) -> tuple[Measurement, list[tuple[str, int]]]:
    clock, log = Clock(), list[tuple[str, int]]()
    slow = [1.0]
    arms = [FakeArm(f"arm{k}", clock, cost, log, slow) for k, cost in enumerate(costs)]

    def slower(_: str) -> None:
        slow[0] *= 1.5  # the machine gets slower and slower

    return measure(arms, [[p] for p in range(n_prompts)], plan, slower, clock), log


@pytest.mark.parametrize("n_arms", [1, 2, 5])
def test_every_turn_runs_every_arm_once_and_every_arm_takes_every_place(n_arms: int) -> None:
    measured = list(turns(n_arms, 3, 5))
    assert [(t.repeat, t.prompt) for t in measured] == [(r, p) for r in range(5) for p in range(3)]
    assert all(sorted(t.order) == list(range(n_arms)) for t in measured)
    places = Counter((place, arm) for t in measured for place, arm in enumerate(t.order))
    assert max(places.values()) - min(places.values()) <= 1
    assert len(places) == n_arms**2


def test_arms_are_interleaved_after_a_warm_up_that_is_not_counted() -> None:
    measured, log = run(MeasuringPlan(10, 2))
    assert [name for name, _ in log[:3]] == ["arm0", "arm1", "arm2"]
    timed = log[3 : 3 + 12]
    assert [prompt for _, prompt in timed] == [0] * 3 + [1] * 3 + [0] * 3 + [1] * 3
    for start in range(0, 12, 3):
        assert {name for name, _ in timed[start : start + 3]} == {"arm0", "arm1", "arm2"}
    assert len(measured.samples) == 12
    assert [len(splits) for splits in measured.splits] == [2, 2, 2]
    assert not measured.cut


def test_what_slows_the_machine_cancels_in_paired_ratios() -> None:
    """Each turn is 1.5 times as slow as the one before; unpaired medians would not agree on 2."""
    measured, _ = run(MeasuringPlan(10, 3), costs=(1.0, 2.0))
    (ratio,) = ratios_of(contestants("ar,hf-generate"), measured.samples)
    assert ratio.value == pytest.approx(2)
    assert ratio.interval == pytest.approx((2, 2))


def test_a_time_bound_ends_between_turns_and_leaves_room_for_the_last_pass() -> None:
    clock, log = Clock(), list[tuple[str, int]]()
    arms = [FakeArm(name, clock, 1.0, log, [1.0]) for name in ("a", "b")]
    order = measure(arms, [[0], [1]], MeasuringPlan(10, 50, 200.0), lambda _: None, clock)
    assert order.cut
    assert order.seconds <= 200
    counts = Counter((s.arm, s.prompt) for s in order.samples)
    assert counts[0, 0] == counts[1, 0]
    assert counts[0, 1] == counts[1, 1]
    assert order.seconds > 200 - 2 * 20  # and it uses the time it has


def test_the_first_turn_is_measured_whatever_the_bound() -> None:
    measured, _ = run(MeasuringPlan(10, 5, 0.001))
    assert [s.arm for s in measured.samples] == [0, 1, 2]
    assert measured.cut
    assert [len(splits) for splits in measured.splits] == [1, 1, 1]
