"""Early exit beside its peers in its own currencies, and the predicted time of a round beside the measured one.

Layer calls stand for time on one sequence, cells (layer x row) for arithmetic. A second draft model
has no place in either, so arms that draft with one are left out. Counts come from one recorded run a prompt; times are
those of that run's rounds and calls, by the rows they had, beside what the clock of the machine says of such a call.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

import msgspec

from specviz.events import Event, ExitRound, LayerTrace
from specviz.runlog.fold import finished
from specviz.runlog.run import RoundRecord
from specviz_lab.bench.measure import Split

_CLOCKED = ("draft", "target")
LayerCost = Callable[[int], float]  # a layer's nanoseconds by rows


class WidthTime(msgspec.Struct, frozen=True, kw_only=True):
    """`n` rounds or layer calls of `width` rows: medians of what they took and of what was predicted."""

    width: int
    n: int
    measured_us: float
    predicted_us: float | None


class ExitCosts(msgspec.Struct, frozen=True, kw_only=True):
    """One arm. `widths[w]`: rounds whose last pass had w rows, the root among them. Times are null for peers."""

    tokens_per_round: float
    layer_calls_per_token: float
    cells_per_token: float
    head_tests_per_token: float | None
    widths: dict[int, int]
    rounds: list[WidthTime] = []
    layers: list[WidthTime] = []
    prediction_ratio: float | None = None  # sum of predicted over sum of measured round times


@dataclass(slots=True)
class _Round:
    """One round of a recorded run. `calls`: rows and nanoseconds of every layer call."""

    n_new: int
    rows: int
    layer_calls: int
    cells: int
    tests: int
    measured_ns: int
    predicted_ns: int | None
    calls: list[tuple[int, int]] = field(default_factory=list)


def costs_of_records(runs: Iterable[Sequence[Event]], n_layers: int, layer_ns: LayerCost | None) -> ExitCosts | None:
    """From recorded runs of one of our arms; None when nothing was decoded. `layer_ns`: the clock's layer by rows."""
    rounds = [_round(record, n_layers) for events in runs for record in finished(events)]
    if not rounds:
        return None
    tokens = sum(one.n_new for one in rounds)
    timed = [one for one in rounds if one.predicted_ns]
    return ExitCosts(
        tokens_per_round=tokens / len(rounds),
        layer_calls_per_token=sum(one.layer_calls for one in rounds) / tokens,
        cells_per_token=sum(one.cells for one in rounds) / tokens,
        head_tests_per_token=sum(one.tests for one in rounds) / tokens if any(one.tests for one in rounds) else None,
        widths=_counts(one.rows for one in rounds),
        rounds=_by_width([(one.rows, one.measured_ns, one.predicted_ns) for one in timed]),
        layers=_by_width(
            [(rows, ns, round(layer_ns(rows)) if layer_ns else None) for one in rounds for rows, ns in one.calls if ns]
        ),
        prediction_ratio=sum(one.predicted_ns or 0 for one in timed) / sum(one.measured_ns for one in timed)
        if timed
        else None,
    )


def costs_of_splits(splits: Sequence[Split]) -> ExitCosts | None:
    """From a peer's passes, seen from outside; None where they were not counted, or a second model drafted."""
    calls = [call for split in splits for call in split.calls]
    if not calls:
        return None
    tokens, n_rounds = sum(split.n_tokens for split in splits), sum(split.n_rounds for split in splits)
    whole = max(depth for depth, _ in calls)
    return ExitCosts(
        tokens_per_round=tokens / n_rounds,
        layer_calls_per_token=sum(depth for depth, _ in calls) / tokens,
        cells_per_token=sum(depth * rows for depth, rows in calls) / tokens,
        head_tests_per_token=None,
        widths=_counts(rows for depth, rows in calls if depth == whole),
    )


def _round(record: RoundRecord, n_layers: int) -> _Round:
    """A finished round; a plain pass costs the whole target once."""
    end = record.end
    assert end is not None
    cost = record.first(ExitRound)
    took = sum(end.stage_ns.get(name, 0) for name in _CLOCKED)
    rows = cost.n_rows if cost else 1 + sum(node.kept and node.fed for node in record.nodes.values())
    calls = [pair for climb in record.every(LayerTrace) for pair in zip(climb.width, climb.layer_ns, strict=True)]
    return _Round(
        end.n_emitted,
        rows,
        cost.layer_calls if cost else n_layers,
        cost.cells if cost else n_layers * rows,
        cost.head_tests if cost else 0,
        took,
        cost.predicted_ns if cost else None,
        calls,
    )


def _counts(rows: Iterable[int]) -> dict[int, int]:
    return dict(sorted(Counter(rows).items()))


def _by_width(passes: Sequence[tuple[int, int, int | None]]) -> list[WidthTime]:
    out = []
    for width in sorted({width for width, _, _ in passes}):
        took = [ns for rows, ns, _ in passes if rows == width]
        times = [ns for rows, _, ns in passes if rows == width and ns is not None]
        out.append(
            WidthTime(
                width=width,
                n=len(took),
                measured_us=median(took) / 1e3,
                predicted_us=median(times) / 1e3 if times else None,
            )
        )
    return out
