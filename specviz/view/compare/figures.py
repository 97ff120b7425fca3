"""The numbers of several runs beside each other, and how far each is from the first: by run, by place in the draft, by
kind of prompt. Every number and interval comes from `specviz.metrics`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specviz.metrics import Estimate, Metrics, Tally
from specviz.metrics.differences import difference_of_independent
from specviz.metrics.sets import by_query, numbers, told
from specviz.runlog.fold import Run
from specviz.view.frame.parts import Metric, Series
from specviz.view.frame.series import metric, one_series
from specviz.view.words.numbers import MINUS, UNKNOWN, number, uncertainty

# name, label, help
ROWS = (
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
_NAMES = (*(name for name, _, _ in ROWS), *(name for name, _ in SERIES))
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
    counted = [by_query(run.rounds, run.header, run.calibration) for run in runs]
    measured = [numbers(each.values(), _NAMES) for each in counted]
    series = {name: tuple(one_series(name, metrics) for metrics in measured) for name, _ in SERIES}
    some = {name: found for name, found in series.items() if any(each.xs for each in found)}
    rows = tuple(_row(name, label, words, measured) for name, label, words in ROWS)
    seen = tuple(row for row in rows if any(value.value is not None for value in row.values))
    return Compared(seen, some, {name: axis for name, axis in SERIES if name in some}, _domains(runs, counted))


def _row(name: str, label: str, words: str, measured: Sequence[Metrics]) -> CompareRow:
    found = [told(metrics[name]) for metrics in measured]
    values = tuple(metric(name, label, estimate, words) for estimate in found)
    against = [_against(found[0], estimate) for estimate in found[1:]]
    texts = tuple(UNKNOWN if each is None else _signed(each) for each in against)
    apart = tuple(each is not None and _sure(each) for each in against)
    return CompareRow(name, label, words, values, (UNKNOWN, *texts), (False, *apart))


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


def _domains(runs: Sequence[Run], counted: Sequence[Mapping[int, Tally]]) -> tuple[KindRow, ...]:
    kinds = [[(q.number, (q.prefill and q.prefill.domain) or NO_DOMAIN) for q in run.queries] for run in runs]
    names = sorted({name for each in kinds for _, name in each})
    if not set(names) - {NO_DOMAIN}:
        return ()
    out = []
    for name in names:
        of_kind = [
            [tallies[number] for number, kind in each if kind == name and number in tallies]
            for each, tallies in zip(kinds, counted, strict=True)
        ]
        found = [numbers(each, ("block_efficiency", "draft_acceptance_rate")) for each in of_kind]
        out.append(
            KindRow(name, tuple(m.block_efficiency for m in found), tuple(m.draft_acceptance_rate for m in found))
        )
    return tuple(out)


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
