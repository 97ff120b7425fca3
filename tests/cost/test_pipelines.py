"""The closed forms of a pipeline's time a token against simulations of the processes they describe, and its tables.

A simulated ratio may lie 5 standard errors off: one such check fails by chance with probability 5.7e-7, all of this
file together with 1e-4. With the cycles used the smallest error that can be seen is about 2.5 % of a latency.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost.rollback import rollback_pearl, rollback_sps
from specviz.cost import pipelines as p

alphas = st.floats(0.02, 0.98)
POINTS = [(0.5, 5, 15), (0.5, 15, 15), (0.6, 8, 15), (0.8, 8, 8), (0.9, 5, 5), (0.3, 3, 2)]
SIGMAS = 5
Cycle = tuple[float, float]  # what is measured, and per what
T = TypeVar("T")


def ideal_sd(gamma: int, c: float, t: float = 1.0) -> float:
    """Draft, then verify, all accepted, the bonus token not counted: `(gamma + c) t/gamma`."""
    return (gamma + c) * t / gamma


def ideal_psd(gamma: int, c: float, t: float = 1.0) -> float:
    """Draft beside verify, all accepted: `max(gamma, c) t/gamma`. `ideal_sd` over it is largest, 2, at gamma = c."""
    return max(gamma, c) * t / gamma


def theorem_1_by_time(alpha: float, gamma: int, c: float, t: float = 1.0) -> float:
    """The same rounds with *times* averaged, as renewal has it: `(2 - alpha^gamma) M/E[X]`, at most 12.5 % more.

    Still without correction tokens: the exact form of the same pipeline is `overlap_full_refill`.
    """
    mean = p.mean_accepted(alpha, gamma)
    return math.inf if mean == 0 else (2 - alpha**gamma) * max(gamma, c) * t / mean


def best_gamma(latency: p.Latency, alpha: float, c: float, most: int = 64) -> int:
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
    found = top.sum() / bottom.sum()
    error = math.sqrt(((top - found * bottom) ** 2).sum()) / bottom.sum()
    return bool(abs(found - expected) < SIGMAS * error + 1e-12)


def sps_rounds(alpha: float, gamma: int, c: float) -> Iterator[Cycle]:
    coins = Coins(alpha, 1)
    while True:
        yield gamma + c, coins.run(gamma) + 1


def overlap_rounds(alpha: float, gamma: int, c: float, refill: float) -> Iterator[Cycle]:
    """Drafts lie ready while one slot verifies and drafts the next; a rejection empties the pipe."""
    coins, ready = Coins(alpha, 2), False
    while True:
        began = 0.0 if ready else refill
        kept = coins.run(gamma)
        ready = kept == gamma
        yield began + max(gamma, c), gamma if ready else kept + 1


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


def branch_stages(alpha: float, m: int, c: float, hit: float, branch_len: int) -> Iterator[Cycle]:
    """From one draft stage to the next: its m forwards, then branch stages as long as a branch survives."""
    coins = Coins(alpha, 4)
    while True:
        time, tokens, alive = float(m), 0, True
        while alive:
            kept = coins.run(m)
            time, tokens = time + max(branch_len, c), tokens + kept + 1
            alive = kept == m and coins.rng.random() < hit
        yield time, tokens


def first(cycles: Iterator[T], n: int = 8_000) -> list[T]:
    return [next(cycles) for _ in range(n)]


@pytest.mark.parametrize(("alpha", "gamma", "c"), POINTS)
def test_exact_latencies_by_simulation(alpha: float, gamma: int, c: int) -> None:
    assert agrees(first(sps_rounds(alpha, gamma, c)), p.sps(alpha, gamma, c))
    # Renewal pairs: the refill is paid by the round after a rejection, which shifts no long-run mean.
    full, drafted = (first(overlap_rounds(alpha, gamma, c, refill)) for refill in (max(gamma, c), gamma))
    assert agrees(full, p.overlap_full_refill(alpha, gamma, c))
    assert agrees(drafted, p.overlap_draft_refill(alpha, gamma, c))
    steps = first(pearl_cycles(alpha, gamma, c))
    assert agrees([(time, tokens) for time, tokens, _, _ in steps], p.pearl(alpha, gamma, c))
    assert agrees([(void, drafted) for _, _, void, drafted in steps], rollback_pearl(alpha, gamma))
    rounds = [(gamma - kept + 1, gamma) for _, kept in first(sps_rounds(alpha, gamma, c))]
    assert agrees(rounds, rollback_sps(alpha, gamma))


@pytest.mark.parametrize(("alpha", "m", "c", "hit"), [(0.6, 4, 15, 0.8), (0.8, 8, 8, 0.92), (0.9, 5, 5, 0.97)])
@pytest.mark.parametrize("branch_len", [3, 12])
def test_the_branch_chain_by_simulation(alpha: float, m: int, c: int, hit: float, branch_len: int) -> None:
    found = first(branch_stages(alpha, m, c, hit, branch_len))
    assert agrees(found, p.specbranch_chain(alpha, m, c, hit, branch_len))


@pytest.mark.parametrize(("alpha", "gamma", "c"), POINTS[:-1])
def test_what_theorem_1_averages(alpha: float, gamma: int, c: int) -> None:
    """Rates of rounds for the theorem, times of rounds for its correction; both over accepted tokens alone."""
    coins, slot = Coins(alpha, 5), max(gamma, c)
    kept = np.array([coins.run(gamma) for _ in range(8_000)])
    times = np.where(kept == gamma, slot, 2 * slot)
    rates = 1 / times
    product = rates.mean() * kept.mean()
    error = math.hypot(rates.std() / rates.mean(), kept.std() / kept.mean()) / math.sqrt(len(kept))
    assert abs(product * p.theorem_1(alpha, gamma, c) - 1) < SIGMAS * error * math.sqrt(2)  # they are correlated
    assert agrees(list(zip(times, kept, strict=True)), theorem_1_by_time(alpha, gamma, c))


def test_the_check_sees_the_wrong_formula() -> None:
    """Control: the published form does not pass for the pipeline whose correction tokens it leaves out."""
    alpha, gamma, c = 0.8, 8, 8
    found = first(overlap_rounds(alpha, gamma, c, c))
    assert agrees(found, p.overlap_full_refill(alpha, gamma, c))
    assert not agrees(found, p.theorem_1(alpha, gamma, c))
    assert not agrees(found, p.overlap_draft_refill(alpha, gamma, 2 * c))


# Worked out apart: alpha, gamma, c; Theorem 1, by time, refill M, refill gamma t, PEARL, SpS
TABLE = [
    (0.5, 5, 15, 30.03, 30.48, 15.24, 10.24, 11.37, 10.16),
    (0.5, 15, 15, 30.00, 30.00, 15.00, 15.00, 11.25, 15.00),
    (0.6, 8, 15, 20.01, 20.17, 12.10, 9.30, 9.66, 9.29),
    (0.8, 8, 8, 4.12, 4.40, 3.52, 3.52, 3.14, 3.70),
    (0.9, 5, 5, 1.706, 1.912, 1.721, 1.721, 1.599, 2.134),
]
FORMS = (p.theorem_1, theorem_1_by_time, p.overlap_full_refill, p.overlap_draft_refill, p.pearl, p.sps)


@pytest.mark.parametrize("row", TABLE)
def test_the_latencies_of_the_spec(row: tuple[float, ...]) -> None:
    alpha, gamma, c, *expected = row
    for form, value in zip(FORMS, expected, strict=True):
        assert form(alpha, int(gamma), c) == pytest.approx(value, abs=0.006)


def test_the_branch_chains_of_the_spec() -> None:
    """A branch token and m behind it: what keeps m pending tokens constant."""
    for alpha, m, c, hit, value in ((0.6, 4, 15, 0.8, 8.06), (0.8, 8, 8, 0.92, 3.64), (0.9, 5, 5, 0.97, 1.736)):
        assert p.specbranch_chain(alpha, m, c, hit, m + 1) == pytest.approx(value, abs=0.006)


# Worked out apart: best lengths at alpha .3 .5 .7 .8 .9 .95
@pytest.mark.parametrize(
    ("c", "refill", "serial"),
    [
        (5, (2, 2, 4, 5, 5, 5), (1, 1, 3, 4, 7, 10)),
        (8, (2, 3, 4, 6, 8, 8), (1, 2, 4, 5, 9, 13)),
        (15, (3, 4, 6, 7, 11, 15), (2, 3, 5, 7, 12, 18)),
    ],
)
def test_the_best_lengths_of_the_spec(c: int, refill: tuple[int, ...], serial: tuple[int, ...]) -> None:
    for alpha, short, alone in zip((0.3, 0.5, 0.7, 0.8, 0.9, 0.95), refill, serial, strict=True):
        assert best_gamma(p.overlap_draft_refill, alpha, c) == short
        assert best_gamma(p.sps, alpha, c) == alone
        assert [best_gamma(form, alpha, c) for form in (p.theorem_1, p.pearl, p.overlap_full_refill)] == [c] * 3


@given(alphas, st.integers(1, 15))
def test_theorem_1_is_best_at_c(alpha: float, c: int) -> None:
    """Falls up to c, rises from c on: the best length says nothing of alpha."""
    values = [p.theorem_1(alpha, gamma, c) for gamma in range(1, 40)]
    assert all(a >= b * (1 - 1e-12) for a, b in pairwise(values[:c]))
    assert all(a < b for a, b in pairwise(values[c - 1 :]))


@given(alphas, st.integers(1, 20), st.floats(1, 20))
def test_forms_of_the_theorem(alpha: float, gamma: int, c: float) -> None:
    simple = 2 * max(gamma, c) * (1 - alpha) / (alpha * (1 - alpha ** (2 * gamma)))
    assert p.theorem_1(alpha, gamma, c) == pytest.approx(simple)
    worse = theorem_1_by_time(alpha, gamma, c) / p.theorem_1(alpha, gamma, c)
    assert 1 - 1e-12 <= worse <= 9 / 8 + 1e-12
    assert p.theorem_1(1 - 1e-9, gamma, c) == pytest.approx(ideal_psd(gamma, c), rel=1e-6)
    assert theorem_1_by_time(0.5, 1, 1) / p.theorem_1(0.5, 1, 1) == pytest.approx(9 / 8)


@given(st.floats(0, 1), st.integers(1, 20))
def test_the_accepted_law(alpha: float, gamma: int) -> None:
    law = p.accepted_law(alpha, gamma)
    assert sum(law) == pytest.approx(1)
    assert sum(k * share for k, share in enumerate(law)) == pytest.approx(p.mean_accepted(alpha, gamma))
    assert p.mean_accepted(alpha, gamma) + 1 - law[-1] == pytest.approx(p._powers(alpha, gamma))


@given(st.integers(1, 30), st.floats(1, 30))
def test_everything_accepted(gamma: int, c: float) -> None:
    assert p.overlap_full_refill(1, gamma, c) == p.overlap_draft_refill(1, gamma, c) == ideal_psd(gamma, c)
    assert p.pearl(1, gamma, c) == pytest.approx(ideal_psd(gamma, c))
    assert p.sps(1, gamma, c) == pytest.approx((gamma + c) / (gamma + 1))
    assert ideal_sd(gamma, c) <= 2 * ideal_psd(gamma, c)
    assert p.sps(0.4, 0, c) == p.ideal_ar(c)
    assert rollback_pearl(1, gamma) == pytest.approx(0) == rollback_sps(1, gamma)


def test_nothing_accepted() -> None:
    assert p.theorem_1(0, 4, 8) == theorem_1_by_time(0, 4, 8) == math.inf
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


@given(st.floats(0.1, 50), st.floats(0.1, 5), st.floats(0.1, 5), st.booleans())
def test_the_automatic_branch_fits_and_one_more_would_not(target: float, one: float, step: float, known: bool) -> None:
    length = p.auto_branch_len(target, one, step, known)
    spent = (0.0 if known else one) + (length - 1) * step
    assert length == 1 or spent <= target * (1 + 1e-6)
    assert spent + step > target * (1 - 1e-6)
