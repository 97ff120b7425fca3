"""Numbers as they stand on screen: one format each, `—` for what is not known.

A probability has no zero before the point (`.93`), a percentage a thin unit (`29 %`), a count its separators.
Nothing is rounded to certainty: a probability below 1 never prints as `1`, one above 0 never as `0`.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import permutations
from typing import TYPE_CHECKING, Any

from specviz.numerals import UNKNOWN, number, percent, prob, times

if TYPE_CHECKING:
    from specviz.metrics import Estimate

_CENTRED = 0.1  # of the width: an interval that is off its number by more is written by its ends
MINUS = "−"
BARS = "▁▂▃▄▅▆▇█"


def fine(value: float | None) -> str:
    """A probability for reading closely: `.410`, `.00036`, `3.6e-07`."""
    if value is None or not 0 < value < 0.001:
        return prob(value, 3)
    if value < 1e-5:
        return f"{value:.1e}"
    return f"{value:.{1 - math.floor(math.log10(value))}f}"[1:]


def ratio(value: float | None) -> str:
    """p/q: `.293`, `1.4`, `12`."""
    if value is None:
        return UNKNOWN
    return fine(value) if value < 1 else number(value, 2 if value < 10 else 1)


def joint(log: float | None) -> str:
    """A ratio of whole prefixes from its log, of any size: `.82`, `6.12`, `3.1e+12`, `0`."""
    if log is None:
        return UNKNOWN
    if math.isinf(log):
        return "0" if log < 0 else "∞"
    if -11 < log < 9:
        return ratio(math.exp(log))
    tens = math.floor(log / math.log(10))
    return f"{math.exp(log - tens * math.log(10)):.1f}e{tens:+d}"


_MOST_DIGITS = 18  # 17 figures tell any two numbers apart, and what is small has one figure less than digits
_SLIT = 1e-6  # share of [0, 1) below which an interval's two ends look the same


def apart(*values: float | None, least: int = 3) -> tuple[str, ...]:
    """Numbers of a comparison with the fewest digits, from `least` on, by which their order is seen; never a bound."""
    known = list(dict.fromkeys(value for value in values if value is not None and not math.isnan(value)))
    texts = dict(zip(known, _seen(known, [least] * len(known), permutations(range(len(known)), 2)), strict=True))
    return tuple(UNKNOWN if value is None else texts.get(value, UNKNOWN) for value in values)


def span(lo: float, hi: float) -> str:
    """A half-open interval of [0, 1): `[.61, .74)`; `a slit of 2e-9 at .999652`."""
    return within(None, lo, hi)[1]


def within(u: float | None, lo: float, hi: float, least: int = 3) -> tuple[str, str]:
    """A number and an interval with the fewest digits by which it is seen whether it falls in: `.743`, `[.62, .76)`."""
    if hi - lo < _SLIT:
        return _beside_slit(u, lo, hi), f"a slit of {_power(f'{max(0.0, hi - lo):.0e}')} {_place(lo)}"
    low, high, *more = _seen([lo, hi, *([] if u is None else [u])], [2, 2, least], ((0, 1), (2, 0), (2, 1)))
    return more[0] if more else UNKNOWN, f"[{low}, {high})"


def _seen(values: Sequence[float], least: Sequence[int], pairs: Iterable[tuple[int, int]]) -> list[str]:
    """Numbers in digits, more than the `least` only where one would read as 0 or 1 that is not, or the first of a pair
    would not be seen to lie below the second as it does, or not to as it does not."""
    digits, kept = list(least), [(i, j) for i, j in pairs if max(i, j) < len(values)]
    while True:
        texts = [_told(*shown_value) for shown_value in zip(values, digits, strict=False)]
        read = [float(text) for text in texts]
        wrong = {k for k, value in enumerate(values) if (read[k] in (0, 1)) != (value in (0, 1))}
        for i, j in kept:
            if (values[i] < values[j]) != (read[i] < read[j]):  # the coarser one first
                wrong |= {k for k in (i, j) if digits[k] == min(digits[i], digits[j])}
        if not wrong or max(digits) >= _MOST_DIGITS:
            return texts
        for k in wrong:
            digits[k] += 1


def _beside_slit(u: float | None, lo: float, hi: float) -> str:
    """A number as it stands beside a slit: as what the slit lies at where it falls in, else told apart from that."""
    if u is None or lo <= u < hi:
        return prob(u, 6)
    far = fine(u)
    return far if far[0] not in "<>" and far != fine(lo) else apart(u, lo)[0]


def _place(lo: float) -> str:
    text = prob(lo, 6)
    return {"<": "just above 0", ">": "just below 1"}.get(text[0], f"at {text}")


def _told(value: float, digits: int) -> str:
    """So many digits; of what is small, figures: one less than that."""
    if value in (0, 1):
        return f"{value:.0f}"
    if 0 < value < 1e-5:
        return _power(f"{value:.{digits - 2}e}") if digits < 3 else f"{value:.{digits - 2}e}"
    text = f"{value:.{digits if value >= 0.001 or value < 0 else digits - 2 - math.floor(math.log10(value))}f}"
    return text.replace("0.", ".", 1) if abs(value) < 1 else text


def _power(text: str) -> str:
    """`2e-9` of `2e-09`."""
    return text.replace("e-0", "e-")


def fraction(value: float) -> str:
    """An exact small fraction, `1/9`; else three digits, `.0628`."""
    near = Fraction(value).limit_denominator(100)
    return str(near) if abs(float(near) - value) < 1e-12 else fine(value)


def growth(ratio: float) -> str:
    """What `now / before` is: `+2 %`, `−29 %`, and from twofold on how many times, `2.5×`: percents end there."""
    if ratio >= 2:
        return times(ratio)
    return f"{'+' if ratio >= 1 else MINUS}{percent(abs(ratio - 1))}"


def uncertainty(estimate: "Estimate", show: Callable[[float], str] | None = None) -> str:
    """How far a number can be trusted: `±.04`; `[0, .13]` where its 95 % interval is not centred on it.

    Where there is none though there could be: `(n 3 too small)`, `(all 57 alike)`. Never `±0`.
    """
    if estimate.interval is None:
        words = {"few": f"(n {estimate.n} too small)", "alike": f"(all {estimate.n:,} alike)"}
        return words.get(estimate.why_unknown or "", "")
    low, high = estimate.interval
    if abs((estimate.value - low) - (high - estimate.value)) > _CENTRED * (high - low):
        show = show or number
        return f"[{show(low)}, {show(high)}]"
    return half_width((high - low) / 2)


def half_width(half: float) -> str:
    """`±.04`; something above nothing keeps a figure: `±.003`."""
    if half > 0 and float(number(half).replace(",", "")) == 0:
        return f"±{half:.1g}".replace("0.", ".", 1) if half >= 0.0001 else "±<.0001"
    return f"±{number(half)}"


def duration(ns: int | None) -> str:
    """`12 ms`, `1.4 s`, `80 µs`."""
    if ns is None:
        return UNKNOWN
    if ns < 1_000_000:
        return f"{ns / 1e3:.0f} µs"
    return f"{ns / 1e6:.0f} ms" if ns < 1_000_000_000 else f"{ns / 1e9:.1f} s"


def knob(value: Any) -> str:
    """A knob's value: `on`, `.30`, `12`, `"END"`."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float) and 0 < abs(value) < 0.01:
        return f"{value:.2g}"
    if isinstance(value, float) and value != int(value):
        return number(value)
    if isinstance(value, float):
        return f"{value:.0f}"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value)


