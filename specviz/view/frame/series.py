"""Numbers over rounds for sparklines and plots. Every metric comes from `specviz.metrics`; here it is only arranged."""

from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from specviz.numerals import number, percent, prob, times
from specviz.runlog.fold import Run
from specviz.runlog.rounds import RoundPoint, Rounds
from specviz.runlog.run import RoundRecord
from specviz.view.frame.parts import Metric, Series
from specviz.view.words.numbers import bar, uncertainty

if TYPE_CHECKING:
    from specviz.metrics import Estimate, Metrics, Tally


_HIGHEST = (1 << 31) - 1
_NOT_DEFINED = "not defined for this run, or not recorded"
_PER_TEST = ("position_acceptance", "depth_acceptance")


class Meter:
    """Feeds a `Tally` with every finished round once; the tally is the one source of every number.

    `known`: of a recording that was counted before; nothing is counted again.
    """

    def __init__(self, known: "Metrics | None" = None) -> None:
        self._tally: Tally | None = None
        self._metrics, self._known = known, known is not None

    def metrics(self, run: Run) -> "Metrics | None":
        """The metrics of all rounds finished so far; None before the first one."""
        if self._known:
            return self._metrics
        tally = self._counting()
        if tally.follow(run) or self._metrics is None:
            self._metrics = tally.summary() if tally.n_rounds else None
        return self._metrics

    def on_evict(self, run: Run, record: RoundRecord) -> None:
        """A round is about to go out of memory: it is counted now, so that it need not be read again for that."""
        if not self._known and self._counting().follow(run, record.index + 1):
            self._metrics = None

    @property
    def tally(self) -> "Tally":
        """What has been counted so far."""
        return self._counting()

    def _counting(self) -> "Tally":
        from specviz.metrics import Tally  # numpy: not needed to open a window

        self._tally = self._tally or Tally()
        return self._tally


def metrics_of(run: Run, rounds: Iterable[RoundRecord]) -> "Metrics":
    """The metrics of some finished rounds."""
    from specviz.metrics import Tally

    tally = Tally()
    if run.header is not None:
        tally.begin(run.header, run.calibration)
    for record in rounds:
        tally.take(record)
    return tally.summary()


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
    from specviz.metrics import METRICS

    label, column = METRICS[name].help, None if metrics is None else metrics[name]
    if not column:
        missing = "no round has ended yet" if column is not None or metrics is None else _NOT_DEFINED
        if metrics is not None and metrics.survival and name in _PER_TEST:
            missing = "a backward scan keeps tokens it never tests, so there is no such rate: see survival"
        return Series(name, label, (), (), (), (), (), missing)
    xs = tuple(sorted(column))
    estimates = [column[x] for x in xs]
    edges = [e.interval or (None, None) for e in estimates]
    lows, highs = tuple(lo for lo, _ in edges), tuple(hi for _, hi in edges)
    return Series(name, label, xs, tuple(e.value for e in estimates), lows, highs, tuple(e.n for e in estimates))


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

    def bars(self, rounds: Rounds, points: Sequence[RoundPoint]) -> str:
        """Of all rounds; those out of memory do not change any more."""
        settled = rounds.n_away
        del self._heights[settled:]
        self._heights.extend(min(h, _HIGHEST) for h in rounds.heights(len(self._heights), settled))
        rest = [_height(points[k]) for k in range(settled, len(points))]
        most = max(max(self._heights, default=0), max(rest, default=0))
        drawn = "" if most != self._most else self._bars[:settled]
        self._bars = drawn + _bars(self._heights[len(drawn) :], most)
        self._most = most
        return self._bars + _bars(rest, most)


def spark(points: Sequence[RoundPoint]) -> str:
    heights = [_height(point) for point in points]
    return _bars(heights, max(heights, default=0))


def _bars(heights: Sequence[int], most: int) -> str:
    known = {height: bar(height, most) for height in set(heights)}
    return "".join(known[height] for height in heights)


def _height(point: RoundPoint) -> int:
    return min(point.n_emitted or 0, _HIGHEST) if point.n_accepted or not point.n_drafted else 0
