"""Fixed trees: which paths of draft ranks are worth a node, from how often each rank was right (specblock.md 10).

`right[d][j]` = how often the target's token had draft rank j + 1 at depth d + 1, given that all before was right. The
product along a path is the chance that the text goes down it, if depths are independent; the n best paths are the tree
with the largest expected number of accepted nodes under that surrogate.
"""

import heapq
from collections.abc import Sequence

Path = tuple[int, ...]  # 0-based ranks from the root


def best_paths(right: Sequence[Sequence[float]], n: int, deepest: int | None = None) -> list[Path]:
    """The n paths with the largest products, best first; a path comes after its parent and its better sibling.

    A rank that is more often right than a better one is taken as equally good, so that the heap finds the optimum:
    popping a path pushes its next sibling and its first child alone. Rows must not be empty.
    """
    rows = [_falling(row) for row in right[:deepest]]
    found: list[Path] = []
    if not rows or n < 1:
        return found
    heap: list[tuple[float, Path]] = [(-rows[0][0], (0,))]
    while heap and len(found) < n:
        worth, path = heapq.heappop(heap)
        found.append(path)
        depth, rank = len(path), path[-1]
        if rank + 1 < len(rows[depth - 1]):
            before = worth / rows[depth - 1][rank] if rows[depth - 1][rank] else 0.0
            heapq.heappush(heap, (before * rows[depth - 1][rank + 1], (*path[:-1], rank + 1)))
        if depth < len(rows):
            heapq.heappush(heap, (worth * rows[depth][0], (*path, 0)))
    return found


def expected(right: Sequence[Sequence[float]], paths: Sequence[Path]) -> float:
    """Expected accepted nodes of a tree under the surrogate."""
    total = 0.0
    for path in paths:
        worth = 1.0
        for depth, rank in enumerate(path):
            worth *= right[depth][rank]
        total += worth
    return total


def _falling(row: Sequence[float]) -> list[float]:
    out: list[float] = []
    for value in row:
        out.append(min(max(value, 0.0), out[-1]) if out else max(value, 0.0))
    return out
