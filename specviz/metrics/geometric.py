"""The accepted-length histogram that a constant acceptance probability would give: the yardstick beside the real one.

If every drafted position were kept with the same probability `a`, independently, a round whose draft is `d` deep would
keep `j < d` tokens with probability `a^j (1 - a)` and all `d` with `a^d`. `a` is the maximum-likelihood value, kept
positions / positions tried, where a round that keeps `j` of `d` tries `min(j + 1, d)`. What the real histogram has
more of at its ends is what a single acceptance rate hides.
"""

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from specviz.metrics.estimate import Estimate, share
from specviz.metrics.table import Table

if TYPE_CHECKING:
    from specviz.metrics.tally import Tally


class GeometricFit(msgspec.Struct, frozen=True, kw_only=True):
    """`alpha`: the constant acceptance per position. `expected[j]`: rounds it would put at j accepted tokens."""

    alpha: Estimate
    expected: dict[int, float]
    n: int  # rounds it rests on, those with a draft


def geometric_fit(tally: "Tally") -> GeometricFit | None:
    """The fit over all blocks that drafted; None without a draft, without nodes on record, or for a backward scan."""
    table = Table(tally)
    if not table.has_nodes or table.backward:
        return None
    depth = table.blocks("depth")
    kept = np.minimum(table.blocks("n_accepted"), depth)[depth > 0]
    depth = depth[depth > 0]
    alpha = share(int(kept.sum()), int(np.minimum(kept + 1, depth).sum())) if len(depth) else None
    if alpha is None:
        return None
    return GeometricFit(alpha=alpha, expected=_expected(alpha.value, depth), n=len(depth))


def _expected(alpha: float, depth: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> dict[int, float]:
    """Rounds at every count from 0 to the deepest draft; adds up to the number of rounds."""
    most = int(depth.max())
    at_least = {j: float((depth >= j).sum()) * alpha**j for j in range(most + 1)}
    return {j: at_least[j] - at_least.get(j + 1, 0.0) for j in range(most + 1)}
