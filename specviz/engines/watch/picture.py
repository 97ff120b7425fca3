"""What looks at a server say, ready to be shown: numbers with intervals, curves, changes and what is not known."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from statistics import fmean, median, stdev

from specviz.engines.watch.changes import change_points
from specviz.engines.watch.counters import OF_MODEL, kind_of
from specviz.events import Counted
from specviz.metrics import wilson_interval
from specviz.metrics.estimate import Z

_DIGITS = 0.05  # of the accepted tokens, that shares by position in two or three digits may miss
_FEW_ROUNDS = 30  # below it nothing is said of one engine
MOST_LOOKS, _NEWEST = 1440, 360  # of a picture: a day in windows of a minute; and of these the newest, as they are
_MOST_EDGES = 100
CLOSED = (
    "closed here: which tokens were drafted, p, q, u, the tree and why a token was refused; counters hold sums alone"
)
WHOLE = "since the server began"


@dataclass(frozen=True, slots=True)
class PositionShare:
    """Rounds that kept a token at a position (from 0), with Wilson's 95 % interval; `conditional`: of those that kept
    all before it."""

    position: int
    kept: float
    low: float
    high: float
    n: int
    conditional: float | None


@dataclass(frozen=True, slots=True)
class LookPoint:
    """One look since the one before: its time (seconds since 1970) and what was counted meanwhile. None: nothing.

    `kept`: of `rounds`, those that kept a token at each position; `drafted`: tokens. `held`: tokens that a running
    request has in the cache, as a share of it, at the end, and `running` requests then; None where no gauge tells.
    """

    wall: float
    length: float | None
    acceptance: float | None
    tokens_per_s: float | None
    rounds: int = 0
    drafted: int = 0
    kept: tuple[int, ...] = ()
    held: float | None = None
    running: float | None = None


@dataclass(frozen=True, slots=True)
class SeenChange:
    """Acceptance that changed, when and how; `by`: 95 % interval of the difference."""

    wall: float
    position: int
    before: float
    after: float
    by: tuple[float, float]

    @property
    def words(self) -> str:
        way = "fell" if self.after < self.before else "rose"
        return f"position {self.position + 1} {way} from {self.before:.0%} to {self.after:.0%}"

    @property
    def with_interval(self) -> str:
        """The same, and by how much."""
        low, high = sorted(map(abs, self.by)) if self.by[0] * self.by[1] > 0 else self.by
        return f"{self.words}, by {low:.1%} to {high:.1%}"


@dataclass(frozen=True, slots=True)
class EngineShare:
    """One of several engines (or drafters, or kinds of prompts) over the same time: rounds, and tokens a round; None
    before its first. `n_drafted`, `n_calls`: where they were told."""

    name: str
    n_rounds: int
    length: float | None
    n_accepted: int = 0
    n_drafted: int | None = None
    n_calls: int | None = None
    of: str = "engine"

    @property
    def words(self) -> str:
        """Which one, and how it does."""
        if self.length is None:
            calls = f" in {self.n_calls:,} calls" if self.n_calls else ""
            return f"{self.of} {self.name}: nothing drafted{calls}"
        kept = f", {self.n_accepted:,} of {self.n_drafted:,} drafted kept" if self.n_drafted else ""
        return f"{self.of} {self.name}: {self.length:.2f} tokens a round over {self.n_rounds:,}{kept}"


@dataclass(frozen=True, slots=True)
class WatchPicture:
    """`over`: what the totals cover. `length_ends`: 95 % interval of the mean, None where no sum tells it.

    What is wrong is no part of it: `specviz.judge` says that.
    """

    engine: str
    models: tuple[str, ...]
    over: str
    seconds: float
    n_looks: int
    n_rounds: int | None
    n_drafted: int | None
    n_accepted: int | None
    n_generated: int | None
    length: float | None
    length_ends: tuple[float, float] | None
    acceptance: float | None
    tokens_per_s: float | None
    positions: tuple[PositionShare, ...]
    engines: tuple[EngineShare, ...]
    points: tuple[LookPoint, ...]
    changes: tuple[SeenChange, ...]
    restarts: tuple[float, ...]
    notes: tuple[str, ...]
    rule: str
    headline: str
    settings: tuple[tuple[str, str], ...] = ()  # how the engine ran, as far as the source tells
    now: float | None = None  # tokens a round since the look before the last
    gauges: tuple[tuple[str, str], ...] = ()  # what stood beside at the last look
    reported: tuple[float | None, float | None] = (None, None)  # the engine's own rate and length, at the last look
    answers: tuple[int, int] | None = None  # that are over, and those of them that ended with their first token


def began_again(before: Counted, after: Counted) -> bool:
    """Whether the server began again between two looks, so that it counts from 0: a count can only grow."""
    return _fell(_totals(before), _totals(after))


def _fell(before: Sequence[int | None], after: Sequence[int | None]) -> bool:
    return any(a is not None and b is not None and b < a for a, b in zip(before, after, strict=True))


def _totals(look: Counted) -> tuple[int | None, ...]:
    """Rounds, drafted, accepted, generated."""
    return look.n_rounds, look.n_drafted, look.n_accepted, look.n_generated


def _windows(looks: Sequence[Counted]) -> Sequence[Counted]:
    """Of more looks than a picture needs every few, on to the newest ones, and those on either side of a beginning
    anew: counts add up, so nothing is lost but when within a window it was counted."""
    if len(looks) <= MOST_LOOKS:
        return looks
    older = len(looks) - _NEWEST
    every = -(-older // (MOST_LOOKS - _NEWEST))
    return [looks[k] for k in sorted({*range(0, older, every), *range(older, len(looks)), *_edges(looks)})]


def _edges(looks: Sequence[Counted]) -> Iterator[int]:
    """The looks on either side of a server's beginning anew; of one that does so all the time the first ones."""
    totals = [_totals(look) for look in looks]
    falls = (k for k, (before, after) in enumerate(pairwise(totals), 1) if before != after and _fell(before, after))
    for k in islice(falls, _MOST_EDGES):
        yield from (k - 1, k)


