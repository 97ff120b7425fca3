"""An enumerating `Draws`: every random decision is a branch, and all branches are run with their exact probability.

What is modelled is the *key*. Each (stream, round or 0, position, index) is one uniform; what is known of it is an
interval [lo, hi), at first [0, 1). A test cuts the interval at its threshold, a draw cuts it at the edges of the row's
running sum, and the parts that are left are the branches. A key used a second time starts from the interval it was left
with, so reuse, wanted (noise shared between draft and target) or not (a forgotten round), is conditioned exactly.

Numbers may be Fractions (then everything is exact) or floats. Race draws are supported as long as no noise is used
twice: one race has the law of its row, but two races with the same noise have a joint law that is a piecewise
exponential integral, not an interval. Such a reuse raises.

`paths` re-executes a function depth first over all its decisions; `prove.rounds` puts rounds one after the other.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar, cast

import numpy as np

from specviz.probability.draws import Drawn, Tested
from specviz.probability.rows import Certain

T = TypeVar("T")
S = TypeVar("S")
Key = tuple[str, int, int, int]  # stream, round (0: none), position, index
Known = frozenset[tuple[Key, tuple[Any, Any]]]
SLIVER = 1e-13  # width left of an interval by float rounding alone

Law = dict[tuple[int, ...], Any]


@dataclass(frozen=True, slots=True)
class TakenOption:
    """One option of a decision: the part the uniform lies in, and what holds once it was taken."""

    key: Key
    drawn: Drawn  # token: the number of the part; u: the middle of what is known; lo, hi: the edges of the part
    prob: Any  # of the whole branch up to here
    known: tuple[Any, Any]


@dataclass
class EnumeratedPath:
    """One execution: replays `replay`, takes the first option afterwards and notes the others as `unexplored`."""

    replay: tuple[TakenOption, ...] = ()
    known: dict[Key, tuple[Any, Any]] = field(default_factory=dict)
    least_pos: int = -1  # positions before it were forgotten and must not be asked for
    prob: Any = 1
    taken: list[TakenOption] = field(default_factory=list)
    unexplored: list[tuple[TakenOption, ...]] = field(default_factory=list)

    def cut(self, key: Key, edges: Callable[[], list[Any]]) -> TakenOption:
        """Which of the intervals `[edges[i], edges[i + 1])` the uniform of `key` lies in."""
        assert key[2] >= self.least_pos, f"{key} was forgotten: positions before {self.least_pos} are committed"
        at = len(self.taken)
        if at < len(self.replay):
            decision = self.replay[at]
            assert decision.key == key, f"decision {at} was about {decision.key} and is about {key}: not deterministic"
        else:
            decision, *others = _parts(key, edges(), self.known.get(key), self.prob)
            self.unexplored += [(*self.taken, other) for other in others]
        self.taken.append(decision)
        self.known[key] = decision.known
        self.prob = decision.prob
        return decision

    def keys(self, round_: int, way: str = "cdf") -> "BranchKeys":
        """The draws of one round; round 0 is the mistake of leaving the round out of the key."""
        return BranchKeys(self, round_, way)


def _parts(key: Key, edges: list[Any], known: tuple[Any, Any] | None, prob: Any) -> list[TakenOption]:
    lo, hi = known or (0, 1)
    least = SLIVER if isinstance(edges[-2], float) else 0
    out = []
    for i, (left, right) in enumerate(pairwise(edges)):
        a, b = (left, right) if known is None else (max(left, lo), min(right, hi))
        share = b - a if known is None else (b - a) / (hi - lo)
        if share > least:
            drawn = Drawn(i, float(a + b) / 2, float(left), float(right))
            out.append(TakenOption(key, drawn, prob * share, (a, b)))
    assert out, f"a decision without any possible outcome: {key} {edges} {known}"
    return out


@dataclass
class BranchKeys:
    """Stands in for `specviz.probability.draws.Keys`."""

    branch: EnumeratedPath
    round: int
    way: str = "cdf"
    seed: int = 0

    def following(self) -> "BranchKeys":
        """The draws of the next round."""
        return BranchKeys(self.branch, self.round + 1 if self.round else 0, self.way)

    def _key(self, stream: str, pos: int, index: int) -> Key:
        return (stream, 0 if stream == "target" else self.round, pos, index)

    def uniform(self, stream: str, pos: int, index: int = 0) -> "Uniform":
        """A uniform that can only be compared; every comparison is a branch."""
        return Uniform(self.branch, self._key(stream, pos, index))

    def passes(self, pos: int, threshold: Any, index: int = 0) -> Tested:
        """The test `u < threshold`."""
        assert 0 <= threshold <= 1, f"threshold {threshold} at position {pos}"
        drawn = self.branch.cut(self._key("accept", pos, index), lambda: [0, threshold, 1]).drawn
        return Tested(drawn.token == 0, cast(float, drawn.u))

    def draw(self, stream: str, pos: int, row: Any, index: int = 0) -> Drawn:
        """A token from an unnormalised row `[V]`; one branch per token that is still possible."""
        if isinstance(row, Certain):
            return Drawn(row.token, None)
        key = self._key(stream, pos, index)
        if self.way == "race":
            assert key not in self.branch.known, f"race noise {key} used twice: no interval describes what is known"
            return Drawn(self.branch.cut(key, lambda: _edges(row)).drawn.token, None)
        return self.branch.cut(key, lambda: _edges(row)).drawn


@dataclass(frozen=True)
class Uniform:
    """A uniform nobody has looked at: `u < x` and `u >= x` look, arithmetic and float() are refused."""

    branch: EnumeratedPath
    key: Key

    def __lt__(self, threshold: Any) -> bool:
        return self.branch.cut(self.key, lambda: [0, min(max(threshold, 0), 1), 1]).drawn.token == 0

    def __ge__(self, threshold: Any) -> bool:
        return not self < threshold


def _edges(row: Any) -> list[Any]:
    """The running sum as shares of the mass, from 0 to 1."""
    row = row.detach().cpu().double().numpy() if hasattr(row, "detach") else np.asarray(row)
    sums = np.cumsum(row)
    assert sums[-1] > 0, f"drawing from a row without mass: {row}"
    return [0, *(sums if sums[-1] == 1 else sums / sums[-1])]


def paths(
    run: Callable[[EnumeratedPath], T], known: Known = frozenset(), least_pos: int = -1
) -> Iterator[tuple[T, EnumeratedPath]]:
    """Every execution of `run`; the branch carries its probability and what it learnt of the uniforms."""
    frontier: list[tuple[TakenOption, ...]] = [()]
    while frontier:
        branch = EnumeratedPath(frontier.pop(), dict(known), least_pos)
        result = run(branch)
        assert len(branch.taken) >= len(branch.replay), "fewer decisions than before: not deterministic"
        frontier += branch.unexplored
        if branch.prob:
            yield result, branch


def staged(
    prepare: Callable[[EnumeratedPath], S],
    run: Callable[[EnumeratedPath, S], T],
    known: Known = frozenset(),
    least_pos: int = -1,
) -> Iterator[tuple[T, EnumeratedPath, Any]]:
    """Every execution of `prepare`, then `run`, with its probability; `prepare` is not repeated for what follows it."""
    for prepared, before in paths(prepare, known, least_pos):
        for result, branch in paths(partial(_second, run, prepared), frozenset(before.known.items()), least_pos):
            yield result, branch, before.prob * branch.prob


def _second(run: Callable[[EnumeratedPath, S], T], prepared: S, branch: EnumeratedPath) -> T:
    return run(branch, prepared)


def law_of(run: Callable[[EnumeratedPath], Hashable]) -> dict[Any, Any]:
    """The exact law of what `run` returns."""
    out: dict[Any, Any] = {}
    for result, branch in paths(run):
        out[result] = out.get(result, 0) + branch.prob
    return out


def deviation(law: Law, target: Law) -> Any:
    """Largest |law - target| over all texts."""
    return max(abs(law.get(k, 0) - target.get(k, 0)) for k in law.keys() | target.keys())


def total_variation(law: Law, target: Law) -> Any:
    return sum(abs(law.get(k, 0) - target.get(k, 0)) for k in law.keys() | target.keys()) / 2
