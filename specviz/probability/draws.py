"""Keyed random draws: every uniform is a function of (seed, stream, round, position, index).

Philox4x32-10, key = seed, counter = (pos, round, index, stream). Nothing
here has state, so draws have no order: threads, probes, pauses and aborted rounds cannot move a token. The `target`
stream ignores the round and is used for at most one committed token a position; every other stream must carry it,
because a backward scan looks at draws beyond the place where it stops.
"""

from dataclasses import dataclass
from typing import Any, Literal

from specviz.errors import SpecvizError
from specviz.probability.arrays import np
from specviz.probability.host import fetch, off_host
from specviz.probability.philox import STREAMS, WORD, Stream, philox, uniform
from specviz.probability.rows import Certain, Row, cumulative, namespace

DrawWay = Literal["cdf", "race"]

NOT_FINITE = "the model's numbers are not finite, so there is no law to draw from: try --dtype float32"


def uniforms(seed: int, stream: Stream, round_: int, pos: int, start: int, count: int) -> "np.ndarray[Any, Any]":
    """`[count]` uniforms of the keys `index = start ..`: the noise of a race."""
    index = (np.arange(start, start + count, dtype=np.uint64)) & np.uint64(WORD)
    fill = [np.full(count, word & WORD, dtype=np.uint64) for word in (pos, round_, STREAMS[stream])]
    w0, w1, _, _ = philox((fill[0], fill[1], index, fill[2]), (seed & WORD, (seed >> 32) & WORD))
    noise: np.ndarray[Any, Any] = ((w0 >> np.uint64(5)) * np.uint64(1 << 26) + (w1 >> np.uint64(6))) / float(1 << 53)
    return noise


@dataclass(frozen=True, slots=True)
class Drawn:
    """A drawn token; `u` and its CDF interval `[lo, hi)` as shares of the mass (None: a race, a certain row)."""

    token: int
    u: float | None
    lo: float | None = None
    hi: float | None = None


@dataclass(frozen=True, slots=True)
class Tested:
    """Outcome of `u < threshold`."""

    __test__ = False  # not a pytest class

    passed: bool
    u: float


@dataclass(frozen=True, slots=True)
class Keys:
    """The draws of one round of one query."""

    seed: int
    round: int
    way: DrawWay = "cdf"

    def uniform(self, stream: Stream, pos: int, index: int = 0) -> float:
        """The uniform of this round (of round 0 for the target stream)."""
        return uniform(self.seed, stream, 0 if stream == "target" else self.round, pos, index)

    def passes(self, pos: int, threshold: float, index: int = 0) -> Tested:
        """One accept test, `u < threshold`: 0 never passes, 1 always does."""
        u = self.uniform("accept", pos, index)
        return Tested(u < threshold, u)

    def draw(self, stream: Stream, pos: int, row: Row, index: int = 0) -> Drawn:
        """A token from an unnormalised row `[V]`, by inverse CDF or by exponential race."""
        if isinstance(row, Certain):  # nothing to decide, no uniform is spent
            return Drawn(row.token, None)
        if self.way == "race":
            return Drawn(self._race(stream, pos, row, index), None)
        return invert(row, self.uniform(stream, pos, index))

    def _race(self, stream: Stream, pos: int, row: Any, index: int) -> int:
        round_ = 0 if stream == "target" else self.round
        noise = uniforms(self.seed, stream, round_, pos, index * len(row), len(row))
        return race(row, noise)


def invert(row: Any, u: float) -> Drawn:
    """First token whose running sum over `row` `[V]` is strictly above `u * total`: none of weight 0 is drawn.

    Raises SpecvizError for a row without any weight.
    """
    if off_host(row):
        return _invert_apart(row, u)
    cum = cumulative(row)
    xp = namespace(cum)
    total = cum[-1]
    if xp is np:
        token = int(np.searchsorted(cum, u * total, side="right"))
    else:
        token = int(xp.searchsorted(cum, (u * total).reshape(1), right=True))
    if token >= len(cum):  # u * total rounded up to the total: the last entry that has weight
        held = (row > 0).nonzero()[0] if xp is np else (row > 0).nonzero()[:, 0]
        if not len(held):
            raise SpecvizError(NOT_FINITE)
        token = int(held[-1])
    lo = float(cum[token - 1] / total) if token else 0.0
    return Drawn(token, u, lo, float(cum[token] / total))


def _invert_apart(row: Any, u: float) -> Drawn:
    """The same of a row `[V]` on a device: token and interval are worked out there and read together."""
    cum = cumulative(row)
    xp, total = namespace(cum), cum[-1:]
    ids = xp.searchsorted(cum, total * u, right=True)
    places = xp.arange(len(cum), device=row.device)
    last = xp.where(row > 0, places, -1).amax()
    token = xp.where(ids < len(cum), ids, last)
    ends = cum.gather(0, xp.cat([token - 1, token]).clamp(min=0)) / total
    ((number, lo, hi),) = fetch(xp.cat([token.double(), ends]))  # ids below 2^53 are exact
    if number < 0:
        raise SpecvizError(NOT_FINITE)
    return Drawn(int(number), u, lo if number else 0.0, hi)


def interval(row: Row, token: int) -> tuple[float, float]:
    """The CDF interval `[lo, hi)` of one token."""
    if isinstance(row, Certain):
        return (0.0, 1.0) if token == row.token else (1.0, 1.0) if token > row.token else (0.0, 0.0)
    return intervals(row, [token])[0]


def intervals(row: Any, tokens: list[int]) -> list[tuple[float, float]]:
    """The CDF intervals `[lo, hi)` of some tokens, as shares of the mass of `row` `[V]`; one running sum for all."""
    cum = cumulative(row)
    share = cum[[*tokens, *(max(t - 1, 0) for t in tokens)]] / cum[-1]
    ends = [float(x) for x in fetch(share)[0]]
    lows = [low if t else 0.0 for t, low in zip(tokens, ends[len(tokens) :], strict=True)]
    return list(zip(lows, ends, strict=False))


def race(row: Any, noise: "np.ndarray[Any, Any]") -> int:
    """The token with the smallest `-log(1 - u_y) / row[y]` over entries with weight; `row`, `noise` u are `[V]`.

    Raises SpecvizError for a tensor without any weight.
    """
    times = -np.log1p(-noise)
    if namespace(row) is np:
        weights = np.asarray(row, dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            return int(np.argmin(np.where(weights > 0, times / weights, np.inf)))
    weights = row.double()
    waits = weights.new_tensor(times) / weights
    first = waits.masked_fill(weights <= 0, float("inf")).argmin(0, keepdim=True)
    (token,), (weight,) = fetch(first, row.gather(0, first))
    if not weight > 0:
        raise SpecvizError(NOT_FINITE)
    return int(token)