def _answers(look: Counted) -> tuple[int | None, ...]:
    """That are over, and the empty ones, of which fewer may be sure later on."""
    return look.n_answers, look.n_empty


class _Step:
    """What was counted between two looks. `anew`: the server began again in between, so it counts from 0. `counts`:
    rounds, drafted, accepted, generated, answers, empty ones; `kept`: rounds that kept a token at each position."""

    __slots__ = ("after", "anew", "before", "counts", "kept")

    def __init__(self, before: Counted, after: Counted) -> None:
        self.before, self.after, self.anew = before, after, began_again(before, after)
        pairs = zip((*_totals(after), *_answers(after)), (*_totals(before), *_answers(before)), strict=True)
        self.counts = tuple(None if a is None else a - (0 if self.anew or b is None else b) for a, b in pairs)
        old, new = [] if self.anew else before.per_position, after.per_position
        self.kept = [max(0, n - (old[k] if k < len(old) else 0)) for k, n in enumerate(new)]


def picture_of(looks: Sequence[Counted]) -> WatchPicture:
    """The looks, at least one, oldest first. Before anything was counted between them, the totals of the server."""
    looks = _windows(looks)
    first, last = looks[0], looks[-1]
    steps = [_Step(before, after) for before, after in pairwise(looks)]
    rounds, drafted, accepted, generated, answers, empty = (_sum([step.counts[k] for step in steps]) for k in range(6))
    kept = [sum(step.kept[k] if k < len(step.kept) else 0 for step in steps) for k in range(_width(looks))]
    seconds = sum(max(0.0, s.after.wall - s.before.wall) for s in steps)
    whole = not rounds
    if whole:
        rounds, drafted, accepted, kept = last.n_rounds, last.n_drafted, last.n_accepted, list(last.per_position)
        answers, empty = _answers(last)
    counted = bool(rounds and accepted is not None)
    means = [look.accept_length for look in looks if look.accept_length is not None] if last.span else []
    length = 1 + (accepted or 0) / rounds if rounds and counted else fmean(means) if means else last.accept_length
    rates = [look.accept_rate for look in looks if look.accept_rate is not None] if last.span else []
    acceptance = _share_kept(accepted, drafted, fmean(rates) if rates else last.accept_rate)
    points = tuple(map(_point, steps))
    points_of_change = [] if not steps else change_points([(step.counts[0] or 0, step.kept) for step in steps])
    changes = tuple(SeenChange(steps[c.at].after.wall, c.position, c.before, c.after, c.by) for c in points_of_change)
    speed = generated / seconds if generated and seconds else None
    now = None if whole or last.span else next((p.length for p in reversed(points) if p.length is not None), None)
    return WatchPicture(
        engine=last.engine,
        models=tuple(last.models),
        over=last.span or (WHOLE if whole else "since we look"),
        seconds=last.wall - first.wall,
        n_looks=len(looks),
        n_rounds=rounds,
        n_drafted=drafted,
        n_accepted=accepted,
        n_generated=last.n_generated if whole else generated,
        length=length,
        length_ends=_length_ends(rounds, accepted, kept, _slack(last, accepted))
        if rounds and counted
        else _ends_of_means(means),
        acceptance=acceptance,
        tokens_per_s=speed,
        positions=_positions(rounds, kept) if rounds else (),
        engines=(engines := _engines([last] if whole else looks)),
        points=points,
        changes=changes,
        restarts=tuple(step.after.wall for step in steps if step.anew),
        notes=tuple(_notes(last, rounds, drafted, accepted, kept)),
        rule=f"rule in force: not told by counters; {kind_of(last.engine).rule}",
        headline=_headline(last, length, now, changes, engines),
        settings=tuple(last.settings.items()),
        now=now,
        gauges=tuple((name, _gauge(name, value)) for name, value in last.gauges.items()),
        reported=(last.accept_rate, last.accept_length),
        answers=(answers, max(0, empty)) if answers and empty is not None else None,
    )


