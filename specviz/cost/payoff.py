"""Would a longer draft pay? Tokens a second by draft length, from what was measured and nothing that was assumed.

A round with a chain of `gamma` drafted tokens commits `1 + a_1 + a_1 a_2 + ..` tokens on average, `a_t` being the
chance that position t is accepted where it is tested. It takes `draft(gamma) + v(gamma + 1) + rest` seconds: gamma
draft steps, the target's pass over so many rows, and what the host does besides. The long-run speed is the first
divided by the second; gamma = 0 is plain decoding.

Positions that no draft has reached take the chance of the last ones that many have, and say so (`reached`). The curve
is worked out at both ends of the intervals of the chances as well: the best length counts as better than the run's own
only where it is so at both.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from specviz.cost.ledger import between

MOST, LEAST_TESTS = 16, 30  # draft lengths; tests of the first position before anything is said
Speeds = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PositionChance:
    """Acceptance of one position where it was tested, with its 95 % interval, and how often it was."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class RoundCosts:
    """Seconds. `verify`: of a pass by rows, as lines between what was timed; `step`: one draft step; `rest`: the host's
    work of a round besides; `fixed`: drafting that does not grow with its length."""

    widths: tuple[int, ...]
    verify_s: tuple[float, ...]
    step_s: float
    rest_s: float = 0.0
    fixed_s: float = 0.0

    def round_s(self, gamma: int) -> float:
        """A round with a chain of so many drafted tokens; 0: plain decoding, which drafts nothing."""
        drafting = gamma * self.step_s + self.fixed_s if gamma else 0.0
        return between(self.widths, self.verify_s, gamma + 1) + drafting + self.rest_s


@dataclass(frozen=True, slots=True)
class Payoff:
    """The curve over `gammas`, from 0. `gain`: the best over the run's own length, with its interval."""

    gammas: tuple[int, ...]
    speeds: Speeds
    low: Speeds
    high: Speeds
    reached: int  # the last position with enough tests
    best: int
    own: int | None
    measured: float | None  # tokens a second of the run, at `own`
    gain: float | None
    gain_interval: tuple[float, float] | None

    @property
    def over_plain(self) -> float:
        """The best over plain decoding."""
        return self.speeds[self.best] / self.speeds[0]

    @property
    def told_apart(self) -> bool:
        """Whether the best length is faster than the run's own at both ends of the interval."""
        return self.gain_interval is not None and self.gain_interval[0] > 1


def payoff(
    chances: Mapping[int, PositionChance], costs: RoundCosts, own: int | None = None, measured: float | None = None
) -> Payoff | None:
    """The curve; None with too few tests to say anything. `chances`: by position, from 1."""
    first = chances.get(1)
    if first is None or first.n < LEAST_TESTS:
        return None
    reached = 1
    while reached + 1 in chances and chances[reached + 1].n >= LEAST_TESTS:
        reached += 1
    gammas = tuple(range(max(MOST, own or 0) + 1))
    speeds, low, high = (
        tuple(expected(by, gamma) / costs.round_s(gamma) for gamma in gammas)
        for by in (_chances(chances, reached, pick) for pick in (_value, _low, _high))
    )
    best = max(gammas, key=lambda gamma: (speeds[gamma], -gamma))
    gain = ends = None
    if own is not None:
        gain = speeds[best] / speeds[own]
        ends = min(x := (low[best] / low[own], high[best] / high[own])), max(x)
    return Payoff(gammas, speeds, low, high, reached, best, own, measured, gain, ends)


def expected(chance: Callable[[int], float], gamma: int) -> float:
    """Tokens that a round of a chain of `gamma` commits, the one of the target's own included."""
    total = kept = 1.0
    for t in range(1, gamma + 1):
        kept *= chance(t)
        total += kept
    return total


def _value(chance: PositionChance) -> float:
    return chance.value


def _low(chance: PositionChance) -> float:
    return chance.low


def _high(chance: PositionChance) -> float:
    return chance.high


def _chances(
    by_position: Mapping[int, PositionChance], reached: int, pick: Callable[[PositionChance], float]
) -> Callable[[int], float]:
    """By position; beyond the last with tests enough, the mean of the three before, weighted by their tests."""
    last = [by_position[t] for t in range(max(1, reached - 2), reached + 1)]
    beyond = math.fsum(pick(x) * x.n for x in last) / sum(x.n for x in last)
    return lambda t: pick(by_position[t]) if t <= reached else beyond
