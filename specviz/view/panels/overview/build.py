"""`overview(run) -> Overview`: everything that is said about a whole run; `OverviewPanel`: the same of the run so far.
Numbers come from `specviz.metrics`; here they get their labels, their text and their order."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from specviz.numerals import UNKNOWN, number, percent, prob
from specviz.runlog.fold import Run
from specviz.runlog.run import Mark
from specviz.view.blocks import Cell, Facts, Plot, PlotCurve, TableBlock, Words, series_plot
from specviz.view.frame.judgement import RunJudgement
from specviz.view.frame.parts import WhyRow
from specviz.view.frame.series import Meter, histogram, metric, overhead, series
from specviz.view.judge.judgement import judge
from specviz.view.panels import Panel, PanelContext
from specviz.view.panels.overview.model import Overview, OverviewOptions, RunBlocks
from specviz.view.words.numbers import MINUS, uncertainty
from specviz.view.words.palette import glyph, word

if TYPE_CHECKING:
    from specviz.metrics import ConfidenceBand, GeometricFit, Metrics

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
_CURVES = (  # name, axis, heading
    ("position_acceptance", "draft position", "Acceptance by position"),
    ("depth_acceptance", "depth in the tree", "Acceptance by depth"),
    ("survival", "tokens kept, at least", "Survival"),
    ("share_above", "tokens of a round, more than", "Long rounds"),
)
_GEOMETRIC = (
    "The line is what one and the same acceptance probability α at every position would give. More at both ends than "
    "the line: easy and hard stretches alternate."
)
_CALIBRATED = "q − p around 0: the draft is well calibrated. Above 0: it is overconfident."
_PREFILL = "prefill"
_STAGES: dict[str, Mark] = {
    _PREFILL: "untested",
    "draft": "drafted",
    "target": "accepted",
    "verdict": "recovered",
    "commit": "untested",
    "adapt": "exit",
    "other": "untested",
}


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
    metric_rows = [
        metric(name, label, None if metrics is None else metrics[name], help_) for name, label, help_ in _METRICS
    ]
    curves = series(metrics)
    blocks = RunBlocks(
        Facts("overview", tuple(WhyRow(one.label, one.text, None, one.help) for one in metric_rows)),
        _marks(run, metrics, fates or {}),
        tuple(series_plot(curves[name], axis, heading) for name, axis, heading in _CURVES),
        _calibration(judgement.confidence),
        _histogram(metrics, fit),
        _stages(metrics),
        Words(_timing(metrics)),
    )
    return Overview(
        judgement=judgement,
        blocks=blocks,
    )


def _histogram(metrics: "Metrics | None", fit: "GeometricFit | None") -> Plot:
    counts = histogram(metrics)
    expected = fit.expected if fit is not None else {}
    xs = tuple(range(max((*expected, *(k for k, _ in counts)), default=-1) + 1))
    rounds = tuple(dict(counts).get(k, 0) for k in xs)
    curves = [PlotCurve("rounds", rounds)]
    alpha = UNKNOWN
    if fit is not None and counts:
        alpha = prob(fit.alpha.value)
        curves.append(PlotCurve(f"geometric, α {alpha}", tuple(map(expected.get, xs)), "recovered", "line"))
    most = max(counts, key=lambda pair: pair[1], default=(0, 0))
    return Plot(
        "histogram",
        "Kept tokens per round",
        "kept tokens of a round",
        xs,
        tuple(curves) if counts else (),
        "count",
        help=_GEOMETRIC,
        words=f"Rounds by kept tokens; most often {most[0]}, {most[1]} times. Geometric fit with α {alpha}.",
        missing="" if counts else _undrafted(metrics),
    )


def _undrafted(metrics: "Metrics | None") -> str:
    """Why there is nothing about drafts."""
    if metrics is None:
        return "no round has ended yet"
    return (
        "how many tokens were drafted is not known: only times are"
        if metrics.n_drafted is None
        else "nothing was drafted in this run"
    )


def _stages(metrics: "Metrics | None") -> Plot:
    times = metrics.stage_ms if metrics is not None else {}
    names = [name for name in _STAGES if name in times] + [name for name in times if name not in _STAGES]
    whole = sum(times[name].value for name in names if name != _PREFILL)
    notes = tuple(
        "once a prompt" if name == _PREFILL else percent(times[name].value / whole if whole else None) for name in names
    )
    curve = PlotCurve(
        "median", tuple(times[name].value for name in names), marks=tuple(_STAGES.get(n, "untested") for n in names)
    )
    medians = ", ".join(f"{name} {number(times[name].value)} ms" for name in names)
    return Plot(
        "stages",
        "Where the time goes",
        "",
        tuple(names),
        (curve,) if names else (),
        "ms",
        help="medians; prefill once per prompt, the others once per round",
        words=f"Median time by stage: {medians}.",
        missing="" if names else "no times on record",
        flat=True,
        notes=notes,
    )


def _timing(metrics: "Metrics | None") -> str:
    share = metrics.drafting_share.value if metrics is not None and metrics.drafting_share is not None else None
    drafting = [f"drafting is {percent(share)} of a round with its recording"] if share is not None else []
    return " · ".join(("medians of a round", *drafting, f"recording cost {overhead(metrics)}"))


def _marks(run: Run, metrics: "Metrics | None", seen: Mapping[str, int]) -> Plot:
    """Drafted tokens by what became of them: from the verdicts, or from the counts where only those are on record."""
    known: dict[Mark, int] = {}
    if metrics is not None and metrics.n_drafted:
        if seen:
            known = {"accepted": seen["accepted"], "rejected": seen["rejected"], "untested": seen["untested"]}
        elif run.backward:
            known = {"accepted": metrics.n_accepted, "rejected": metrics.n_drafted - metrics.n_accepted}
        else:
            lost, never = metrics.n_tested - metrics.n_accepted, metrics.n_drafted - metrics.n_tested
            known = {"accepted": metrics.n_accepted, "rejected": lost, "untested": max(0, never)}
    curves = tuple(PlotCurve(f"{glyph(mark)} {word(mark)}", (n,), mark) for mark, n in known.items())
    return Plot(
        "marks",
        "Drafted tokens",
        "",
        ("drafted",) if known else (),
        curves,
        "count",
        words=f"Of all drafted tokens: {', '.join(f'{n} {mark}' for mark, n in known.items())}.",
        missing="" if known else _undrafted(metrics),
        flat=True,
        stacked=True,
    )


class OverviewPanel(Panel[OverviewOptions, Overview]):
    """The run so far, whichever moment is on screen."""

    id = "overview"
    title = "Overview"
    options = OverviewOptions

    def build(self, scene: PanelContext, options: OverviewOptions) -> Overview:
        if scene.metrics is None or not scene.metrics.n_rounds:
            return self.empty("no round has ended yet")
        chosen, last = options.finding, len(scene.judgement.findings) - 1
        if chosen is not None:
            chosen = max(0, min(chosen, last)) if last >= 0 else None
        return replace(_overview(self.run, scene.metrics, scene.judgement), finding=chosen)

    def empty(self, reason: str) -> Overview:
        return Overview(missing=reason)


def _calibration(bands: "Sequence[ConfidenceBand]") -> TableBlock:
    """Bands of the draft's confidence: what draft and target gave those tokens, how many were kept."""
    return TableBlock(
        "calibration",
        ("q", "n", "q draft", "p target", "kept", "q − p"),
        tuple(_band(band) for band in bands),
        "Calibration · q against p",
        words=_CALIBRATED,
        missing="" if bands else "no probabilities of drafted tokens on record",
    )


def _band(band: "ConfidenceBand") -> tuple[Cell, ...]:
    apart = number(abs(band.gap.value))
    apart = f"{MINUS}{apart}" if band.gap.value < 0 and apart != "0" else apart
    apart += f" {uncertainty(band.gap)}" if band.gap.interval is not None else ""
    return (
        Cell(f"{prob(band.lo)} to {prob(band.hi)}"),
        Cell(f"{band.n:,}", band.n),
        Cell(prob(band.q), band.q, band.q, "drafted"),
        Cell(prob(band.p), band.p, band.p, "accepted"),
        Cell(prob(band.kept.value), band.kept.value),
        Cell(apart),
    )
