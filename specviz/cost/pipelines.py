"""What a token costs in each pipeline when acceptance is i.i.d.: closed forms.

`alpha` is the chance that a drafted token is accepted, `gamma` the draft length, `c` one target forward in draft
forwards, `t` the time of one draft forward; latencies are times per committed token. Three families, never to be read
for each other:

* *ideal* (`ideal_ar`): everything accepted, the paper's normalisation;
* *Theorem 1* (`theorem_1`): as published. It averages rates where a pipeline averages times, and leaves out the
  correction token that every rejection still commits, so it is far too pessimistic for weak drafts;
* *exact* (`sps`, `overlap_*`, `pearl`, `specbranch_chain`): the long-run mean of the literal process, by renewal.

All are tested against a simulation of the process they describe. Advice like "gamma below c for weak drafts" follows
from the serial refill (`overlap_draft_refill`), not from Theorem 1, whose best length is c whatever alpha is.
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


def ideal_ar(c: float, t: float = 1.0) -> float:
    """Plain decoding: one target forward a token. The only row that is ideal and exact at once."""
    return c * t


def theorem_1(alpha: float, gamma: int, c: float, t: float = 1.0) -> float:
    """The paper's parallel latency with rollback, as published.

    `2 M / ((1 + alpha^gamma) E[X])` with M = max(gamma, c) t: a fully accepted round costs M, any other 2M, and their
    *rates* are averaged. Smallest exactly at gamma = c for every alpha < 1. Infinite at alpha = 0.
    """
    mean = mean_accepted(alpha, gamma)
    return math.inf if mean == 0 else 2 * max(gamma, c) * t / ((1 + alpha**gamma) * mean)


def sps(alpha: float, gamma: int, c: float, t: float = 1.0) -> float:
    """Exact: draft gamma, then verify; accepted + correction or bonus are committed. gamma = 0 is plain decoding."""
    return (gamma + c) * t / _powers(alpha, gamma + 1)


def overlap_full_refill(alpha: float, gamma: int, c: float, t: float = 1.0) -> float:
    """Exact: the next gamma are drafted beside the verify pass; a rejection loses them and one whole slot M."""
    return (2 - alpha**gamma) * max(gamma, c) * t / _powers(alpha, gamma)


def overlap_draft_refill(alpha: float, gamma: int, c: float, t: float = 1.0) -> float:
    """Exact: as before, but after a rejection only the drafting is done serially, gamma t with an idle target."""
    return (max(gamma, c) + (1 - alpha**gamma) * gamma) * t / _powers(alpha, gamma)


def pearl(alpha: float, gamma: int, c: float, t: float = 1.0) -> float:
    """Exact: pre-verify and post-verify steps of M each: `M (1-alpha)(1+alpha-alpha^gamma)/(1-alpha^gamma)`."""
    return max(gamma, c) * t * (1 + alpha - alpha**gamma) / _powers(alpha, gamma)


def specbranch_chain(alpha: float, m: int, c: float, hit: float, branch_len: float, t: float = 1.0) -> float:
    """Exact for a constant number m of pending tokens and branch hit chance `hit`.

    Every branch stage, max(branch_len, c) t long, commits accepted + 1 tokens whatever happens; with chance
    `1 - alpha^m hit` the next stage must draft m tokens first, with an idle target. A branch keeps m pending tokens
    after its hit when it is m + 1 long.
    """
    return (max(branch_len, c) + (1 - alpha**m * hit) * m) * t / _powers(alpha, m + 1)


def auto_branch_len(target_s: float, first_s: float, step_s: float, known: bool) -> int:
    """The branch length that fills the target's pass and no more: `1 + floor((tau_p - [unknown] tau_q(1))/tau_q(k))`.

    `first_s` is the forward that finds the branch point's law when it is not `known`. At least 1, the branch token.
    """
    spare = target_s - (0.0 if known else first_s)
    return 1 + max(0, math.floor(spare / step_s + 1e-9))
