"""Calibration of a draft: how likely its tokens were by the draft, how likely by the target, and how many were kept.

Only tokens on a right prefix count, those whose earlier tokens were all kept: what a drafter says behind a token that
lost answers a question nobody asked. q is the probability the token was drawn with; where none is on record (a point
mass) the draft's own softmax. p is what the target's row gave the token, warped as the run samples, so that at
temperature 0 it is 1 or 0.
"""

import heapq
import math
from typing import TypeVar

import msgspec

from specviz.events import Node, Verify
from specviz.metrics.estimate import Estimate, Moments, settled_difference, share
from specviz.runlog.run import RoundRecord

EDGES = (0.1, 0.25, 0.5, 0.75, 0.9)  # between the bands of q
N_BANDS = len(EDGES) + 1
_FINE = 10_000  # probabilities are added up as integers of so many
_PLACES = 6  # examples that are remembered
_JUDGED = ("accepted", "rejected")


class ConfidenceBand(msgspec.Struct, frozen=True, kw_only=True):
    """Drafted tokens of a band of q, `lo` <= q < `hi`. `q`, `p`: their means; `gap`: of q - p; `kept`: the share."""

    lo: float
    hi: float
    n: int
    q: float
    p: float
    gap: Estimate
    kept: Estimate


class TokenPosition(msgspec.Struct, frozen=True, order=True):
    """A node of a round of a query."""

    q: int
    r: int
    node: int | None = None


class _Band:
    def __init__(self) -> None:
        self.n = self.kept = 0
        self.q, self.gap = 0, Moments()  # of q - p over rounds

    def add(self, rows: list[tuple[int, int, bool]]) -> None:
        """The tokens of one round: q, p in parts of `_FINE`, and whether it was kept."""
        n, q, p = len(rows), sum(row[0] for row in rows), sum(row[1] for row in rows)
        self.n, self.kept, self.q = self.n + n, self.kept + sum(row[2] for row in rows), self.q + q
        self.gap.add(q - p, n * _FINE)

    def result(self, band: int) -> ConfidenceBand | None:
        kept = share(self.kept, self.n)
        if kept is None:
            return None
        gap = settled_difference(float(self.gap.top / self.gap.bottom), self.gap.interval(), self.gap.n)
        q = self.q / self.n / _FINE
        lo, hi = (0.0, *EDGES)[band], (*EDGES, 1.0)[band]
        return ConfidenceBand(lo=lo, hi=hi, n=self.n, q=q, p=q - gap.value, gap=gap, kept=kept)


class ConfidenceTally:
    """Give it every finished round in order. Its size does not grow with the run."""

    def __init__(self) -> None:
        self._bands = [_Band() for _ in range(N_BANDS)]
        self._surest: list[tuple[int, TokenPosition]] = []  # lost tokens the draft was surest of, the least sure first
        self.lost_at: dict[int, list[TokenPosition]] = {}  # by depth: the first tests that were lost there
        self.empty: list[TokenPosition] = []  # the first rounds that drafted and kept nothing
        self.n_drafting = self.n_kept = 0  # rounds that drafted, and those of them that kept anything
        self.n_idle = 0  # newest rounds in a row in which nothing was drafted
        self.idle_since: TokenPosition | None = None

    def take(self, record: RoundRecord, n_drafted: int, n_accepted: int) -> None:
        """Count a round."""
        here = TokenPosition(record.q, record.r)
        self.n_drafting, self.n_kept = self.n_drafting + bool(n_drafted), self.n_kept + bool(n_drafted and n_accepted)
        if n_drafted and not n_accepted:
            _remember(self.empty, here)
        self.idle_since = None if n_drafted else self.idle_since or here
        self.n_idle = 0 if n_drafted else self.n_idle + 1
        rows: dict[int, list[tuple[int, int, bool]]] = {}
        for verdict in record.verdicts.values():
            node = record.node(verdict.node)
            if node is None or node.filler or not _on_right_prefix(record, node, verdict):
                continue
            kept, place = verdict.status == "accepted", TokenPosition(record.q, record.r, verdict.node)
            if not kept and verdict.order is not None:
                _remember(self.lost_at.setdefault(node.pos - record.start.n + 1, []), place)
            log_q = node.logq if node.logq is not None else node.log_conf
            if log_q is None or verdict.logp is None:
                continue
            q, p = round(math.exp(min(log_q, 0.0)) * _FINE), round(math.exp(min(verdict.logp, 0.0)) * _FINE)
            rows.setdefault(band_of(q / _FINE), []).append((q, p, kept))
            if not kept:
                heapq.heappush(self._surest, (q - p, place))
                if len(self._surest) > _PLACES:
                    heapq.heappop(self._surest)
        for band, row in rows.items():
            self._bands[band].add(row)

    def bands(self) -> tuple[ConfidenceBand, ...]:
        """Those with any token, from the least sure to the surest."""
        bands = (held.result(band) for band, held in enumerate(self._bands) if held.n)
        return tuple(band for band in bands if band is not None)

    @property
    def surest_lost(self) -> tuple[TokenPosition, ...]:
        """Tokens that were lost though the draft was sure of them, the worst first."""
        return tuple(place for _, place in sorted(self._surest, reverse=True))


T = TypeVar("T")


def _remember(places: list[T], place: T) -> None:
    if len(places) < _PLACES:
        places.append(place)


def band_of(q: float) -> int:
    """The band a probability falls into."""
    return sum(q >= edge for edge in EDGES)


def _on_right_prefix(record: RoundRecord, node: Node, verdict: Verify) -> bool:
    """Whether it was judged, and everything before it was kept."""
    if verdict.status not in _JUDGED:
        return False
    before = record.verdicts.get(node.parent)
    return before is None or before.status == "accepted"
