"""Trees that are as large as pays: against every other size there is, and level by level."""

import itertools
import math
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.cost.row_cost import FREE, row_cost
from specviz.methods.common.tree_size import PayingLevels, TreeCost, chances, hoped
from specviz.methods.trained.rank_shapes import best_paths, expected, paying_paths
from specviz.probability.draft import ROOT

CPU, CUDA = (partial(row_cost, device) for device in ("cpu", "cuda"))
CHANCES = st.lists(st.floats(1e-6, 1), min_size=1, max_size=20).map(lambda shares: sorted(shares, reverse=True))


def test_rows_cost_more_one_after_another_on_a_processor_alone() -> None:
    costs = [CPU(n) for n in range(1, 40)]
    steps = [after - before for before, after in itertools.pairwise(costs)]
    assert costs[0] == CUDA(1) == CUDA(39) == 1
    assert min(steps) > 0
    assert max(steps[: FREE - 1]) < min(steps[FREE - 1 :])


@settings(max_examples=200, deadline=None)
@given(shares=CHANCES, calls=st.integers(1, 6), call=st.floats(0, 1), most=st.integers(1, 20))
def test_no_other_size_brings_more_for_its_time(shares: list[float], calls: int, call: float, most: int) -> None:
    cost = TreeCost(CPU, call)
    n, rate = cost.best(shares, calls, most)
    assert 1 <= n <= most
    others = [(1 + math.fsum(shares[:k])) / (CPU(1 + k) + calls * call) for k in range(1, min(most, len(shares)) + 1)]
    assert math.isclose(rate, max(others), rel_tol=1e-12)
    assert math.isclose(others[n - 1], max(others), rel_tol=1e-12)


def test_sure_drafters_are_given_more_rows_and_calls_than_unsure_ones() -> None:
    sizes = []
    for sure in (0.26, 0.5, 0.95):
        levels = PayingLevels(4, 8, lambda token: False, TreeCost(CPU, 0.1), 60)
        other = math.log((1 - sure) / 3)
        parents = [ROOT]
        while parents:
            levels.offer(parents, [([1, 2, 3, 4], [math.log(sure), other, other, other])] * len(parents))
            parents = levels.next()
        sizes.append((levels.calls, levels.size(-1)))
        assert levels.unpaid == (levels.calls < 8)
        assert len(levels.pruned(levels.size(-1))) == levels.size(-1)
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[2]


def test_a_level_that_costs_more_than_it_can_bring_is_not_run() -> None:
    for call, wanted in ((0.01, True), (5.0, False)):
        levels = PayingLevels(2, 8, lambda token: False, TreeCost(CPU, call), 60)
        levels.offer([ROOT], [([7, 8], [math.log(0.7), math.log(0.2)])])
        assert bool(levels.next()) == wanted
        assert levels.unpaid != wanted


def test_only_nodes_whose_children_would_be_sent_are_gone_on_from() -> None:
    levels = PayingLevels(10, 8, lambda token: False, TreeCost(CPU, 0.05), 60)
    levels.offer([ROOT], [([1, 2, 3], [math.log(0.9), math.log(0.05), math.log(0.001)])])
    assert levels.next() == [0]


def test_where_rows_are_free_every_node_is_sent() -> None:
    cost = TreeCost(CUDA, 0.05)
    assert cost.best([0.5, 0.1, 1e-5], 1, 60)[0] == 3
    assert cost.best([0.5, 0.1, 1e-5], 1, 2)[0] == 2


def test_nothing_pays_behind_an_end_token_or_the_deepest_level() -> None:
    for deepest, ends in ((1, lambda token: False), (8, lambda token: True)):
        levels = PayingLevels(2, deepest, ends, TreeCost(CPU, 0.0), 60)
        levels.offer([ROOT], [([1, 2], [math.log(0.9), math.log(0.1)])])
        assert levels.next() == []
        assert not levels.unpaid  # there was nothing to pay for


@settings(max_examples=100, deadline=None)
@given(
    right=st.lists(
        st.lists(st.floats(0.01, 0.99), min_size=1, max_size=4).map(lambda row: sorted(row, reverse=True)),
        min_size=1,
        max_size=4,
    ),
    call=st.floats(0, 1),
    by_level=st.booleans(),
)
def test_fixed_shapes_are_as_large_as_pays(right: list[list[float]], call: float, by_level: bool) -> None:
    def rate(n: int) -> float:
        some = best_paths(right, n)
        calls = max(map(len, some)) if by_level else 1
        return (1 + expected(right, some)) / (CPU(1 + len(some)) + calls * call)

    paths = paying_paths(right, TreeCost(CPU, call), 12, by_level=by_level)
    assert paths == best_paths(right, len(paths))
    assert math.isclose(rate(len(paths)), max(rate(n) for n in range(1, 13)), rel_tol=1e-9)


def test_a_chance_does_not_count_more_than_once() -> None:
    levels = PayingLevels(2, 8, lambda token: False, TreeCost(CPU, 0.0), 60)
    levels.offer([ROOT], [([1, 2], [math.log(0.6), math.log(0.4)])])
    assert math.isclose(math.fsum(chances(levels)), 1.0)


def test_a_node_can_hope_for_what_its_children_leave() -> None:
    """A call behind a node that has children already says some of what they say."""
    levels = PayingLevels(2, 8, lambda token: False, TreeCost(CPU, 0.01), 60)
    levels.offer([ROOT], [([7, 8], [math.log(0.6), math.log(0.3)])])
    assert hoped(levels, [0], 3) == {0: [pytest.approx(0.6 * 0.6**n) for n in (1, 2, 3)]}
    levels.next()
    levels.offer([0, 1], [([5, 6], [math.log(0.5), math.log(0.25)]), ([5, 6], [math.log(0.9), math.log(0.1)])])
    assert hoped(levels, [0, 1], 2) == {
        0: [pytest.approx(0.6 * 0.25 * 0.6**n) for n in (1, 2)],
        1: [pytest.approx(0, abs=1e-12)] * 2,
    }
