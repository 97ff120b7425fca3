"""`judge(run, tally, metrics) -> RunJudgement`: tokens a round, speed-up over plain decoding, what stands out."""

from dataclasses import replace
from typing import TYPE_CHECKING

from specviz.judge.evidence import Evidence, Find, RoundsCounted
from specviz.judge.judging import judge as findings_of
from specviz.numerals import number, percent, plural, times
from specviz.runlog.fold import Run
from specviz.view.frame.judgement import NO_JUDGEMENT, RunJudgement
from specviz.view.judge.outside import run_card
from specviz.view.words.numbers import uncertainty

if TYPE_CHECKING:
    from specviz.metrics import Metrics, PlainSpeed, Tally

PLAIN = "plain decoding (baseline)"
UNKNOWN_SPEED = "speed-up over plain decoding not on record"
TOO_FEW = "speed-up over plain decoding not known after one round"
CANNOT_TELL = "× plain decoding: cannot tell, the machine changed under the run"
_BASIS = {
    "timed": "a pass of plain decoding, timed between the rounds of this very run, took {ms} ms (median)",
    "behind": "a pass of plain decoding took {ms} ms right behind the text and {own} ms by the run's own passes; a "
    "plain round counts as that pass alone",
    "rounds": "plain rounds of this very run took {ms} ms each (median)",
    "pass": "a pass of the target over one row takes {ms} ms timed alone{ago} and {own} ms by the run's own passes; a "
    "plain round counts as that pass alone",
    "stage": "no plain round was timed: one counts like the target's passes of this run, {own} ms, less what their "
    "rows may have cost",
    "layers": "no plain round was timed: layers of a whole pass over the layers that ran for a token",
}


def judge(run: Run, tally: "Tally", metrics: "Metrics | None", find: Find | None = None) -> RunJudgement:
    """The judgement on the rounds that the tally has counted; nothing before the first one.

    `find`: the index of a round by its query and number, for a run that does not hold its rounds.
    """
    if metrics is None or not metrics.n_rounds:
        return replace(NO_JUDGEMENT, card=run_card(run, tally, metrics))
    counted = RoundsCounted(run, tally, metrics, find)
    speed = counted.speed
    trusted = speed if speed is not None and speed.trusted is not None else None
    return RunJudgement(
        tokens=_tokens(metrics),
        speed=PLAIN if run.method_traits.plain else UNKNOWN_SPEED if speed is None else _speed(speed),
        basis="" if trusted is None else "measured" if trusted.measured else "modelled",
        basis_words="" if speed is None else basis_words(speed),
        findings=findings_of(Evidence(rounds=(counted,))),
        confidence=counted.confidence,
        n_rounds=metrics.n_rounds,
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
    if speed.trusted is None:
        return TOO_FEW if speed.times.n == 1 else CANNOT_TELL
    ends = speed.trusted.interval
    modelled = speed.basis == "stage" and speed.plain_ms != speed.own_ms
    if ends is not None and (modelled or ends[0] < 1 < ends[1]):  # a number in its middle would look like a verdict
        return f"{times(ends[0]).removesuffix('×')}–{times(ends[1])} plain decoding"
    return f"{times(speed.trusted.value)} plain decoding"


def basis_words(speed: "PlainSpeed") -> str:
    """How the speed-up came about, or why it cannot be told; what exact rows cost."""
    values = {"ms": number(speed.plain_ms, 1), "own": number(speed.own_ms, 1), "ago": _ago(speed.age_s)}
    price = f" {exact_price(speed)}" if speed.price is not None else ""
    if not speed.agrees and speed.times.n > 1:
        return f"Whether it is faster than plain decoding cannot be told: {parted_words(speed)}.{price}"
    words = f"{_BASIS[speed.basis].format(**values)}. Time spent on recording is left out.{price}"
    within = uncertainty(speed.times, times)
    if speed.basis == "stage" and speed.plain_ms != speed.own_ms:  # a range, in whose middle nothing was measured
        return f"{words[0].upper()}{words[1:]}"
    return f"{times(speed.times.value)} {within}: {words}" if within else words


def parted_words(speed: "PlainSpeed") -> str:
    """How far apart two measurements of one pass are, and what that means."""
    own = f"a pass over one row took {number(speed.own_ms, 1)} ms by the run's own passes"
    if speed.basis == "rounds" and not speed.agrees:
        other = f"plain rounds {number(speed.plain_ms, 1)} ms each"
    elif speed.basis == "behind" and not speed.agrees:
        other = f"{number(speed.plain_ms, 1)} ms right behind the text"
    else:
        other = f"{number(speed.alone_ms, 1)} ms when timed alone{_ago(speed.age_s)}"
    return f"{own}, {other}; other programs, or the screen itself, worked beside one of them"


def exact_price(speed: "PlainSpeed") -> str:
    """What it costs that rows keep their bits, where they need padding for that."""
    assert speed.price is not None
    return (
        f"Exact rows are padded: a pass over one takes {times(speed.price)} as long as without. Plain decoding is "
        "counted without."
    )


def _ago(seconds: float | None) -> str:
    """How old a timing is, where that may matter."""
    minutes = 0 if seconds is None else round(seconds / 60)
    return f" {plural(minutes, 'minute')} earlier" if minutes else ""
