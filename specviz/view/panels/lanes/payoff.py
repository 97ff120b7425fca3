"""What another draft length would give, from the record `calibration` and the metrics of the rounds so far.

What it cannot tell it says.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from specviz.cost.payoff import LEAST_TESTS, Payoff, PositionChance, RoundCosts, payoff
from specviz.events import Calibration, Header
from specviz.numerals import number, percent, plural, times
from specviz.runlog.run import Mark
from specviz.view.blocks import Block, Plot, PlotCurve, Words
from specviz.view.judge.judgement import parted_words
from specviz.view.words.numbers import growth

if TYPE_CHECKING:
    from specviz.metrics import Metrics

_DEAR = 0.05  # recording, over all else, from which on it is named there
_FAR = 1.25  # prediction over measurement, or the other way round, from which on it is explained
_GROWS = 0.8  # draft calls a drafted token from which on drafting takes a step for each


@dataclass(frozen=True, slots=True)
class PayPanel:
    """Tokens a second by draft length. `point`: the run's length and its measured speed."""

    missing: str = ""
    curve: Payoff | None = None
    words: str = ""
    point_text: str = ""
    note: str = ""

    def __iter__(self) -> Iterator[Block]:
        if self.curve is None:
            yield Words(self.missing)
            return
        yield from (Words(self.words, strong=True), _chart(self.curve, f"{self.words} {self.point_text}"))
        yield from (Words(text) for text in (self.point_text, self.note) if text)


def _chart(curve: Payoff, words: str) -> Plot:
    xs = tuple(curve.gammas)
    curves = [
        PlotCurve("tokens/s by γ", tuple(curve.speeds), look="line", lows=tuple(curve.low), highs=tuple(curve.high))
    ]
    if curve.own is not None and curve.measured:
        measured = tuple(curve.measured if x == curve.own else None for x in xs)
        curves.append(PlotCurve("this run, measured", measured, "root", "dots"))
    signs: list[tuple[int, str, Mark]] = [(xs.index(curve.best), "best", "accepted")]
    if curve.own in xs and curve.own != curve.best:
        signs.append((xs.index(curve.own), "this run's", "recovered"))
    return Plot(
        "lanes-payoff",
        "Would another draft length pay",
        "γ draft length, 0 is plain decoding",
        xs,
        tuple(curves),
        help="Tokens a round from acceptance by position, divided by what a round of that length takes: measured "
        "passes by rows, drafting, and the host's work.",
        words=words,
        signs=tuple(signs),
    )


def pay_object(pay: PayPanel) -> dict[str, Any]:
    """The curve as plain data for JSON; null, with the reason, where there is none."""
    curve = pay.curve
    return {
        "payoff": asdict(curve) if curve is not None else None,
        "payoff_words": f"{pay.words} {pay.point_text}".strip() or pay.missing,
    }


def pay_panel(
    header: Header | None, calibration: Calibration | None, metrics: "Metrics | None", knobs: Mapping[str, Any]
) -> PayPanel:
    """The curve of a run that drafts chains, or why there is none."""
    missing = _no_curve(header, calibration, metrics, knobs)
    if missing or calibration is None or metrics is None:
        return PayPanel(missing)
    stages = {name: took.value / 1e3 for name, took in (metrics.stage_ms or {}).items()}
    drafted, calls = metrics.n_drafted / metrics.n_rounds, metrics.n_draft_calls / metrics.n_rounds
    drafting = stages.get("draft", 0.0)
    grows = drafted > 0 and calls >= _GROWS * drafted
    over = metrics.over_plain
    slower = (over.slower if over is not None else None) or 1.0
    costs = RoundCosts(
        tuple(calibration.widths),
        tuple(ns * slower / 1e9 for ns in calibration.target_ns),
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
    if over is not None and not over.costs_hold:
        return PayPanel(f"Cannot tell which length pays: {parted_words(over)}.")
    recording = metrics.overhead.value if metrics.overhead is not None else None
    return PayPanel("", curve, pay_words(curve), point_text(curve, recording), reach_text(curve))


def _no_curve(
    header: Header | None, calibration: Calibration | None, metrics: "Metrics | None", knobs: Mapping[str, Any]
) -> str:
    if header is None or metrics is None or not metrics.n_rounds:
        return "No round has ended yet."
    if not isinstance(knobs.get("gamma"), int) or not metrics.n_drafted:
        return "This method has no draft length to choose (no knob gamma)."
    if header.method_traits.pipelined:
        return (
            "Drafting goes on beside the target's pass here; the curve is of rounds that draft first and verify then."
        )
    if header.method_traits.exits != "none":
        return "Drafts climb the target's own layers here: their length is the depth of exits."
    if calibration is None or len(calibration.widths) < 2 or len(calibration.target_ns) != len(calibration.widths):
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
