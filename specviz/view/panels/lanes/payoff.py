"""Two pictures of a run's speed: what this machine would allow (roofline), and what another draft length would give.

Both rest on the record `calibration` and the metrics of the rounds so far; what they cannot tell they say.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from specviz.cost.payoff import LEAST_TESTS, Payoff, PositionChance, RoundCosts, payoff
from specviz.cost.roofline import PARTS, Bound, Roofline, of_round
from specviz.events import Calibration, Header
from specviz.runlog.fold import Run
from specviz.view.frame.series import Meter
from specviz.view.judge.judgement import parted_words
from specviz.view.words.numbers import growth, number, percent, plural, seconds, times

if TYPE_CHECKING:
    from specviz.metrics import Metrics

_DEAR = 0.05  # recording, over all else, from which on it is named there
_FAR = 1.25  # prediction over measurement, or the other way round, from which on it is explained
_GROWS = 0.8  # draft calls a drafted token from which on drafting takes a step for each


@dataclass(frozen=True, slots=True)
class RoofRow:
    """A part of a round: seconds it must take at least, seconds it took, and what lies between."""

    label: str
    bound_s: float
    measured_s: float
    help: str

    @property
    def share(self) -> float | None:
        """Of the bound; None for what has none."""
        return self.bound_s / self.measured_s if self.bound_s and self.measured_s else None


@dataclass(frozen=True, slots=True)
class RoofPanel:
    """A round against what the machine allows. `missing`: why nothing is known; then the rest is empty."""

    missing: str = ""
    machine: str = ""
    work: tuple[str, ...] = ()
    rows: tuple[RoofRow, ...] = ()
    share: float | None = None
    words: str = ""


@dataclass(frozen=True, slots=True)
class PayPanel:
    """Tokens a second by draft length. `point`: the run's length and its measured speed."""

    missing: str = ""
    curve: Payoff | None = None
    words: str = ""
    point_text: str = ""
    note: str = ""


def panels(run: Run) -> tuple[PayPanel, RoofPanel]:
    """Both, of all rounds of a run."""
    return judged(run.header, run.calibration, Meter().metrics(run) if run.rounds else None, run.knobs)


def judged(
    header: Header | None, found: Calibration | None, metrics: "Metrics | None", knobs: Mapping[str, Any]
) -> tuple[PayPanel, RoofPanel]:
    """Both, of metrics that are at hand."""
    return pay_panel(header, found, metrics, knobs), roof_panel(header, found, metrics)


def told(pay: PayPanel, roof: RoofPanel) -> dict[str, Any]:
    """Both as plain data, for JSON; null with the reason beside it where there is none."""
    curve = pay.curve
    return {
        "payoff": asdict(curve) if curve is not None else None,
        "payoff_words": f"{pay.words} {pay.point_text}".strip() or pay.missing,
        "roofline": None
        if roof.missing
        else {"parts": [asdict(row) for row in roof.rows], "share": roof.share, "machine": roof.machine},
        "roofline_words": roof.words or roof.missing,
    }


def roof_panel(header: Header | None, found: Calibration | None, metrics: "Metrics | None") -> RoofPanel:
    """The roofline of a run's rounds so far."""
    if found is None or metrics is None or not metrics.n_rounds:
        return RoofPanel("This trace holds no costs: what a pass takes on its machine was not measured.")
    if found.rates is None or found.target_work is None:
        return RoofPanel(
            "This trace was recorded before bandwidth was measured, or on a model whose work is not known."
        )
    stages = {name: took.value for name, took in (metrics.stage_ms or {}).items()}
    two = header is not None and header.models.draft is not None
    rows = 1 + metrics.n_drafted / metrics.n_rounds
    calls = metrics.n_draft_calls / metrics.n_rounds if two else 0.0
    roof = of_round(found, stages, rows, 0.0, calls)
    if roof is None:
        return RoofPanel("Its rounds have no time of the target's pass.")
    return RoofPanel("", machine_text(roof), work_texts(roof, calls), roof_rows(roof), roof.share, roof_words(roof))


def roof_text(header: Header | None, found: Calibration | None, metrics: "Metrics | None") -> str:
    """`23 %`: how much of what the machine allows a round reaches; empty where nothing is known."""
    share = roof_panel(header, found, metrics).share
    return percent(min(1.0, share)) if share is not None else ""


def roof_rows(roof: Roofline) -> tuple[RoofRow, ...]:
    """The parts, the whole round last."""
    parts = [RoofRow(part.name, part.bound_s, part.measured_s, PARTS[part.name]) for part in roof.parts]
    return (*parts, RoofRow("round", roof.bound_s, roof.measured_s, "everything"))


def machine_text(roof: Roofline) -> str:
    """What the machine reaches."""
    rates = roof.rates
    threads = f" on {plural(rates.threads, 'thread')}" if rates.threads else ""
    return (
        f"This machine{threads}: reads {number(rates.read_gbs, 1)} GB/s, copies {number(rates.copy_gbs, 1)}, "
        f"multiplies at {number(rates.gflops, 0)} GFLOP/s"
    )


def work_texts(roof: Roofline, calls: float = 0.0) -> tuple[str, ...]:
    """What the passes of a round read and compute."""
    out = [f"target, {number(roof.rows, 1)} rows: {_work(roof.target, roof.target_bits)}"]
    if roof.draft is not None and roof.draft_bits is not None:
        out.append(f"draft, {number(calls, 1)} forwards: {_work(roof.draft, roof.draft_bits)}")
    return tuple(out)


