"""Fixed trees: which paths of draft ranks are worth a node, from how often each rank was right.

`right[d][j]` = how often the target's token had draft rank j + 1 at depth d + 1, given that all before was right. The
product along a path is the chance that the text goes down it, if depths are independent; the n best paths are the tree
with the largest expected number of accepted nodes under that surrogate.

How often each rank of a drafter was right, as a file beside its weights: what a fixed tree is made from.

`static_tree.json` names the weights it was counted with, whatever their file is called; with others it is refused.
"""

import hashlib
import heapq
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from specviz.errors import ModelError
from specviz.methods.common.tree_size import TreeCost
from specviz.methods.trained.parts import OPTION
from specviz.methods.trained.sizes import are_shares

RankPath = tuple[int, ...]  # 0-based ranks from the root


def best_paths(right: Sequence[Sequence[float]], n: int, deepest: int | None = None) -> list[RankPath]:
    """The n paths with the largest products, best first; a path comes after its parent and its better sibling.

    A rank that is more often right than a better one is taken as equally good, so that the heap finds the optimum:
    popping a path pushes its next sibling and its first child alone. Rows must not be empty.
    """
    rows = [_falling(row) for row in right[:deepest]]
    paths: list[RankPath] = []
    if not rows or n < 1:
        return paths
    heap: list[tuple[float, RankPath]] = [(-rows[0][0], (0,))]
    while heap and len(paths) < n:
        worth, path = heapq.heappop(heap)
        paths.append(path)
        depth, rank = len(path), path[-1]
        if rank + 1 < len(rows[depth - 1]):
            before = worth / rows[depth - 1][rank] if rows[depth - 1][rank] else 0.0
            heapq.heappush(heap, (before * rows[depth - 1][rank + 1], (*path[:-1], rank + 1)))
        if depth < len(rows):
            heapq.heappush(heap, (worth * rows[depth][0], (*path, 0)))
    return paths


def paying_paths(
    right: Sequence[Sequence[float]], cost: TreeCost, most: int, deepest: int | None = None, by_level: bool = True
) -> list[RankPath]:
    """Of the best paths, at most `most`, as many as bring the most tokens for a round's time. `by_level`: every level
    is a call of the drafter; otherwise one call makes them all."""
    paths = best_paths(right, most, deepest)
    rates, committed, calls = [0.0], 1.0, 1
    for n, path in enumerate(paths, 1):
        committed += expected(right, [path])
        calls = max(calls, len(path)) if by_level else 1
        rates.append(committed / cost.of(n, calls))
    return paths[: rates.index(max(rates))]


def expected(right: Sequence[Sequence[float]], paths: Sequence[RankPath]) -> float:
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


Shares = tuple[tuple[float, ...], ...]
NAME, FORMAT, VERSION = "static_tree.json", "specviz-static-tree", 1
CALIBRATE = "calibrate it with specviz train static-tree"


def weights_hash(folder: Path) -> str:
    """Of the drafter's file: a table of ranks is one drafter's."""
    files = sorted(folder.glob("*.safetensors"))
    return hashlib.sha256(files[0].read_bytes()).hexdigest()[:32] if files else ""


def write_table(folder: Path, right: Shares) -> None:
    document = {"format": FORMAT, "version": VERSION, "drafter": weights_hash(folder), "right": right}
    (folder / NAME).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def read_table(folder: Path) -> Shares:
    """The table of a drafter's folder. Raises ModelError in one line for none, another drafter's, or no table."""
    path = folder / NAME
    if not path.is_file():
        raise ModelError(f"{OPTION} {folder}: no {NAME} in it, so its tree has no shape; {CALIBRATE}")
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{OPTION} {folder}: {NAME} cannot be read ({error}); {CALIBRATE}") from None
    known = document if isinstance(document, dict) else {}
    right: Any = known.get("right")
    if (known.get("format"), known.get("version")) != (FORMAT, VERSION) or not are_shares(right):
        raise ModelError(
            f"{OPTION} {folder}: {NAME} holds no table of ranks, rows of shares between 0 and 1 in version {VERSION}; "
            f"{CALIBRATE}"
        )
    if known.get("drafter") != weights_hash(folder):
        raise ModelError(f"{OPTION} {folder}: {NAME} was counted with other weights; {CALIBRATE}")
    return tuple(tuple(float(share) for share in row) for row in right)
