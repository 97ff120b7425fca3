"""What a token costs when acceptance is i.i.d., and how much of a draft is thrown away: closed forms that papers print,
and that clocks and predictions are held against.

`alpha` is the chance that a drafted token is accepted, `gamma` the draft length, `c` one target forward in draft
forwards; latencies are draft forwards per committed token, the long-run mean by renewal.
"""

import math


def _powers(alpha: float, n: int) -> float:
    """`1 + alpha + .. + alpha^(n-1)`, that is `(1 - alpha^n)/(1 - alpha)` and n at alpha = 1."""
    return math.fsum(alpha**k for k in range(n))


def accepted_law(alpha: float, gamma: int) -> list[float]:
    """P(X = k) for k = 0 .. gamma accepted of gamma: truncated geometric."""
    return [(1 - alpha) * alpha**k for k in range(gamma)] + [alpha**gamma]


def mean_accepted(alpha: float, gamma: int) -> float:
    """E[X] = alpha (1 - alpha^gamma)/(1 - alpha)."""
    return alpha * _powers(alpha, gamma)


def sps(alpha: float, gamma: int, c: float) -> float:
    """Exact: draft gamma, then verify; accepted + correction or bonus are committed. gamma = 0 is plain decoding."""
    return (gamma + c) / _powers(alpha, gamma + 1)


def pearl(alpha: float, gamma: int, c: float) -> float:
    """Exact: pre-verify and post-verify steps of M each: `M (1-alpha)(1+alpha-alpha^gamma)/(1-alpha^gamma)`."""
    return max(gamma, c) * (1 + alpha - alpha**gamma) / _powers(alpha, gamma)


def refilled(alpha: float, gamma: int, c: float) -> float:
    """Exact: draft and target side by side; after a rejection gamma are drafted anew while the target waits."""
    passed = alpha**gamma
    return (max(gamma, c) + (1 - passed) * gamma) / _powers(alpha, gamma)


def branching(alpha: float, gamma: int, c: float, hit: float) -> float:
    """Exact: a branch stage commits accepted + 1; a refill follows unless all passed and, with chance `hit`, a branch
    survives.
    """
    return (max(gamma, c) + (1 - alpha**gamma * hit) * gamma) / _powers(alpha, gamma + 1)


def theorem_1(alpha: float, gamma: int, c: float) -> float:
    """SpecBranch's theorem 1 as printed: it averages rates, not times, and leaves out the correction token."""
    return 2 * max(gamma, c) / ((1 + alpha**gamma) * mean_accepted(alpha, gamma))


def rollback_sps(alpha: float, gamma: int) -> float:
    """Share of drafted tokens thrown away in `sps`: 1 - E[X]/gamma."""
    return 1 - mean_accepted(alpha, gamma) / gamma


def rollback_pearl(alpha: float, gamma: int) -> float:
    """The same for `pearl`: gamma after a failed pre-verify, `2 gamma - 1 - n` after a post-verify that kept n.

    `u` is the number of pre-verify steps per post-verify step: a post-verify step that fails, with chance
    `1 - alpha^gamma`, is followed by 1/alpha of them on average.
    """
    if alpha == 0:
        return 1.0
    u = (1 - alpha**gamma) / alpha
    failed = math.fsum((1 - alpha) * alpha**n * (2 * gamma - 1 - n) for n in range(gamma))
    return (u * (1 - alpha) * gamma + failed) / (gamma * (1 + u))
