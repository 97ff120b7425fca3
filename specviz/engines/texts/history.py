"""`CountHistory`: counts by window, as a text tells them, added up to the looks that `specviz watch` keeps."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import add

from msgspec.structs import replace

from specviz.events import Counted, EngineCounts

MOST_WINDOWS = 1400  # kept of one source, an even number: of a longer one windows are put together
MOST_PARTS = 64  # told one by one
_MOST = 2**53
_USUAL_S = 10.0  # between two windows, where there is only one


@dataclass(slots=True)
class CountWindow:
    """What was counted in a stretch of time that ended at `wall` (seconds; None: not told). None: not told.

    `kept`: rounds that kept a token at that position. `length`, `rate`: means that were told without counts.
    `n_moments`: of how many windows of the source it was put together.
    """

    wall: float | None = None
    n_rounds: int | None = None
    n_drafted: int | None = None
    n_accepted: int | None = None
    n_generated: int | None = None
    kept: Sequence[int] = ()
    length: float | None = None
    rate: float | None = None
    n_moments: int = 1


@dataclass(slots=True)
class CountPart:
    """Totals of one engine, drafter or kind of prompt among several."""

    n_rounds: int = 0
    n_accepted: int = 0
    n_drafted: int = 0
    n_calls: int | None = None


@dataclass(slots=True)
class CountHistory:
    """What one source told, in bounded room: of a long source neighbouring windows are put together, all by as many.

    `span`: what its totals cover; `settings`: how the engine ran, as far as it is told; `parts_of`: what the parts are.
    """

    engine: str
    span: str
    models: list[str] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    parts_of: str = "engine"
    parts: dict[str, CountPart] = field(default_factory=dict)
    windows: list[CountWindow] = field(default_factory=list)
    per_part: list[dict[str, tuple[int, int]]] = field(default_factory=list)  # by window: rounds and accepted by part
    reported: list[Counted] = field(
        default_factory=list
    )  # looks that the source tells as they are, in place of windows
    began: float | None = None  # when the first window began, where that is told
    _together: int = 1  # windows of the source that one of `windows` is put together of
    _of_moment: set[str] = field(default_factory=set)  # parts that told of the newest moment

    def add(self, window: CountWindow, part: str | None = None) -> None:
        """Count a window, of one part where there are several; those of one moment are one window."""
        last = self.windows[-1] if self.windows else None
        if part is not None and part not in self.parts and len(self.parts) >= MOST_PARTS:
            part = None
        if last is not None and part is not None and last.wall == window.wall and part not in self._of_moment:
            _merge(last, window)
        else:
            self._of_moment.clear()
            if last is not None and last.n_moments < self._together:
                _join(last, window)
            else:
                self._append(window)
        if part is not None:
            self._of_moment.add(part)
            rounds, accepted = window.n_rounds or 0, window.n_accepted or 0
            before = self.per_part[-1].get(part, (0, 0))
            self.per_part[-1][part] = before[0] + rounds, before[1] + accepted
            total = self.parts.setdefault(part, CountPart())
            total.n_rounds, total.n_accepted = total.n_rounds + rounds, total.n_accepted + accepted
            total.n_drafted += window.n_drafted or 0

    def _append(self, window: CountWindow) -> None:
        """A window of its own; where there are too many, each two neighbours become one first."""
        if len(self.windows) >= MOST_WINDOWS:
            for k in range(0, len(self.windows), 2):
                _join(self.windows[k], self.windows[k + 1])
                for name, (rounds, accepted) in self.per_part[k + 1].items():
                    before = self.per_part[k].get(name, (0, 0))
                    self.per_part[k][name] = before[0] + rounds, before[1] + accepted
            del self.windows[1::2], self.per_part[1::2]
            self._together *= 2
        self.windows.append(window)
        self.per_part.append({})

    def looks(self) -> list[Counted]:
        """The windows added up, oldest first, behind a look at nothing; of one whose begin is not told, it alone."""
        if self.reported or not self.windows:
            apart = [replace(look, wall=_USUAL_S * k, span=self.span) for k, look in enumerate(self.reported)]
            return apart if len(apart) > 1 else self.reported
        walls = self._walls()
        began = self.began if self.began is not None or len(walls) == 1 else walls[0] - _gap(walls)
        out = [] if began is None else [self._look(began, None)]
        sums = CountWindow()
        by_part: dict[str, tuple[int, int]] = {}
        for window, parts, wall in zip(self.windows, self.per_part, walls, strict=True):
            _merge(sums, window)
            sums.length, sums.rate = window.length, window.rate
            for name, (rounds, accepted) in parts.items():
                before = by_part.get(name, (0, 0))
                by_part[name] = before[0] + rounds, before[1] + accepted
            out.append(self._look(wall, sums, by_part))
        return out

    def _walls(self) -> list[float]:
        """The end of every window; those of windows without a time stand a usual while apart."""
        out: list[float] = []
        for k, window in enumerate(self.windows):
            last = out[-1] if out else 0.0
            usual = _USUAL_S * (window.n_moments if k else window.n_moments - 1)
            out.append(max(last, window.wall) if window.wall is not None else last + usual)
        return out

    def _look(
        self, wall: float, sums: CountWindow | None, by_part: dict[str, tuple[int, int]] | None = None
    ) -> Counted:
        first = self.windows[0]
        if sums is None:
            known = [None if n is None else 0 for n in (first.n_rounds, first.n_drafted, first.n_accepted)]
            generated = None if first.n_generated is None else 0
            sums = CountWindow(None, known[0], known[1], known[2], generated)
        several = len(self.parts) > 1
        return Counted(
            engine=self.engine,
            wall=max(0.0, wall),
            models=self.models[:8],
            n_rounds=_total(sums.n_rounds),
            n_drafted=_total(sums.n_drafted),
            n_accepted=_total(sums.n_accepted),
            n_generated=_total(sums.n_generated),
            per_position=[min(n, _MOST) for n in sums.kept],
            accept_length=sums.length,
            accept_rate=sums.rate,
            engines=[self._part(name, (by_part or {}).get(name, (0, 0))) for name in self.parts] if several else [],
            parts_of=self.parts_of,
            span=self.span,
            settings=dict(self.settings),
            notes=list(self.notes),
        )

    def _part(self, name: str, counts: tuple[int, int]) -> EngineCounts:
        part = self.parts[name]
        return EngineCounts(
            name=name,
            n_rounds=min(counts[0], _MOST),
            n_accepted=min(counts[1], _MOST),
            n_drafted=min(part.n_drafted, _MOST) or None,
            n_calls=part.n_calls,
        )


def _gap(walls: Sequence[float]) -> float:
    """How long the first window lasted, as far as the second one tells."""
    return next((b - a for a, b in pairwise(walls) if b > a), _USUAL_S)


def _total(n: int | None) -> int | None:
    return None if n is None else max(0, min(n, _MOST))


def _sum(a: int | None, b: int | None) -> int | None:
    return a if b is None else b if a is None else a + b


def _join(into: CountWindow, later: CountWindow) -> None:
    """Put a window and the one behind it together; means count by the windows that they are of."""
    n, m = into.n_moments, later.n_moments
    means = [
        old if new is None else new if old is None else (old * n + new * m) / (n + m)
        for old, new in ((into.length, later.length), (into.rate, later.rate))
    ]
    _merge(into, later)
    into.length, into.rate = means
    into.n_moments, into.wall = n + m, later.wall


def _merge(into: CountWindow, other: CountWindow) -> None:
    into.n_rounds = _sum(into.n_rounds, other.n_rounds)
    into.n_drafted = _sum(into.n_drafted, other.n_drafted)
    into.n_accepted = _sum(into.n_accepted, other.n_accepted)
    into.n_generated = _sum(into.n_generated, other.n_generated)
    if other.kept:
        longer, shorter = sorted((into.kept, other.kept), key=len, reverse=True)
        into.kept = [*map(add, longer, shorter), *longer[len(shorter) :]]
    into.length, into.rate = other.length, other.rate
