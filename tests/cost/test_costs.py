"""The arithmetic of gates and ledgers, against closed forms."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz.cost.exit_replay import annealed, one_rival, raw_threshold, shares
from specviz.cost.ledger import Clock, RoundCost, head_cost

logits = st.lists(st.floats(-12, 12), min_size=2, max_size=12)
temperatures = st.floats(1, 5)


def top(values: list[float], temp: float) -> float:
    z = np.asarray(values) / temp
    return float(np.exp(z.max() - np.logaddexp.reduce(z)))


def test_the_temperature_falls_to_one_at_the_top() -> None:
    assert annealed(0.5, 12, 12) == 1
    assert annealed(0.5, 1, 12) == pytest.approx(1 + 0.5 * 11 / 12)
    assert annealed(0, 3, 12) == 1


@given(logits, temperatures, st.floats(0.01, 0.99))
def test_the_raw_threshold_says_what_the_test_says(values: list[float], temp: float, tau: float) -> None:
    raw, conf = top(values, 1), top(values, temp)
    threshold = raw_threshold(raw, conf, temp, tau)
    if abs(conf - tau) > 1e-6 and 1e-9 < conf < 1 - 1e-9 and raw < 1 - 1e-9:
        assert (raw >= threshold) == (conf >= tau)


@given(st.floats(0.1, 6), temperatures, st.floats(0.05, 0.95), st.integers(1, 5000))
def test_the_raw_threshold_of_equal_rivals(gap: float, temp: float, tau: float, rivals: int) -> None:
    """`g >= T (logit(tau) + ln m)`; with one rival sigmoid(T logit(tau))."""
    raw, conf = (1 / (1 + rivals * math.exp(-gap / t)) for t in (1, temp))
    needed = temp * (math.log(tau / (1 - tau)) + math.log(rivals))
    assert raw_threshold(raw, conf, temp, tau) == pytest.approx(1 / (1 + rivals * math.exp(-needed)), rel=1e-6)
    if rivals == 1:
        assert one_rival(tau, temp) == pytest.approx(raw_threshold(raw, conf, temp, tau), rel=1e-6)


def test_the_raw_threshold_of_the_spec() -> None:
    assert one_rival(0.9, 1.5) == pytest.approx(0.964, abs=5e-4)
    assert raw_threshold(0.5, 0.4, 1.5, 0) == 0
    assert raw_threshold(0.5, 0.4, 1.5, 1.01) == 1.01


def test_default_layers_of_known_models() -> None:
    eighths = (1 / 8, 1 / 4, 3 / 8, 1 / 2)
    assert shares(eighths, 32) == [4, 8, 12, 16]
    assert shares(eighths, 12) == [2, 3, 5, 6]
    assert shares(eighths, 2) == [1]
    assert shares(eighths, 1) == []


@given(st.integers(2, 40), st.lists(st.integers(1, 20), max_size=8), st.data())
def test_the_ledger_adds_up(n_layers: int, exits: list[int], data: st.DataObject) -> None:
    kept = data.draw(st.integers(0, len(exits)))
    cost = RoundCost(n_layers, tuple(exits), kept)
    entries = cost.entries()
    assert sum(entry.net for entry in entries) == cost.saved_calls
    assert sum(entry.paid for entry in entries) == cost.layer_calls
    assert cost.saved_calls == (kept + 1) * n_layers - cost.layer_calls
    assert cost.cells - cost.wasted_cells == (kept + 1) * n_layers


def test_head_costs_of_the_spec() -> None:
    assert head_cost(32_000, 4_096, 202_400_000) == pytest.approx(0.65, abs=0.005)
    assert head_cost(151_936, 896, 14_900_000) == pytest.approx(9.1, abs=0.05)


def test_a_round_is_predicted_from_its_calls() -> None:
    clock = Clock((1, 2, 5), (10.0, 12.0, 30.0), (4.0, 5.0, 8.0), 3.0, 1.0)
    assert clock.layer(1) == 10
    assert clock.layer(3) == 18
    assert clock.layer(6) == 36  # the last line goes on
    assert clock.round_ns([1, 1, 2], passes=2, head_tests=2, n_rows=2) == 10 + 10 + 12 + 2 + 6 + 5
