"""`overview(run) -> Overview`: everything that is said about a whole run; `OverviewPanel`: the same of the run so far.
Numbers come from `specviz.metrics`; here they get their labels, their text and their order."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from specviz.runlog.fold import Run
from specviz.runlog.run import Mark
from specviz.view.frame.judgement import RunJudgement
from specviz.view.frame.run_header import NOTHING, of_whole_run, run_info
from specviz.view.frame.series import Meter, histogram, metric, overhead, series
from specviz.view.judge.judgement import judge
from specviz.view.panels import Panel, Scene
from specviz.view.panels.overview.model import CalibrationRow, Histogram, Overview, OverviewOptions, Stage
from specviz.view.words.numbers import MINUS, number, percent, prob, uncertainty

if TYPE_CHECKING:
    from specviz.metrics import ConfidenceBand, Estimate, GeometricFit, Metrics

_METRICS = (  # name, label, help
    ("mean_acceptance_length", "tokens per round", "tokens committed per round, the drawn one included"),
    ("draft_acceptance_rate", "accepted / drafted", "drafted tokens that were kept, of all that were drafted"),
    ("test_acceptance_rate", "accepted / tested", "drafted tokens that were kept, of those whose turn came"),
    ("mean_accepted", "kept per round", "drafted tokens kept per round"),
    ("block_efficiency", "per target pass", "tokens committed per forward pass of the target"),
    ("tokens_per_second", "tokens / s", "new tokens / time of all rounds"),
    ("time_to_first_token_s", "first token, s", "from the start of the prompt's pass to the first commit"),
    ("round_ms", "ms per round", "median"),
)
_PREFILL = "prefill"
_STAGES = (_PREFILL, "draft", "target", "verdict", "commit", "adapt", "other")


def overview(run: Run, meter: Meter | None = None) -> Overview:
    """The overview of everything that has ended so far. `meter`: what counted the run."""
    from specviz.metrics import geometric_fit

    meter = meter or Meter()
    metrics, tally = meter.metrics(run), meter.tally
    fit = geometric_fit(tally) if metrics is not None else None
    return _overview(run, metrics, judge(run, tally, metrics), fit, tally.fates)


def _overview(
    run: Run,
    metrics: "Metrics | None",
    judgement: RunJudgement,
    fit: "GeometricFit | None" = None,
    fates: Mapping[str, int] | None = None,
) -> Overview:
    seed = run.queries[0].prefill.seed if run.queries and run.queries[0].prefill else None
    share = metrics.drafting_share.value if metrics is not None and metrics.drafting_share is not None else None
    cost = overhead(metrics)
    return Overview(
        info=of_whole_run(run_info(run, run.knobs, seed, cost), run) if run.header is not None else NOTHING,
        n_rounds=metrics.n_rounds if metrics is not None else 0,
        judgement=judgement,
        metrics=tuple(metric(name, label, _estimate(metrics, name), help_) for name, label, help_ in _METRICS),
        series=series(metrics),
        calibration=tuple(calibration_row(band) for band in judgement.confidence),
        stages=_stages(metrics),
        drafting_share=percent(share),
        overhead=cost,
        histogram=_histogram(metrics, fit),
        marks=_marks(run, metrics, fates or {}),
    )


def _estimate(metrics: "Metrics | None", name: str) -> "Estimate | None":
    found: Estimate | None = metrics[name] if metrics is not None else None
    return found


def _histogram(metrics: "Metrics | None", fit: "GeometricFit | None") -> Histogram:
    counts = histogram(metrics)
    if not counts:
        missing = "no round has ended yet" if metrics is None else "nothing was drafted in this run"
        if metrics is not None and metrics.n_drafted is None:
            missing = "how many tokens were drafted is not known: only times are"
        return Histogram((), (), "", missing)
    expected = tuple(sorted(fit.expected.items())) if fit is not None else ()
    return Histogram(counts, expected, prob(fit.alpha.value) if fit is not None else "")


def _stages(metrics: "Metrics | None") -> tuple[Stage, ...]:
    times = metrics.stage_ms if metrics is not None else {}
    known = [name for name in _STAGES if name in times] + [name for name in times if name not in _STAGES]
    whole = sum(times[name].value for name in known if name != _PREFILL)
    made = []
    for name in known:
        ms = times[name].value
        made.append(Stage(name, ms, f"{number(ms)} ms", ms / whole if whole and name != _PREFILL else None))
    return tuple(made)


def _marks(run: Run, metrics: "Metrics | None", seen: Mapping[str, int]) -> tuple[tuple[Mark, int], ...]:
    """Drafted tokens by what became of them: from the verdicts, or from the counts where only those are on record."""
    if metrics is None or not metrics.n_drafted:
        return ()
    if seen:
        marks: tuple[Mark, ...] = ("accepted", "rejected", "untested")
        return tuple((mark, seen[mark]) for mark in marks)
    if run.backward:
        return (("accepted", metrics.n_accepted), ("rejected", metrics.n_drafted - metrics.n_accepted))
    never = metrics.n_drafted - metrics.n_tested
    lost = metrics.n_tested - metrics.n_accepted
    return (("accepted", metrics.n_accepted), ("rejected", lost), ("untested", max(0, never)))


class OverviewPanel(Panel[OverviewOptions, Overview]):
    """The run so far, whichever moment is on screen."""

    id = "overview"
    title = "Overview"
    options = OverviewOptions

    def build(self, scene: Scene, options: OverviewOptions) -> Overview:
        if scene.metrics is None or not scene.metrics.n_rounds:
            return self.empty("no round has ended yet")
        chosen, last = options.finding, len(scene.judgement.findings) - 1
        if chosen is not None:
            chosen = max(0, min(chosen, last)) if last >= 0 else None
        return replace(_overview(self.run, scene.metrics, scene.judgement), finding=chosen)

    def empty(self, reason: str) -> Overview:
        return Overview(missing=reason)


def calibration_row(band: "ConfidenceBand") -> CalibrationRow:
    """A band of confidence in words."""
    apart = number(abs(band.gap.value))
    apart = f"{MINUS}{apart}" if band.gap.value < 0 and apart != "0" else apart
    apart += f" {uncertainty(band.gap)}" if band.gap.interval is not None else ""
    words = f"{prob(band.lo)} to {prob(band.hi)}"
    texts = (prob(band.q), prob(band.p), prob(band.kept.value), apart)
    return CalibrationRow(words, band.n, band.q, band.p, band.kept.value, texts)
