"""The numbers of several runs beside each other, and how far each is from the first: by run, by place in the draft, by
kind of prompt. Every number and interval comes from `specviz.metrics`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specviz.metrics import Estimate, Metrics, PlainSpeed
from specviz.metrics.estimate import Ratio, difference_of_independent
from specviz.runlog.fold import Run
from specviz.view.frame.parts import Metric, Series
from specviz.view.frame.series import metric, metrics_of, one_series
from specviz.view.words.numbers import MINUS, UNKNOWN, number, uncertainty

# name, label, help
_ROWS = (
    ("block_efficiency", "tokens per target call", "committed tokens / passes of the target"),
    ("mean_accepted", "kept per block", "drafted tokens kept per block"),
    ("draft_acceptance_rate", "accepted / drafted", "drafted tokens that were kept, of all that were drafted"),
    ("test_acceptance_rate", "accepted / tested", "drafted tokens that were kept, of those whose turn came"),
    ("tokens_per_second", "tokens / s", "new tokens / time of all rounds"),
    ("over_plain", "× plain decoding", "as fast as plain decoding would be, where the run tells it"),
    ("drafting_share", "drafting", "draft time / round time"),
)
SERIES = (
    ("position_acceptance", "draft position"),
    ("depth_acceptance", "depth in the tree"),
    ("survival", "tokens kept, at least"),
)
NO_DOMAIN = "no kind told"


@dataclass(frozen=True, slots=True)
class CompareRow:
    """One number of all runs. `differences`: to the first run, `—` for itself and where there is none; `apart`: whether
    its interval leaves out 0."""

    name: str
    label: str
    help: str
    values: tuple[Metric, ...]
    differences: tuple[str, ...]
    apart: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class KindRow:
    """One kind of prompt: tokens per target call and the share of drafts kept, for each run; None where it has none."""

    domain: str
    calls: tuple[Estimate | None, ...]
    kept: tuple[Estimate | None, ...]


@dataclass(frozen=True, slots=True)
class Steps:
    """Calls of the target that a run needed for its text: `calls[k]` for the first `positions[k]` tokens."""

    positions: tuple[int, ...]
    calls: tuple[int, ...]

    def needed(self, position: int) -> int | None:
        """Calls until that many tokens were written; None where there are not so many."""
        return next((c for p, c in zip(self.positions, self.calls, strict=True) if p >= position), None)


@dataclass(frozen=True, slots=True)
class Compared:
    """`series`: by name, one for each run; `axes` of their names. `domains` only where prompts tell their kind."""

    rows: tuple[CompareRow, ...]
    series: Mapping[str, tuple[Series, ...]]
    axes: Mapping[str, str]
    domains: tuple[KindRow, ...]


def compared(runs: Sequence[Run]) -> Compared:
    """Everything that has ended so far."""
    measured = [metrics_of(run, (record for record in run.rounds if record.complete)) for run in runs]
    series = {name: tuple(one_series(name, metrics) for metrics in measured) for name, _ in SERIES}
    some = {name: found for name, found in series.items() if any(each.xs for each in found)}
    rows = tuple(_row(name, label, words, measured) for name, label, words in _ROWS)
    seen = tuple(row for row in rows if any(value.value is not None for value in row.values))
    return Compared(seen, some, {name: axis for name, axis in SERIES if name in some}, _domains(runs))


def _row(name: str, label: str, words: str, measured: Sequence[Metrics]) -> CompareRow:
    found = [_number(metrics[name]) for metrics in measured]
    values = tuple(metric(name, label, estimate, words) for estimate in found)
    against = [_against(found[0], estimate) for estimate in found[1:]]
    texts = tuple(UNKNOWN if each is None else _signed(each) for each in against)
    apart = tuple(each is not None and _sure(each) for each in against)
    return CompareRow(name, label, words, values, (UNKNOWN, *texts), (False, *apart))


def _number(value: Estimate | PlainSpeed | None) -> Estimate | None:
    """A speed-up that cannot be told is none."""
    return value.trusted if isinstance(value, PlainSpeed) else value


def _against(base: Estimate | None, other: Estimate | None) -> Estimate | None:
    return None if base is None or other is None else difference_of_independent(other, base)


def _sure(found: Estimate) -> bool:
    """Whether the interval leaves out 0."""
    return found.interval is not None and not found.interval[0] <= 0 <= found.interval[1]


def _signed(found: Estimate) -> str:
    """`+.31 ±.12`, `−.04 ±.09: cannot tell`, `+2.4 (all 40 alike)` where one of the two shows no spread."""
    size = number(abs(found.value))
    sign = "+" if found.value > 0 else MINUS if found.value < 0 else "±"
    unsure = found.interval is not None and not _sure(found)
    return f"{sign}{size} {uncertainty(found)}".strip() + (": cannot tell" if unsure else "")


def _domains(runs: Sequence[Run]) -> tuple[KindRow, ...]:
    found = [_by_domain(run) for run in runs]
    names = sorted({name for each in found for name in each})
    if not set(names) - {NO_DOMAIN}:
        return ()
    none = (None, None)
    return tuple(
        KindRow(
            name, tuple(each.get(name, none)[0] for each in found), tuple(each.get(name, none)[1] for each in found)
        )
        for name in names
    )


def _by_domain(run: Run) -> dict[str, tuple[Estimate | None, Estimate | None]]:
    """Of every kind of prompt, over its rounds."""
    calls: dict[str, Ratio] = {}
    kept: dict[str, Ratio] = {}
    for query in run.queries:
        name = (query.prefill.domain if query.prefill is not None else None) or NO_DOMAIN
        for index in range(query.first, query.first + query.n_rounds):
            point = run.rounds.point(index)
            if point.n_emitted is None:
                continue
            calls.setdefault(name, Ratio()).add(index, query.number, point.n_emitted, 1)
            if point.n_drafted:
                kept.setdefault(name, Ratio()).add(index, query.number, point.n_accepted or 0, point.n_drafted)
    return {
        name: (sums.estimate(), kept[name].estimate(most=1.0) if name in kept else None) for name, sums in calls.items()
    }


def steps(run: Run, query: int) -> Steps:
    """Of one prompt, by its place."""
    asked = run.queries[query]
    positions, calls, at = [], [], 0
    for n, index in enumerate(range(asked.first, asked.first + asked.n_rounds), 1):
        emitted = run.rounds.point(index).n_emitted
        if emitted:
            at += emitted
            positions.append(at)
            calls.append(n)
    return Steps(tuple(positions), tuple(calls))
