"""The staircase of rows: widths and filled lengths follow from the exits alone; vectors worked out by hand."""

from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from methods.early_exit.stage import Script, Sink, early
from specviz.engine.model.adapter import ModelAdapter
from specviz.events import ExitRound, LayerTrace
from support.models import build

PROMPT = [5, 77, 12, 5, 9]


@cache
def llama(n_layers: int) -> ModelAdapter:
    return ModelAdapter(build("llama", seed=1, dtype=torch.float64, num_hidden_layers=n_layers))


def climbs_of(stops: list[int], n_layers: int, d_max: int, w_max: int = 16) -> tuple[list[LayerTrace], ExitRound]:
    adapter, sink = llama(n_layers), Sink()
    run = early(adapter, Script(adapter.vocab, stops), PROMPT, sink=sink, d_max=d_max, w_max=w_max, alpha=0)
    next(run.rounds())
    facts = sink.rounds[0]
    return [f for f in facts if isinstance(f, LayerTrace)], next(f for f in facts if isinstance(f, ExitRound))


@pytest.mark.parametrize(
    ("stops", "n_layers", "d_max", "widths", "calls", "cells"),
    [
        ([2, 3, 2], 6, 4, "1 1 / 1 1 2 / 1 1 / 1 1 2 4 4 4", 13, 24),
        ([1, 1, 1], 6, 4, "1 / 1 / 1 / 1 4 4 4 4 4", 9, 24),
        ([4, 2, 3], 6, 4, "1 1 1 1 / 1 1 / 1 1 2 / 1 1 1 3 4 4", 15, 24),
        ([], 6, 4, "1 1 1 1 1 1", 6, 6),
        ([3, 5, 2, 2], 8, 6, "1 1 1 / 1 1 1 2 2 / 1 1 / 1 1 / 1 1 3 3 3 5 5 5", 20, 40),
    ],
)
def test_golden_vectors(stops: list[int], n_layers: int, d_max: int, widths: str, calls: int, cells: int) -> None:
    climbs, cost = climbs_of(stops, n_layers, d_max)
    assert " / ".join(" ".join(map(str, climb.width)) for climb in climbs) == widths
    assert (cost.layer_calls, cost.cells) == (calls, cells)
    assert [climb.exit_layer for climb in climbs] == [*stops, None]
    assert [climb.terminal for climb in climbs] == [False] * len(stops) + [True]


def test_the_worked_example_of_the_spec() -> None:
    climbs, _ = climbs_of([2, 3, 2], 6, 4)
    n0 = len(PROMPT) - 1
    after = [[filled - n0 for filled in climb.fill_after] for climb in climbs]
    assert after == [[1, 1, 0, 0, 0, 0], [2, 2, 2, 0, 0, 0], [3, 3, 2, 0, 0, 0], [4] * 6]
    assert climbs[1].past_len == [n0 + 1, n0 + 1, n0]  # layer 3 takes row 0 along


@given(st.integers(2, 7), st.lists(st.integers(1, 6), max_size=8), st.integers(0, 8))
@settings(max_examples=60, deadline=None)
def test_widths_follow_from_the_exits(n_layers: int, stops: list[int], w_max: int) -> None:
    """`width(r, l) = r - max{i < r : e_i >= l}`, `F_l = n0 + 1 + max{i <= r : e_i >= l}`; every cell once."""
    stops = [min(stop, n_layers - 1) for stop in stops]
    climbs, cost = climbs_of(stops, n_layers, n_layers - 1, w_max)
    exits = [climb.exit_layer or n_layers for climb in climbs]
    assert exits == [*stops[:w_max], n_layers]
    n0 = len(PROMPT) - 1
    for row, climb in enumerate(climbs):
        expected = [
            row - max((i for i in range(row) if exits[i] >= layer), default=-1) for layer in range(1, exits[row] + 1)
        ]
        assert climb.width == expected
        filled = [
            n0 + 1 + max((i for i in range(row + 1) if exits[i] >= layer), default=-1)
            for layer in range(1, n_layers + 1)
        ]
        assert climb.fill_after == filled
        assert climb.fill_after == sorted(climb.fill_after, reverse=True)
        assert climb.past_len == [end - width for end, width in zip(climb.fill_after, climb.width, strict=False)]
    assert cost.layer_calls == n_layers + sum(exits[:-1])
    assert cost.cells == len(climbs) * n_layers == sum(sum(climb.width) for climb in climbs)


def test_a_row_is_not_tested_above_d_max_and_the_last_not_at_all() -> None:
    """Two mistakes that are easily made: testing the terminal row of a full round, or above the bound."""
    _, bounded = climbs_of([], 6, 3)
    assert bounded.head_tests == 3
    _, full = climbs_of([2, 2], 6, 4, w_max=2)
    assert full.head_tests == 4
