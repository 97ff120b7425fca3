"""How much of a draft is thrown away when acceptance is i.i.d."""

import math

from cost.pipelines import mean_accepted


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