def _work(found: Bound, bits: float) -> str:
    read, computed = number(found.n_bytes / 1e6, 1), number(found.n_flops / 1e9, 2)
    least = f"at least {seconds(found.seconds)}, by {found.by}"
    return f"{read} MB at {number(bits, 1)} bits a weight, {computed} GFLOP: {least}"


def roof_words(roof: Roofline) -> str:
    """What the picture comes to."""
    worst = roof.residuals[0]
    lost = f" Most is lost in {PARTS[worst.name]}: {seconds(worst.residual_s)}." if worst.residual_s > 0 else ""
    return (
        f"A round takes {seconds(roof.measured_s)} where reading and multiplying alone need {seconds(roof.bound_s)}: "
        f"{percent(min(1.0, roof.share))} of what this machine can do.{lost}"
    )


def pay_panel(
    header: Header | None, found: Calibration | None, metrics: "Metrics | None", knobs: Mapping[str, Any]
) -> PayPanel:
    """The curve of a run that drafts chains, or why there is none."""
    missing = _no_curve(header, found, metrics, knobs)
    if missing or found is None or metrics is None:
        return PayPanel(missing)
    stages = {name: took.value / 1e3 for name, took in (metrics.stage_ms or {}).items()}
    drafted, calls = metrics.n_drafted / metrics.n_rounds, metrics.n_draft_calls / metrics.n_rounds
    drafting = stages.get("draft", 0.0)
    grows = drafted > 0 and calls >= _GROWS * drafted
    costs = RoundCosts(
        tuple(found.widths),
        tuple(ns / 1e9 for ns in found.target_ns),
        step_s=drafting / drafted if grows else 0.0,
        rest_s=sum(stages.get(name, 0.0) for name in ("verdict", "commit", "other")),
        fixed_s=0.0 if grows else drafting,
    )
    chances = {}
    for t, at in (metrics.position_acceptance or {}).items():
        low, high = at.interval or (at.value, at.value)
        chances[t] = PositionChance(at.value, low, high, at.n)
    own, speed = int(knobs["gamma"]), metrics.tokens_per_second
    curve = payoff(chances, costs, own, speed.value if speed else None)
    if curve is None:
        tests = chances[1].n if 1 in chances else 0
        return PayPanel(f"Cannot tell yet: {plural(tests, 'first token')} tested, {LEAST_TESTS} are needed.")
    over = metrics.over_plain
    if over is not None and not over.costs_hold:
        return PayPanel(f"Cannot tell which length pays: {parted_words(over)}.")
    recording = metrics.overhead.value if metrics.overhead is not None else None
    return PayPanel("", curve, pay_words(curve), point_text(curve, recording), reach_text(curve))


def _no_curve(
    header: Header | None, found: Calibration | None, metrics: "Metrics | None", knobs: Mapping[str, Any]
) -> str:
    if header is None or metrics is None or not metrics.n_rounds:
        return "No round has ended yet."
    if not isinstance(knobs.get("gamma"), int) or not metrics.n_drafted:
        return "This method has no draft length to choose (no knob gamma)."
    if header.method_traits.pipelined:
        return "Drafting goes on beside the target's pass here; see what a token costs, above."
    if header.method_traits.exits != "none":
        return "Drafts climb the target's own layers here: their length is the depth of exits."
    if found is None or len(found.widths) < 2 or len(found.target_ns) != len(found.widths):
        return "This trace holds no costs by rows: what a wider pass takes was not measured."
    if metrics.position_acceptance is None:
        return "This verifier accepts what it never tests, so acceptance by position is not known."
    if metrics.depth_acceptance is not None and metrics.depth_acceptance != metrics.position_acceptance:
        return "Drafts are trees here; the curve is one of chains."
    return ""


def pay_words(curve: Payoff) -> str:
    """The best length, by how much, and whether that can be told."""
    best, own = curve.best, curve.own
    if best == 0:
        lead = "No draft length pays here: plain decoding would be fastest"
    else:
        speed = number(curve.speeds[best], 1)
        lead = f"γ {best} would be best: {speed} tokens/s, {times(curve.over_plain)} plain decoding"
    if own is None or curve.gain is None or curve.gain_interval is None:
        return f"{lead}."
    if best == own:
        return f"{lead}. The run has the best length."
    ends = f"{growth(curve.gain_interval[0])} to {growth(curve.gain_interval[1])}"
    if not curve.told_apart:
        plain = f"By these costs γ {own} gives {times(curve.speeds[own] / curve.speeds[0])} plain decoding"
        other = f"γ {best}" if best else "plain decoding"
        tell = f"cannot tell yet whether {other} beats γ {own}: {growth(curve.gain)} ({ends})"
        return f"{plain}; {tell}."
    return f"{lead}, {growth(curve.gain)} over γ {own} ({ends})."


def point_text(curve: Payoff, recording: float | None = None) -> str:
    """The measured speed beside the one that the curve has there, which holds no `recording` (over all else)."""
    if curve.own is None or not curve.measured:
        return ""
    there = curve.speeds[curve.own]
    off = there / curve.measured
    why = ""
    if max(off, 1 / off) > _FAR:
        why = " Rounds and timed passes differ that much where another program worked beside, or the text is long."
        if recording is not None and recording >= _DEAR:
            why = f" Recording took {percent(recording)} of what all else took, which the curve has not.{why}"
    return (
        f"Measured at γ {curve.own}: {number(curve.measured, 1)} tokens/s; the curve has {number(there, 1)} there "
        f"({growth(off)}).{why}"
    )


def reach_text(curve: Payoff) -> str:
    """What the curve rests on."""
    return (
        f"Acceptance is measured to position {curve.reached}; beyond, the last measured ones are carried on. "
        "Passes by rows were timed behind a short text."
    )
