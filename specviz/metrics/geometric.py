"""The accepted-length histogram that a constant acceptance probability would give: the yardstick beside the real one.

If every drafted position were kept with the same probability `a`, independently, a round whose draft is `d` deep would
keep `j < d` tokens with probability `a^j (1 - a)` and all `d` with `a^d`. `a` is the maximum-likelihood value, kept
positions / positions tried, where a round that keeps `j` of `d` tries `min(j + 1, d)`. What the real histogram has
more of at its ends is what a single acceptance rate hides.
"""

from typing import TYPE_CHECKING

import msgspec

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
    drafts = [(min(accepted, depth), depth, n) for (accepted, _, depth), n in table.blocks.items() if depth > 0]
    alpha = share(sum(kept * n for kept, _, n in drafts), sum(min(kept + 1, depth) * n for kept, depth, n in drafts))
    if alpha is None:
        return None
    return GeometricFit(alpha=alpha, expected=_expected(alpha.value, drafts), n=sum(n for _, _, n in drafts))


def _expected(alpha: float, drafts: list[tuple[int, int, int]]) -> dict[int, float]:
    """Rounds at every count from 0 to the deepest draft; adds up to the number of rounds."""
    most = max(depth for _, depth, _ in drafts)
    at_least = {j: float(sum(n for _, depth, n in drafts if depth >= j)) * alpha**j for j in range(most + 1)}
    return {j: at_least[j] - at_least.get(j + 1, 0.0) for j in range(most + 1)}
