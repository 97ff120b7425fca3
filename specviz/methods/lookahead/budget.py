"""How many nodes a round of lookahead feeds, and how small a window must be for that. Pure functions of numbers."""

from collections.abc import Callable

HARDLY = 0.08  # of a pass over one row: a node that costs no more needs no good chance to pay


def nearly_free(cost: Callable[[int], float], most: int) -> int:
    """Nodes, at most `most`, of which none costs more than `HARDLY`. `cost(k)`: a pass over k rows, in passes over
    one, the root's among them."""
    return next((n for n in range(most) if cost(n + 2) - cost(n + 1) > HARDLY), most)


def most_cells(size: int, width: int) -> int:
    """Cells besides the newest token in the largest round of a window for n-grams of `size`, warming up included."""
    return max(rows * (width + size - 1 - rows) - 1 for rows in range(1, size))


def window_shape(size: int, width: int, budget: int) -> tuple[int, int]:
    """`(n-gram size, columns)` of the window that is asked for, or of the largest one that fits a budget of nodes.

    A smaller one keeps at least as many columns as rows, so that its n-grams can still be found behind the newest
    token when they are finished. In the end it is the newest token alone, which feeds nothing.
    """
    if most_cells(size, width) <= budget:
        return size, width
    shapes = ((smaller, columns) for smaller in range(size, 1, -1) for columns in range(width, smaller - 2, -1))
    return next(shape for shape in shapes if most_cells(*shape) <= budget)
