"""Numbers over rounds for sparklines and plots. Every metric comes from `specviz.metrics`; here it is only arranged."""

from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from specviz.events import Event
from specviz.runlog.fold import Run
from specviz.runlog.rounds import RoundPoint
from specviz.runlog.run import RoundRecord
from specviz.view.frame.parts import Metric, Series
from specviz.view.words.numbers import bar, number, percent, prob, times, uncertainty

if TYPE_CHECKING:
    from specviz.metrics import Estimate, Metrics, Tally


_HIGHEST = (1 << 31) - 1
_NOT_DEFINED = "not defined for this run, or not recorded"
_PER_TEST = ("position_acceptance", "depth_acceptance")


class Meter:
    """Feeds a `Tally` with every finished round once; the tally is the one source of every number."""

    def __init__(self) -> None:
        self._tally: Tally | None = None
        self._done = self._counted = self._learnt = 0
        self._metrics: Metrics | None = None

    def metrics(self, run: Run) -> "Metrics | None":
        """The metrics of all rounds finished so far; None before the first one."""
        taken = self._take(run, len(run.rounds)) + self._take_steps(run)
        if taken or self._metrics is None:
            assert self._tally is not None
            self._metrics = self._tally.summary() if self._counted else None
        return self._metrics

    def leaving(self, run: Run, record: RoundRecord) -> None:
        """A round is about to go out of memory: it is counted now, so that it need not be read again for that."""
        self._take(run, record.index + 1)

    def _take(self, run: Run, stop: int) -> int:
        """Count the rounds before `stop` that have ended; only the last of a run may yet."""
        from specviz.metrics import Tally  # numpy: not needed to open a window

        if self._tally is None:
            self._tally = Tally()
            self._tally.add_all(_of_run(run))
        counted = self._counted
        while self._done < stop:
            record = run.rounds[self._done]
            if record.complete:
                self._tally.add_all(records_of(record))
                self._counted += 1
            elif record.index == len(run.rounds) - 1:
                break
            self._done += 1
        return self._counted - counted

    def _take_steps(self, run: Run) -> int:
        """Count what was learnt since the last call; it comes at the end of a query, in their order."""
        assert self._tally is not None
        taken = 0
        while self._learnt < len(run.queries):
            step = run.queries[self._learnt].adapt
            if step is not None:
                self._tally.add(step)
                taken += 1
            elif self._learnt == len(run.queries) - 1:
                break
            self._learnt += 1
        return taken


def metrics_of(run: Run, rounds: Iterable[RoundRecord]) -> "Metrics":
    """The metrics of some finished rounds."""
    from specviz.metrics import Tally

    tally = Tally()
    tally.add_all(_of_run(run))
    for record in rounds:
        tally.add_all(records_of(record))
    return tally.summary()


def _of_run(run: Run) -> Iterable[Event]:
    """What is written once, before the first round."""
    yield from (event for event in (run.header, run.calibration) if event is not None)


def records_of(record: RoundRecord) -> Iterable[Event]:
    """The records of a finished round again, in the order they are written."""
    if record.index == record.query.first and record.query.prefill is not None:
        yield record.query.prefill
    yield record.start
    yield from record.nodes.values()
    yield from record.verdicts.values()
    yield from record.chains.values()
    yield from (event for event in (record.closing, record.commit) if event is not None)
    yield from record.spans
    yield from record.blocks
    yield from record.expansions
    yield from (event for event in (record.tree,) if event is not None)
    yield from record.other
    if record.end is not None:
        yield record.end


def header_metrics(metrics: "Metrics | None") -> tuple[Metric, ...]:
    """The numbers of the header line, with their intervals."""
    from specviz.metrics import METRICS

    shown = [(spec.name, *spec.header) for spec in METRICS.values() if spec.header is not None]
    return tuple(metric(name, label, None if metrics is None else metrics[name], words) for name, label, words in shown)


def metric(name: str, label: str, estimate: "Estimate | None", help_: str = "") -> Metric:
    """One number with its 95 % interval: `.71 ±.04`, `0 [0, .13]`; `1 (n 3 too small)`."""
    if estimate is None:
        return Metric(name, label, None, prob(None), None, help_)
    show = prob if name.endswith("_rate") else number
    text = f"{show(estimate.value)} {uncertainty(estimate, show)}".strip()
    return Metric(name, label, estimate.value, text, estimate.interval, help_)


def series(metrics: "Metrics | None") -> dict[str, Series]:
    """Per-position and per-depth numbers, ready for a plot or a table."""
    from specviz.metrics import METRICS

    return {spec.name: one_series(spec.name, metrics) for spec in METRICS.values() if spec.group == "positions"}


def one_series(name: str, metrics: "Metrics | None") -> Series:
    """The numbers of one name."""
    from specviz.metrics import METRICS

    label, column = METRICS[name].help, None if metrics is None else metrics[name]
    if not column:
        missing = "no round has ended yet" if column is not None or metrics is None else _NOT_DEFINED
        if metrics is not None and metrics.survival and name in _PER_TEST:
            missing = "a backward scan keeps tokens it never tests, so there is no such rate: see survival"
        return Series(name, label, (), (), (), (), (), missing)
    xs = tuple(sorted(column))
    found = [column[x] for x in xs]
    edges = [e.interval or (None, None) for e in found]
    lows, highs = tuple(lo for lo, _ in edges), tuple(hi for _, hi in edges)
    return Series(name, label, xs, tuple(e.value for e in found), lows, highs, tuple(e.n for e in found))


def histogram(metrics: "Metrics | None") -> tuple[tuple[int, int], ...]:
    """`(accepted tokens, rounds)`, every count from 0 to the most."""
    counts = metrics.accepted_histogram if metrics is not None else {}
    return tuple((k, counts.get(k, 0)) for k in range(max(counts) + 1)) if counts else ()


def overhead(metrics: "Metrics | None") -> str:
    """What recording cost: `+2.1 %`; from a doubling on, how many times as long a round took: `3.4×`."""
    share = metrics.overhead.value if metrics is not None and metrics.overhead is not None else None
    if share is not None and share >= 1:
        return times(1 + share)
    return percent(None) if share is None else f"+{percent(share)}"


class Spark:
    """Emitted tokens per round; the lowest bar is a round that kept nothing of its draft.

    Bars of rounds that do not change any more are drawn once, and again when a higher one comes.
    """

    def __init__(self) -> None:
        self._heights = array("i")  # of the settled rounds
        self._bars, self._most = "", 0

    def bars(self, points: Sequence[RoundPoint], settled: int) -> str:
        """Of all rounds; the first `settled` do not change any more."""
        del self._heights[settled:]
        self._heights.extend(_height(points[k]) for k in range(len(self._heights), settled))
        rest = [_height(points[k]) for k in range(settled, len(points))]
        most = max(max(self._heights, default=0), max(rest, default=0))
        drawn = "" if most != self._most else self._bars[:settled]
        self._bars = drawn + "".join(bar(height, most) for height in self._heights[len(drawn) :])
        self._most = most
        return self._bars + "".join(bar(height, most) for height in rest)


def spark(points: Sequence[RoundPoint]) -> str:
    """The bars of these rounds."""
    return Spark().bars(points, 0)


def _height(point: RoundPoint) -> int:
    return min(point.n_emitted or 0, _HIGHEST) if point.n_accepted or not point.n_drafted else 0
