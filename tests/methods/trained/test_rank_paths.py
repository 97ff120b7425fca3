"""The heap finds the best fixed tree."""

import itertools
import math

from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.methods.trained.rank_shapes import best_paths, expected

ROWS = st.lists(
    st.lists(st.floats(0.01, 1), min_size=1, max_size=4).map(lambda row: sorted(row, reverse=True)),
    min_size=1,
    max_size=4,
)


def test_by_hand() -> None:
    right = [[0.7, 0.3], [0.5, 0.2]]
    assert best_paths(right, 9) == [(0,), (0, 0), (1,), (1, 0), (0, 1), (1, 1)]  # .7 .35 .3 .15 .14 .06
    assert best_paths(right, 3, deepest=1) == [(0,), (1,)]
    assert best_paths(right, 0) == best_paths([], 5) == []


@settings(max_examples=200, deadline=None)
@given(right=ROWS, n=st.integers(1, 12))
def test_no_tree_of_that_size_is_worth_more(right: list[list[float]], n: int) -> None:
    """Against all paths there are: the n largest products, parents and better siblings first."""
    every = [path for d in range(1, len(right) + 1) for path in itertools.product(*(range(len(r)) for r in right[:d]))]
    worth = sorted((math.prod(right[d][j] for d, j in enumerate(path)) for path in every), reverse=True)
    paths = best_paths(right, n)
    assert len(paths) == len(set(paths)) == min(n, len(every))
    assert math.isclose(expected(right, paths), sum(worth[:n]), rel_tol=1e-9)
    for k, path in enumerate(paths):
        assert len(path) == 1 or path[:-1] in paths[:k]
        assert path[-1] == 0 or (*path[:-1], path[-1] - 1) in paths[:k]