def bar(value: float, most: float) -> str:
    """One sparkline character; the lowest is for 0 only."""
    if most <= 0 or value <= 0:
        return BARS[0]
    return BARS[min(7, max(1, round(value / most * 7)))]


def seconds(value: float) -> str:
    """`12.4 ms`, `1.2 s`."""
    return f"{number(value)} s" if value >= 1 else f"{number(value * 1e3, 1)} ms"


def short_seconds(value: float | None) -> str:
    """`1.4 s`, `12 ms`, `-80 ms`, `∞`; two figures are enough to choose by."""
    if value is None or math.isinf(value):
        return UNKNOWN if value is None else "∞"
    if value == 0:
        return "0 s"
    size = abs(value)
    scale, unit = (1.0, "s") if size >= 1 else (1e3, "ms") if size >= 1e-3 else (1e6, "µs")
    return f"{number(value * scale, 0 if size * scale >= 10 else 1)} {unit}"


def ordinal(rank: int) -> str:
    """`3rd`."""
    suffix = "th" if 10 <= rank % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    return f"{rank:,}{suffix}"


def share(part: float, whole: float) -> float | None:
    """Of nothing there is no share."""
    return part / whole if whole else None


def mean(values: Sequence[float]) -> float | None:
    """Of nothing there is no mean."""
    return share(sum(values), len(values))