def _gauge(name: str, value: float) -> str:
    """Requests are counted, the others are shares."""
    return f"{value:.0f}" if name in ("running", "waiting") else f"{value:.0%}"


def _engines(looks: Sequence[Counted]) -> tuple[EngineShare, ...]:
    """Each engine since the first of these looks; of a single look since the server began."""
    totals: dict[str, list[int]] = {}
    first = Counted(engine="", wall=0.0)
    for before, after in pairwise([first, *looks] if len(looks) == 1 else looks):
        old = {} if began_again(before, after) else {engine.name: engine for engine in before.engines}
        for engine in after.engines:
            was, total = old.get(engine.name), totals.setdefault(engine.name, [0, 0])
            total[0] += max(0, engine.n_rounds - (was.n_rounds if was else 0))
            total[1] += max(0, engine.n_accepted - (was.n_accepted if was else 0))
    known, of = {engine.name: engine for engine in looks[-1].engines}, looks[-1].parts_of
    return tuple(
        EngineShare(
            name,
            n,
            1 + kept / n if n else None,
            kept,
            known[name].n_drafted if name in known else None,
            known[name].n_calls if name in known else None,
            of,
        )
        for name, (n, kept) in totals.items()
    )


def ill_engines(engines: Sequence[EngineShare]) -> list[EngineShare]:
    """Engines of enough rounds that draft less than half as many kept tokens as the middle one of them that serve the
    same model."""
    by_model: dict[str, list[EngineShare]] = {}
    for engine in engines:  # drafters, prompts and models need not be alike
        if engine.of == "engine" and engine.length is not None and engine.n_rounds >= _FEW_ROUNDS:
            by_model.setdefault(engine.name.partition(OF_MODEL)[2], []).append(engine)
    ill = []
    for alike in by_model.values():
        middle = median(engine.length or 1.0 for engine in alike)
        if len(alike) > 2:  # of two nobody knows which one is as it should be
            ill += [engine for engine in alike if (engine.length or 1.0) - 1 < (middle - 1) / 2]
    return ill


def usual_length(engines: Sequence[EngineShare], ill: Sequence[EngineShare]) -> float:
    """Tokens a round of the middle one of those that are not ill."""
    return median(engine.length or 1.0 for engine in engines if engine not in ill and engine.length is not None)


def _share_kept(accepted: int | None, drafted: int | None, rate: float | None = None) -> float | None:
    """Of drafted tokens; `rate` where they were not counted; None where that cannot be, for it is above 1."""
    share = accepted / drafted if drafted and accepted is not None else rate
    return share if share is not None and share <= 1 else None


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [n for n in counts if n is not None]
    return sum(known) if known else None


def _ends_of_means(means: Sequence[float]) -> tuple[float, float] | None:
    """Of means over windows, which count alike: how many rounds each is of is not told."""
    if len(means) < 3:
        return None
    half = Z * stdev(means) / math.sqrt(len(means))
    return fmean(means) - half, fmean(means) + half


def _width(looks: Sequence[Counted]) -> int:
    return max(len(look.per_position) for look in looks)


