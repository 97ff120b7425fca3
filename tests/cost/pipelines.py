"""What a token costs when acceptance is i.i.d.: closed forms that clocks and predictions are held against.

`alpha` is the chance that a drafted token is accepted, `gamma` the draft length, `c` one target forward in draft
forwards, `t` the time of one draft forward; latencies are times per committed token, the long-run mean by renewal.
"""

import math
from collections.abc import Callable

Latency = Callable[[float, int, float], float]  # (alpha, gamma, c) -> draft forwards per token


def _powers(alpha: float, n: int) -> float:
    """`1 + alpha + .. + alpha^(n-1)`, that is `(1 - alpha^n)/(1 - alpha)` and n at alpha = 1."""
    return math.fsum(alpha**k for k in range(n))


def accepted_law(alpha: float, gamma: int) -> list[float]:
    """P(X = k) for k = 0 .. gamma accepted of gamma: truncated geometric."""
    return [(1 - alpha) * alpha**k for k in range(gamma)] + [alpha**gamma]


def mean_accepted(alpha: float, gamma: int) -> float:
    """E[X] = alpha (1 - alpha^gamma)/(1 - alpha)."""
    return alpha * _powers(alpha, gamma)


def sps(alpha: float, gamma: int, c: float, t: float = 1.0) -> float:
    """Exact: draft gamma, then verify; accepted + correction or bonus are committed. gamma = 0 is plain decoding."""
    return (gamma + c) * t / _powers(alpha, gamma + 1)


def pearl(alpha: float, gamma: int, c: float, t: float = 1.0) -> float:
    """Exact: pre-verify and post-verify steps of M each: `M (1-alpha)(1+alpha-alpha^gamma)/(1-alpha^gamma)`."""
    return max(gamma, c) * t * (1 + alpha - alpha**gamma) / _powers(alpha, gamma)
