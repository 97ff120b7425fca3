"""Histories of counts, or totals, beside each other: each number of the first, and how far the others are from it.

Totals have the intervals of their rounds. Windows of a history tell how far apart requests are, of which rounds are no
independent draws: where they lie farther apart than chance has it, intervals are as much wider.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from specviz.engines.watch.picture import WatchPicture
from specviz.metrics import wilson_interval
from specviz.metrics.estimate import Z

_FEWEST = 8  # windows of a history that show how far they lie apart
_MOVED = 0.05  # of a share: less than that is no cause of anything


@dataclass(frozen=True, slots=True)
class CountDifference:
    """A number of all of them; `differences` to the first, from the second on, with a 95 % interval where counts carry
    one. None: not told."""

    name: str
    values: tuple[float | None, ...]
    differences: tuple[tuple[float, tuple[float, float] | None] | None, ...]
    share: bool = False  # of tests, else a number

    def beyond_chance(self, k: int) -> bool:
        """Whether the difference of the k-th to the first is told apart from 0."""
        difference = self.differences[k - 1]
        return difference is not None and difference[1] is not None and (difference[1][0] > 0 or difference[1][1] < 0)


@dataclass(frozen=True, slots=True)
class CountsBeside:
    """`settings`: those that differ, by name; `words`: what the numbers say together, a sentence each."""

    rows: tuple[CountDifference, ...]
    settings: tuple[tuple[str, tuple[str, ...]], ...]
    words: tuple[str, ...]


def beside(pictures: Sequence[WatchPicture], letters: Sequence[str]) -> CountsBeside:
    """At least two pictures, the first the one that others are held against."""
    rows = [_lengths(pictures), _pooled(pictures)]
    n_positions = max(len(picture.positions) for picture in pictures)
    rows += [_position(pictures, k, of_reached=False) for k in range(n_positions)]
    conditional = [_position(pictures, k, of_reached=True) for k in range(1, n_positions)]
    speeds = tuple(picture.tokens_per_s for picture in pictures)
    rows += [*conditional, CountDifference("tokens/s", speeds, _plain_differences(speeds))]
    known = tuple(row for row in rows if any(value is not None for value in row.values))
    names = dict.fromkeys(name for picture in pictures for name, _ in picture.settings)
    table = [(name, tuple(dict(picture.settings).get(name, "") for picture in pictures)) for name in names]
    settings = tuple((name, values) for name, values in table if len(set(values)) > 1)
    words = [line for k in range(1, len(pictures)) for line in _words(pictures, k, letters, known)]
    return CountsBeside(known, settings, tuple(words))


def _lengths(pictures: Sequence[WatchPicture]) -> CountDifference:
    values = tuple(picture.length for picture in pictures)
    first = pictures[0]
    differences: list[tuple[float, tuple[float, float] | None] | None] = []
    for other in pictures[1:]:
        if other.length is None or first.length is None:
            differences.append(None)
            continue
        halves = [half for half in map(_length_half, (first, other)) if half is not None]
        by, half = other.length - first.length, math.hypot(*halves)
        differences.append((by, (by - half, by + half) if len(halves) > 1 else None))
    return CountDifference("tokens a round", values, tuple(differences))


def _length_half(picture: WatchPicture) -> float | None:
    """Half of the interval of tokens a round: that of the rounds, or of the windows where these lie farther apart."""
    ends, length = picture.length_ends, picture.length
    if ends is None or length is None:
        return None
    windows = [(at.rounds, at.length) for at in picture.points if at.rounds and at.length is not None]
    off = sum((n * (mean - length)) ** 2 for n, mean in windows)
    total = sum(n for n, _ in windows)
    by_windows = Z * math.sqrt(off * len(windows) / (len(windows) - 1)) / total if len(windows) >= _FEWEST else 0.0
    return max((ends[1] - ends[0]) / 2, by_windows)


def _pooled(pictures: Sequence[WatchPicture]) -> CountDifference:
    """Kept of drafted: tokens of one round are alike, so it has no interval."""
    values = tuple(picture.acceptance for picture in pictures)
    return CountDifference("kept of drafted", values, _plain_differences(values), share=True)


def _plain_differences(values: Sequence[float | None]) -> tuple[tuple[float, None] | None, ...]:
    first = values[0]
    return tuple(None if first is None or value is None else (value - first, None) for value in values[1:])


def _position(pictures: Sequence[WatchPicture], k: int, of_reached: bool) -> CountDifference:
    """Position k (from 0): of all rounds, or of those that kept all before it."""
    counts = [_hits(picture, k, of_reached) for picture in pictures]
    values = tuple(None if hits is None or not hits[1] else hits[0] / hits[1] for hits in counts)
    name = f"position {k + 1}" + (" of those that came so far" if of_reached else "")
    spreads = [_spread(picture, k, of_reached) for picture in pictures]
    apart = [_apart(counts[0], hits, spreads[0], spread) for hits, spread in zip(counts[1:], spreads[1:], strict=True)]
    return CountDifference(name, values, tuple(apart), share=True)


def _spread(picture: WatchPicture, k: int, of_reached: bool) -> float:
    """How many times as far as chance the windows of a history lie about their common share; 1 where there are few."""
    windows = []
    for at in picture.points:
        came = at.kept[k - 1] if of_reached and k <= len(at.kept) else 0 if of_reached else at.rounds
        if came:
            windows.append((at.kept[k] if k < len(at.kept) else 0, came))
    hits, of = sum(h for h, _ in windows), sum(n for _, n in windows)
    if len(windows) < _FEWEST or not 0 < hits < of:
        return 1.0
    share = hits / of
    off = sum((h - n * share) ** 2 / (n * share * (1 - share)) for h, n in windows)
    return max(1.0, off / (len(windows) - 1))


def _hits(picture: WatchPicture, k: int, of_reached: bool) -> tuple[int, int] | None:
    """Rounds that kept position k, of how many."""
    if k >= len(picture.positions):
        return None
    at = picture.positions[k]
    kept = round(at.kept * at.n)
    if not of_reached:
        return kept, at.n
    before = picture.positions[k - 1]
    came = round(before.kept * before.n)
    return (kept, came) if kept <= came else None


def _apart(
    first: tuple[int, int] | None, other: tuple[int, int] | None, spread: float, other_spread: float
) -> tuple[float, tuple[float, float]] | None:
    """The difference of two shares with Newcombe's interval, of the two intervals of Wilson, each of as many tests as
    the spread of its windows leaves."""
    if first is None or other is None or not first[1] or not other[1]:
        return None
    low, high = wilson_interval(first[0] / spread, first[1] / spread)
    other_low, other_high = wilson_interval(other[0] / other_spread, other[1] / other_spread)
    p, q = first[0] / first[1], other[0] / other[1]
    return q - p, (q - p - math.hypot(q - other_low, high - p), q - p + math.hypot(other_high - q, p - low))


def _words(
    pictures: Sequence[WatchPicture], k: int, letters: Sequence[str], rows: Sequence[CountDifference]
) -> list[str]:
    first, other, a, b = pictures[0], pictures[k], letters[0], letters[k]
    out = []
    moved = [row for row in rows if row.name == "position 1" or row.name.endswith("came so far")]
    far = [row for row in moved if row.beyond_chance(k) and abs(_by(row, k)) > _MOVED]
    if far and moved[0] not in far and len(moved) > 1:
        out.append(
            f"{b}: the first position is as in {a} ({_pair(moved[0], k)}), later ones are not ({far[0].name}: "
            f"{_pair(far[0], k)}): the drafter's own state between its calls, not its first guess"
        )
    elif far:
        same = " Nothing else that is told differs." if first.settings == other.settings and first.settings else ""
        out.append(f"{b}: {far[0].name} is at {_pair(far[0], k)} of {a}.{same}")
    if first.tokens_per_s and other.tokens_per_s:
        out += _speed(first, other, a, b)
    return out


def _by(row: CountDifference, k: int) -> float:
    difference = row.differences[k - 1]
    return difference[0] if difference is not None else 0.0


def _pair(row: CountDifference, k: int) -> str:
    return f"{row.values[k] or 0:.1%} against {row.values[0] or 0:.1%}"


def _speed(first: WatchPicture, other: WatchPicture, a: str, b: str) -> list[str]:
    """How many times as fast, and beside plain decoding what a round costs."""
    speed, base = other.tokens_per_s or 0.0, first.tokens_per_s or 1.0
    if first.length is None or other.length is None:
        return [f"{b} writes {speed / base:.2f} times as many tokens a second as {a}"]
    plain, drafts = (first, other) if not first.n_accepted else (other, first)
    if plain.n_accepted or not drafts.n_accepted or plain.length is None or drafts.length is None:
        return [f"{b} writes {speed / base:.2f} times as many tokens a second as {a}"]
    cost = (drafts.length / (drafts.tokens_per_s or 1.0)) / (plain.length / (plain.tokens_per_s or 1.0))
    name = b if drafts is other else a
    return [
        f"{name}: a round takes as long as {cost:.1f} plain tokens and brings {drafts.length:.1f}: "
        f"{drafts.length / cost:.2f} times plain decoding"
    ]
