"""The closed forms of a pipeline's time a token against simulations of the processes they describe, and its tables.

A simulated ratio may lie 5 standard errors off: one such check fails by chance with probability 5.7e-7, all of this
file together with 1e-4. With the cycles used the smallest error that can be seen is about 2.5 % of a latency.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz_lab.papers import pipelines as p
from specviz_lab.papers.pipelines import rollback_pearl, rollback_sps

alphas = st.floats(0.02, 0.98)
POINTS = [(0.5, 5, 15), (0.5, 15, 15), (0.6, 8, 15), (0.8, 8, 8), (0.9, 5, 5), (0.3, 3, 2)]
SIGMAS = 5
Cycle = tuple[float, float]  # what is measured, and per what
T = TypeVar("T")


def best_gamma(latency: Callable[[float, int, float], float], alpha: float, c: float, most: int = 64) -> int:
    """The length from 1 to `most` with the smallest latency, the shorter of two equal ones."""
    return min(range(1, most + 1), key=lambda gamma: (latency(alpha, gamma, c), gamma))


class Coins:
    """A stream of accepted (true) and rejected tokens."""

    def __init__(self, alpha: float, seed: int) -> None:
        self.alpha, self.rng = alpha, np.random.default_rng(seed)

    def run(self, most: int) -> int:
        """Tokens accepted in a row, `most` of them at most."""
        flips = self.rng.random(most) >= self.alpha
        return int(flips.argmax()) if flips.any() else most


def agrees(cycles: Sequence[Cycle], expected: float) -> bool:
    top, bottom = np.array(cycles).T
    mean = top.sum() / bottom.sum()
    error = math.sqrt(((top - mean * bottom) ** 2).sum()) / bottom.sum()
    return bool(abs(mean - expected) < SIGMAS * error + 1e-12)


def sps_rounds(alpha: float, gamma: int, c: float) -> Iterator[Cycle]:
    coins = Coins(alpha, 1)
    while True:
        yield gamma + c, coins.run(gamma) + 1


def pearl_cycles(alpha: float, gamma: int, c: float) -> Iterator[tuple[float, float, float, float]]:
    """Time, tokens, tokens rolled back and drafted from one failed verification to the next."""
    coins, post = Coins(alpha, 3), False
    time = tokens = drafted = 0.0
    while True:
        time, drafted = time + max(gamma, c), drafted + gamma
        if post:
            kept = coins.run(gamma)  # gamma - 1 pending ones and the first new one
            failed, void = kept < gamma, 2 * gamma - 1 - kept
            tokens += kept + failed
        else:
            failed, void = coins.run(1) == 0, gamma
            tokens += 1
        post = not failed
        if failed:
            yield time, tokens, void, drafted
            time = tokens = drafted = 0.0


def first(cycles: Iterator[T], n: int = 8_000) -> list[T]:
    return [next(cycles) for _ in range(n)]


@pytest.mark.parametrize(("alpha", "gamma", "c"), POINTS)
def test_exact_latencies_by_simulation(alpha: float, gamma: int, c: int) -> None:
    assert agrees(first(sps_rounds(alpha, gamma, c)), p.sps(alpha, gamma, c))
    steps = first(pearl_cycles(alpha, gamma, c))
    assert agrees([(time, tokens) for time, tokens, _, _ in steps], p.pearl(alpha, gamma, c))
    assert agrees([(void, drafted) for _, _, void, drafted in steps], rollback_pearl(alpha, gamma))
    rounds = [(gamma - kept + 1, gamma) for _, kept in first(sps_rounds(alpha, gamma, c))]
    assert agrees(rounds, rollback_sps(alpha, gamma))


# Worked out apart: alpha, gamma, c; PEARL, SpS
TABLE = [
    (0.5, 5, 15, 11.37, 10.16),
    (0.5, 15, 15, 11.25, 15.00),
    (0.6, 8, 15, 9.66, 9.29),
    (0.8, 8, 8, 3.14, 3.70),
    (0.9, 5, 5, 1.599, 2.134),
]


@pytest.mark.parametrize("row", TABLE)
def test_the_latencies_of_the_spec(row: tuple[float, ...]) -> None:
    alpha, gamma, c, *expected = row
    for form, value in zip((p.pearl, p.sps), expected, strict=True):
        assert form(alpha, int(gamma), c) == pytest.approx(value, abs=0.006)


# Worked out apart: alpha, gamma, c; theorem 1, the pipeline that refills
@pytest.mark.parametrize(
    "row",
    [
        (0.5, 5, 15, 30.03, 10.24),
        (0.5, 15, 15, 30.00, 15.00),
        (0.6, 8, 15, 20.01, 9.30),
        (0.8, 8, 8, 4.12, 3.52),
        (0.9, 5, 5, 1.706, 1.721),
    ],
)
def test_latencies_with_rollback(row: tuple[float, ...]) -> None:
    alpha, gamma, c, *expected = row
    for form, value in zip((p.theorem_1, p.refilled), expected, strict=True):
        assert form(alpha, int(gamma), c) == pytest.approx(value, abs=0.006)


def branch_stages(alpha: float, gamma: int, c: float, hit: float) -> Iterator[Cycle]:
    """Time and tokens of a stage with its refill: it commits accepted + 1, whatever happens at the branch point."""
    coins, hits = Coins(alpha, 5), np.random.default_rng(6)
    while True:
        kept = coins.run(gamma)
        survives = kept == gamma and hits.random() < hit
        yield max(gamma, c) + (0 if survives else gamma), kept + 1


@pytest.mark.parametrize(("alpha", "gamma", "c", "hit"), [(0.6, 4, 15, 0.8), (0.8, 8, 8, 0.92), (0.9, 5, 5, 0.97)])
def test_branch_stages_by_simulation(alpha: float, gamma: int, c: float, hit: float) -> None:
    assert agrees(first(branch_stages(alpha, gamma, c, hit)), p.branching(alpha, gamma, c, hit))


@given(alphas, st.integers(1, 12), st.integers(1, 12))
def test_branches_that_never_survive_are_plain_drafting(alpha: float, gamma: int, c: int) -> None:
    longer = max(gamma, c)
    assert p.branching(alpha, gamma, c, 0) == pytest.approx(p.sps(alpha, gamma, longer))


@pytest.mark.parametrize("alpha", [0.3, 0.5, 0.9, 0.95])
def test_the_theorem_is_least_at_c_and_below_plain_decoding_where_no_pipeline_is(alpha: float) -> None:
    """For every alpha below 1: a weak pair that wants shorter drafts is none of its findings."""
    assert best_gamma(p.theorem_1, alpha, 8, most=30) == 8
    assert p.theorem_1(0.5, 15, 15) == pytest.approx(2 * 15, rel=1e-3)  # half the speed of plain decoding
    assert p.refilled(0.5, 15, 15) == pytest.approx(15, rel=1e-3)
    assert p.pearl(0.5, 15, 15) < 15


# Worked out apart: best lengths at alpha .3 .5 .7 .8 .9 .95
@pytest.mark.parametrize(
    ("c", "serial"), [(5, (1, 1, 3, 4, 7, 10)), (8, (1, 2, 4, 5, 9, 13)), (15, (2, 3, 5, 7, 12, 18))]
)
def test_the_best_lengths_of_the_spec(c: int, serial: tuple[int, ...]) -> None:
    for alpha, alone in zip((0.3, 0.5, 0.7, 0.8, 0.9, 0.95), serial, strict=True):
        assert best_gamma(p.sps, alpha, c) == alone
        assert best_gamma(p.pearl, alpha, c) == c


@given(st.floats(0, 1), st.integers(1, 20))
def test_the_accepted_law(alpha: float, gamma: int) -> None:
    law = p.accepted_law(alpha, gamma)
    assert sum(law) == pytest.approx(1)
    assert sum(k * share for k, share in enumerate(law)) == pytest.approx(p.mean_accepted(alpha, gamma))
    assert p.mean_accepted(alpha, gamma) + 1 - law[-1] == pytest.approx(p._powers(alpha, gamma))


@given(st.integers(1, 30), st.floats(1, 30))
def test_everything_accepted(gamma: int, c: float) -> None:
    assert p.pearl(1, gamma, c) == pytest.approx(max(gamma, c) / gamma)
    assert p.sps(1, gamma, c) == pytest.approx((gamma + c) / (gamma + 1))
    assert p.sps(0.4, 0, c) == c
    assert rollback_pearl(1, gamma) == pytest.approx(0) == rollback_sps(1, gamma)


def test_nothing_accepted() -> None:
    assert p.sps(0, 4, 8) == 12
    assert p.pearl(0, 4, 8) == 8  # the correction token of every pre-verify step
    assert rollback_pearl(0, 4) == rollback_sps(0, 4) == 1


def test_rollback_rates_of_the_spec() -> None:
    for (alpha, gamma), (serial, beside) in {
        (0.5, 5): (0.81, 0.87),
        (0.65, 8): (0.78, 0.86),
        (0.8, 8): (0.58, 0.75),
        (0.9, 5): (0.26, 0.44),
    }.items():
        assert rollback_sps(alpha, gamma) == pytest.approx(serial, abs=0.006)
        assert rollback_pearl(alpha, gamma) == pytest.approx(beside, abs=0.006)
