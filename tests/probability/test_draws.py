"""Keyed draws: known answers, one uniform per key, exact inversion, and the law of a race."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from specviz.probability import philox as module
from specviz.probability.draws import Keys, interval, invert, race, uniforms
from specviz.probability.philox import STREAMS, philox, uniform
from specviz.probability.rows import Certain

ONES = 0xFFFFFFFF
LAST = 1 - 2**-53  # the largest uniform


@pytest.mark.parametrize(
    ("counter", "key", "answer"),
    [
        ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)
def test_philox_known_answers(counter: str, key: str, answer: str) -> None:
    """The vectors that Random123 ships (kat_vectors, philox 4x32 10)."""
    words, keys = [int(w, 16) for w in counter.split()], [int(w, 16) for w in key.split()]
    block = philox(tuple(words), tuple(keys))  # type: ignore[arg-type]
    assert " ".join(f"{w:08x}" for w in block) == answer
    arrays = [np.full(3, w, dtype=np.uint64) for w in words]
    for found_word, word in zip(philox(tuple(arrays), tuple(keys)), answer.split(), strict=True):  # type: ignore[arg-type]
        assert [f"{int(w):08x}" for w in found_word] == [word] * 3


def test_a_uniform_is_made_of_the_first_two_words() -> None:
    """Zero seed, stream `target`, everything zero: the zero known answer."""
    assert uniform(0, "target", 0, 0) == ((0x6627E8D5 >> 5) * 2**26 + (0xE169C58D >> 6)) / 2**53


def test_counter_is_position_round_index_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(module, "philox", lambda counter, key: seen.append((counter, key)) or (0, 0, 0, 0))
    uniform(0x1_0000_0002, "residual", 5, 7, 11)
    assert seen == [((7, 5, 11, 3), (2, 1))]


@pytest.mark.parametrize(("words", "u"), [((0, 0), 0.0), ((ONES, ONES), LAST), ((32, 0), 2**-27), ((0, 64), 2**-53)])
def test_range_and_bits(monkeypatch: pytest.MonkeyPatch, words: tuple[int, int], u: float) -> None:
    monkeypatch.setattr(module, "philox", lambda counter, key: (*words, 0, 0))
    assert uniform(0, "draft", 1, 1) == u < 1


seeds = st.integers(0, 2**64 - 1)
words = st.integers(0, 2**32 - 1)


@settings(deadline=None)
@given(seeds, st.sampled_from(sorted(STREAMS)), words, words, words)
def test_arrays_equal_scalars(seed: int, stream: str, round_: int, pos: int, start: int) -> None:
    draws = uniforms(seed, stream, round_, pos, start, 5)  # type: ignore[arg-type]
    assert draws.tolist() == [uniform(seed, stream, round_, pos, start + i) for i in range(5)]  # type: ignore[arg-type]


def test_no_two_keys_share_a_uniform() -> None:
    """53 bits and a bijection: among these few thousand keys even one collision would be a bug in the counter."""
    grid = itertools.product((0, 1, 2**32), STREAMS, range(6), range(12), range(6))
    draws = [uniform(seed, stream, r, pos, i) for seed, stream, r, pos, i in grid]  # type: ignore[arg-type]
    assert len(set(draws)) == len(draws)


def test_what_a_stream_depends_on() -> None:
    one, two = Keys(7, 1), Keys(7, 2)
    assert one.uniform("target", 3) == two.uniform("target", 3)
    for stream in ("draft", "accept", "residual", "other"):
        assert one.uniform(stream, 3) != two.uniform(stream, 3)  # type: ignore[arg-type]
        assert one.uniform(stream, 3) == Keys(7, 1).uniform(stream, 3) != Keys(8, 1).uniform(stream, 3)  # type: ignore[arg-type]
    assert one.passes(3, 0.5, 2).u == one.uniform("accept", 3, 2)
    assert one.draw("residual", 3, np.ones(4)).u == one.uniform("residual", 3)


@settings(deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 10_000))
def test_thresholds_zero_and_one(pos: int, round_: int) -> None:
    keys = Keys(1, round_)
    assert not keys.passes(pos, 0.0).passed
    assert keys.passes(pos, 1.0).passed


# Inversion.

rows = st.lists(st.sampled_from([0.0, 0.0, 1e-300, 1e-9, 0.1, 1.0, 3.0, 1e9]), min_size=1, max_size=12).filter(any)
units = st.one_of(st.just(0.0), st.just(LAST), st.floats(0, LAST, exclude_max=False))


@settings(deadline=None)
@given(rows, units)
def test_inversion_takes_the_first_sum_above(row: list[float], u: float) -> None:
    """Against the definition, summed by hand; an entry of weight 0 never comes out."""
    drawn = invert(np.array(row), u)
    sums = list(itertools.accumulate(row))
    assert drawn.token == next(i for i, s in enumerate(sums) if s > u * sums[-1])
    assert row[drawn.token] > 0


@settings(deadline=None)
@given(rows, units)
def test_the_interval_holds_the_uniform(row: list[float], u: float) -> None:
    drawn = invert(np.array(row), u)
    assert drawn.lo - 1e-15 <= u <= drawn.hi + 1e-15  # type: ignore[operator]
    assert (drawn.lo, drawn.hi) == interval(np.array(row), drawn.token)


def test_intervals_tile_the_unit() -> None:
    row = np.array([0.0, 2.0, 0.0, 1.0, 5.0, 0.0])
    edges = [interval(row, t) for t in range(6)]
    assert edges == [(0, 0), (0, 0.25), (0.25, 0.25), (0.25, 0.375), (0.375, 1), (1, 1)]


@pytest.mark.parametrize(("u", "token"), [(0.0, 1), (math.nextafter(0.25, 0), 1), (0.25, 3), (0.375, 4), (LAST, 4)])
def test_edges_belong_to_the_right(u: float, token: int) -> None:
    assert invert(np.array([0.0, 2.0, 0.0, 1.0, 5.0, 0.0]), u).token == token


def test_a_total_that_rounds_up_still_gives_a_token_with_weight() -> None:
    """`u * total` as large as the total itself: a uniform of 1 stands in for the rounding."""
    drawn = invert(np.array([0.3, 0.7, 0.0]), 1.0)
    assert drawn.token == 1


@settings(deadline=None)
@given(st.integers(1, 99))
def test_a_certain_row_gives_its_token(pos: int) -> None:
    for way in ("cdf", "race"):
        drawn = Keys(3, 1, way).draw("target", pos, Certain(4, 9))  # type: ignore[arg-type]
        assert (drawn.token, drawn.u) == (4, None)  # nothing to decide, no uniform spent
    assert [interval(Certain(1, 3), t) for t in range(3)] == [(0, 0), (0, 1), (1, 1)]


@settings(deadline=None)
@given(seeds, st.sampled_from(["cdf", "race"]))
def test_torch_rows_give_the_same_tokens(seed: int, way: str) -> None:
    torch = pytest.importorskip("torch")
    keys = Keys(seed, 1, way)  # type: ignore[arg-type]
    for pos in range(4):
        row = np.random.default_rng([seed, pos]).dirichlet(np.full(50, 0.1)).astype(np.float32)
        row[::7] = 0
        ours, theirs = keys.draw("target", pos, row), keys.draw("target", pos, torch.tensor(row))
        assert ours.token == theirs.token
        assert ours.u == theirs.u
        if way == "cdf":
            assert (ours.lo, ours.hi) == pytest.approx((theirs.lo, theirs.hi), abs=1e-15)


def test_torch_inversion_at_the_ends() -> None:
    torch = pytest.importorskip("torch")
    row = torch.tensor([0.0, 0.3, 0.7, 0.0])
    assert [invert(row, u).token for u in (0.0, LAST, 1.0)] == [1, 2, 2]


# Races.


def test_a_race_never_returns_weight_zero() -> None:
    torch = pytest.importorskip("torch")
    row = np.array([0.0, 1.0, 0.0, 1e-30])
    for noise in (np.zeros(4), np.full(4, LAST), np.array([0.0, 0.9, 0.0, 0.5])):
        assert row[race(row, noise)] > 0
        assert race(row, noise) == race(torch.tensor(row), noise)


def test_a_race_takes_the_shortest_wait() -> None:
    noise = np.array([0.5, 0.2, 0.9])
    row = np.array([0.2, 0.1, 0.7])
    waits = [-math.log(1 - u) / w for u, w in zip(noise, row, strict=True)]
    assert race(row, noise) == waits.index(min(waits))


@pytest.mark.parametrize("way", ["cdf", "race"])
def test_draws_have_the_law_of_the_row(way: str) -> None:
    """Chi-square over 6,000 positions, false alarm 1e-6 (seeded, so it cannot flicker).

    A share moved from .3 to .27 has non-centrality about 6000 * .03^2 / .3 = 18 and more, seen with power above .2;
    moved to .2 it has 200, seen for certain.
    """
    row = np.array([0.1, 0.0, 0.6, 0.3]) * 7
    keys = Keys(20, 1, way)  # type: ignore[arg-type]
    counts = np.bincount([keys.draw("target", pos, row).token for pos in range(6000)], minlength=4)
    expected = 6000 * row / row.sum()
    assert counts[1] == 0
    weighted = expected > 0
    statistic = float((((counts - expected) ** 2)[weighted] / expected[weighted]).sum())
    assert statistic < chi2.isf(1e-6, 2)


def test_race_noise_of_a_node_is_its_own() -> None:
    """The index of a draft draw is its ordinal: siblings race with disjoint noise."""
    row = np.full(64, 1 / 64)
    tokens = [Keys(5, 1, "race").draw("draft", 3, row, i).token for i in range(40)]
    assert len(set(tokens)) > 10
    first = uniforms(5, "draft", 1, 3, 0, 128)
    assert race(row, first[64:]) == tokens[1]