def _point(step: _Step) -> LookPoint:
    rounds, drafted, accepted, generated = step.counts[:4]
    seconds = step.after.wall - step.before.wall
    is_counted = step.after.n_accepted is not None
    return LookPoint(
        step.after.wall,
        (1 + (accepted or 0) / rounds if rounds else None) if is_counted else step.after.accept_length,
        _share_kept(accepted, drafted, None if is_counted else step.after.accept_rate),
        generated / seconds if generated is not None and seconds > 0 else None,
        rounds or 0,
        drafted or 0,
        tuple(step.kept),
        _held(step.after.gauges),
        step.after.gauges.get("running"),
    )


def _held(gauges: Mapping[str, float]) -> float | None:
    """The share of the cache that one running request has."""
    running, used = gauges.get("running"), gauges.get("cache in use")
    return used / running if running and used is not None else None


def _positions(rounds: int, kept: Sequence[int]) -> tuple[PositionShare, ...]:
    out = []
    for k, n in enumerate(kept):
        n = min(n, rounds)
        low, high = wilson_interval(n, rounds)
        above = rounds if k == 0 else kept[k - 1]
        out.append(PositionShare(k, n / rounds, low, high, rounds, n / above if above and n <= above else None))
    return tuple(out)


def _slack(last: Counted, accepted: int | None) -> float:
    """Tokens by which positions may part from the sum: a text tells shares in few digits."""
    return _DIGITS * (accepted or 0) if last.span else 0.0


def _length_ends(rounds: int, accepted: int | None, kept: Sequence[int], slack: float) -> tuple[float, float] | None:
    """Positions count the rounds that got beyond them, so they give the second moment too: E a^2 = sum (2k+1) s_k."""
    if rounds < 2 or accepted is None or abs(sum(kept) - accepted) > slack:
        return None
    mean = sum(kept) / rounds
    variance = sum((2 * k + 1) * n for k, n in enumerate(kept)) / rounds - mean * mean
    if variance <= 0:
        return None  # all alike: no spread was measured
    half = Z * math.sqrt(variance / (rounds - 1))
    return 1 + mean - half, 1 + mean + half


def _notes(
    last: Counted, rounds: int | None, drafted: int | None, accepted: int | None, kept: Sequence[int]
) -> list[str]:
    """What does not add up, and what a reader would take for more than it is."""
    notes = [*last.notes]
    if kept and accepted is not None and abs(sum(kept) - accepted) > _slack(last, accepted):
        notes.append(f"does not add up: positions keep {sum(kept)} tokens, the sum says {accepted}")
    if drafted is not None and accepted is not None and accepted > drafted:
        notes.append(f"does not add up: {accepted} accepted of {drafted} drafted")
    if any(after > before for before, after in pairwise(kept)):
        notes.append("does not add up: more rounds keep a later position than one before it")
    if last.n_accepted is None and last.accept_length is not None and last.span:
        notes.append(f"{last.engine} tells means without counts: no positions, no search for changes")
    elif last.n_accepted is None and last.accept_length is not None:
        notes.append(
            f"{last.engine} tells means without counts, its latest ones, over a time it does not name: no intervals, "
            "no positions, no search for changes"
        )
    return notes


def _headline(
    last: Counted,
    length: float | None,
    now: float | None,
    changes: Sequence[SeenChange],
    engines: Sequence[EngineShare],
) -> str:
    """The server in one line: how it is now, beside the mean."""
    if not last.speculates and last.drafts:
        return f"{last.engine} drafts, but what is kept is not told here: start it with --metrics"
    if not last.speculates:
        return f"{last.engine} shows no speculation: {kind_of(last.engine).turn_on or 'it is off'}"
    if length is None and last.n_drafted:
        kept = "an unknown number" if last.n_accepted is None else f"{last.n_accepted:,}"
        return f"{kept} of {last.n_drafted:,} drafted tokens kept; rounds are not counted there"
    if length is None and last.n_generated:
        return "text is generated, but no round has drafted: where a lookup drafts, it found no match"
    if length is None:
        return "nothing was drafted yet: send it a prompt"
    if last.n_drafted == 0:
        return "rounds run, but nothing is drafted"
    words = f"{length:.2f} tokens a round"
    if now is not None and f"{now:.2f}" != f"{length:.2f}":
        words = f"{now:.2f} tokens a round now, {length:.2f} since we look"
    if length < 1.1:
        words += ": next to nothing is kept, so drafting costs more than it brings"
    ill = ill_engines(engines)
    if ill:
        some = ", ".join(f"engine {engine.name} at {engine.length:.2f}" for engine in ill[:3])
        rest = usual_length(engines, ill)
        words += f": {some}, the others at {rest:.2f}"
    return f"{words}; {changes[-1].words}" if changes else words
