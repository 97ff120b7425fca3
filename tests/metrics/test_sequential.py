"""The effect of a change that somebody looks at after every round: how often chance alone is called one, and what is
found where there is one."""

import random
from collections.abc import Callable

import pytest

from specviz.metrics.estimate import Estimate
from specviz.metrics.sequential import LEAST_LOOK, lasting_difference, looks

Law = Callable[[random.Random], int]


def chain(chance: float, gamma: int) -> Law:
    """Tokens of a round whose drafted tokens are each kept with that chance."""

    def tokens(rng: random.Random) -> int:
        kept = 0
        while kept < gamma and rng.random() < chance:
            kept += 1
        return kept + 1

    return tokens


def is_effect(difference: Estimate | None) -> bool:
    interval = difference.interval if difference is not None else None
    return interval is not None and not interval[0] <= 0 <= interval[1]


@pytest.mark.parametrize("law", [chain(0.05, 4), chain(0.6, 4), chain(0.9, 8)], ids=["seldom", "often", "nearly all"])
def test_looked_at_after_every_round_chance_is_called_an_effect_in_less_than_a_twentieth(law: Law) -> None:
    rng, wrong, n_runs = random.Random(5), 0, 200
    for _ in range(n_runs):
        before, after = ([law(rng) for _ in range(n)] for n in (30, 200))
        wrong += any(map(is_effect, looks(before, after)))
    assert wrong < 0.05 * n_runs


def test_an_effect_is_found() -> None:
    rng = random.Random(1)
    before, after = ([law(rng) for _ in range(60)] for law in (chain(0.5, 4), chain(0.9, 4)))
    assert is_effect(lasting_difference(before, after))
    assert not is_effect(lasting_difference(after, after))
    assert lasting_difference(before, after[:30]) == [*looks(before, after)][30 - LEAST_LOOK]


def test_no_spread_is_no_certainty_and_few_rounds_say_nothing() -> None:
    assert lasting_difference([1] * 9, [2] * 50) is None
    assert lasting_difference([1] * 50, [2] * 9) is None
    step = lasting_difference([1] * 10, [1] * 10)
    assert step is not None
    assert step.interval is not None
    assert step.interval[0] < -0.2 < 0.2 < step.interval[1]


def test_a_difference_that_stood_once_is_not_taken_back() -> None:
    rng, stood = random.Random(3), 0
    for _ in range(40):
        before, after = ([law(rng) for _ in range(n)] for law, n in ((chain(0.7, 4), 40), (chain(0.5, 4), 120)))
        verdicts = [is_effect(lasting_difference(before, after[:n])) for n in range(1, 121)]
        assert verdicts == sorted(verdicts)
        assert not any(verdicts[: LEAST_LOOK - 1])
        stood += verdicts[-1]
    assert stood > 20
