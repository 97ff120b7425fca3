"""`CountHistory`: counts by window, as a text tells them, added up to the looks that `specviz watch` keeps."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from msgspec.structs import replace

from specviz.events import Counted, EngineCounts

_MOST = 2**53
_USUAL_S = 10.0  # between two windows, where there is only one


@dataclass(slots=True)
class CountWindow:
    """What was counted in a stretch of time that ended at `wall` (seconds; None: not told). None: not told.

    `kept`: rounds that kept a token at that position. `length`, `rate`: means that were told without counts.
    """

    wall: float | None = None
    n_rounds: int | None = None
    n_drafted: int | None = None
    n_accepted: int | None = None
    n_generated: int | None = None
    kept: Sequence[int] = ()
    length: float | None = None
    rate: float | None = None


@dataclass(slots=True)
class CountPart:
    """Totals of one engine, drafter or kind of prompt among several."""

    n_rounds: int = 0
    n_accepted: int = 0
    n_drafted: int = 0
    n_calls: int | None = None


@dataclass(slots=True)
class CountHistory:
    """What one source told. `span`: what its totals cover; `settings`: how the engine ran, as far as it is told;
    `parts_of`: what the parts are."""

    engine: str
    span: str
    models: list[str] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    parts_of: str = "engine"
    parts: dict[str, CountPart] = field(default_factory=dict)
    windows: list[CountWindow] = field(default_factory=list)
    per_part: list[dict[str, tuple[int, int]]] = field(default_factory=list)  # by window: rounds and accepted by part
    given: list[Counted] = field(default_factory=list)  # looks that the source tells as they are, in place of windows
    began: float | None = None  # when the first window began, where that is told

    def add(self, window: CountWindow, part: str | None = None) -> None:
        """Count a window, of one part where there are several; those of one moment are one window."""
        last = self.windows[-1] if self.windows else None
        if last is not None and part is not None and last.wall == window.wall and part not in self.per_part[-1]:
            _merge(last, window)
        else:
            self.windows.append(window)
            self.per_part.append({})
        if part is not None:
            rounds, accepted = window.n_rounds or 0, window.n_accepted or 0
            self.per_part[-1][part] = rounds, accepted
            total = self.parts.setdefault(part, CountPart())
            total.n_rounds, total.n_accepted = total.n_rounds + rounds, total.n_accepted + accepted
            total.n_drafted += window.n_drafted or 0

    def looks(self) -> list[Counted]:
        """The windows added up, oldest first, behind a look at nothing; of one whose begin is not told, it alone."""
        if self.given or not self.windows:
            apart = [replace(look, wall=_USUAL_S * k, span=self.span) for k, look in enumerate(self.given)]
            return apart if len(apart) > 1 else self.given
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
            out.append(max(last, window.wall) if window.wall is not None else last + _USUAL_S * (k > 0))
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


def _merge(into: CountWindow, other: CountWindow) -> None:
    for name in ("n_rounds", "n_drafted", "n_accepted", "n_generated"):
        theirs = getattr(other, name)
        if theirs is not None:
            setattr(into, name, (getattr(into, name) or 0) + theirs)
    if other.kept:
        n = max(len(into.kept), len(other.kept))
        mine, theirs_kept = ([*kept, *[0] * (n - len(kept))] for kept in (into.kept, other.kept))
        into.kept = [a + b for a, b in zip(mine, theirs_kept, strict=True)]
    into.length, into.rate = other.length, other.rate
