"""`judge(run, tally, metrics) -> RunJudgement`: tokens a round, speed-up over plain decoding, what stands out."""

from dataclasses import replace
from typing import TYPE_CHECKING

from specviz.runlog.fold import Run
from specviz.view.frame.judgement import NO_JUDGEMENT, RunJudgement
from specviz.view.judge.findings import Find, JudgedRun, found
from specviz.view.judge.outside import run_card
from specviz.view.words.numbers import number, percent, times, uncertainty

if TYPE_CHECKING:
    from specviz.metrics import Metrics, PlainSpeed, Tally

PLAIN = "plain decoding: what the others are measured by"
UNKNOWN_SPEED = "speed-up over plain decoding not on record"
_BASIS = {
    "rounds": "plain rounds of this very run took {ms} ms each (median)",
    "pass": "a pass of the target over one row, timed beside the run, takes {ms} ms; a plain round counts as that "
    "pass alone",
    "stage": "no plain round was timed: one counts like the target's passes of this run, {ms} ms, which feed more "
    "rows, so that the true speed-up is a little smaller",
    "layers": "no plain round was timed: layers of a whole pass over the layers that ran for a token",
}


def judge(run: Run, tally: "Tally", metrics: "Metrics | None", find: Find | None = None) -> RunJudgement:
    """The judgement on the rounds that the tally has counted; nothing before the first one.

    `find`: the index of a round by its query and number, for a run that does not hold its rounds.
    """
    from specviz.metrics import plain_speed

    if metrics is None or not metrics.n_rounds:
        return replace(NO_JUDGEMENT, card=run_card(run, tally, metrics))
    speed, confidence = plain_speed(tally), tally.confidence.bands()
    return RunJudgement(
        tokens=_tokens(metrics),
        speed=PLAIN if run.method_traits.plain else UNKNOWN_SPEED if speed is None else _speed(speed),
        basis="" if speed is None else "measured" if speed.measured else "modelled",
        basis_words="" if speed is None else _basis(speed),
        findings=found(JudgedRun(run, tally, metrics, speed, confidence, find)),
        confidence=confidence,
        card=run_card(run, tally, metrics),
    )


def _tokens(metrics: "Metrics") -> str:
    length = metrics.mean_acceptance_length
    if length is None:
        return _times(metrics) if metrics.n_emitted is None else ""
    within = f" {uncertainty(length)}" if length.interval is not None else ""
    return f"{number(length.value)}{within} {'token' if length.value == 1 else 'tokens'} a round"


def _times(metrics: "Metrics") -> str:
    """Of a profile, which knows no tokens: what a round takes, and where it goes."""
    if metrics.round_ms is None:
        return ""
    whole = sum(took.value for took in metrics.stage_ms.values()) or 1.0
    shares = (f"{name} {percent(took.value / whole)}" for name, took in metrics.stage_ms.items())
    return f"{number(metrics.round_ms.value)} ms a round: {', '.join(shares)}"


def _speed(speed: "PlainSpeed") -> str:
    return f"{times(speed.times.value)} plain decoding"


def _basis(speed: "PlainSpeed") -> str:
    said = _BASIS[speed.basis].format(ms=number(speed.plain_ms, 1))
    within = uncertainty(speed.times, times)
    return (
        f"{times(speed.times.value)} {within}: {said}. Time spent on recording is left out." if within else f"{said}."
    )
